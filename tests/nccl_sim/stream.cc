/* Streams of the simulated GPU, threads that do their work in order, and the events between them.
 */
#include "stream.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

struct CUstream_st {
	std::mutex lock;
	std::condition_variable changed;
	std::deque<std::function<void()>> work;
	bool busy = false, stop = false;
	std::thread thread;

	CUstream_st() : thread([this] { run(); })
	{
	}

	bool idle() const
	{
		return work.empty() && !busy;
	}

	void run()
	{
		std::unique_lock<std::mutex> hold(lock);

		for (;;) {
			changed.wait(hold, [this] { return stop || !work.empty(); });
			if (work.empty()) {
				return;
			}
			auto next = std::move(work.front());

			work.pop_front();
			busy = true;
			hold.unlock();
			next();
			next = nullptr; /* what it holds is free before the stream is idle */
			hold.lock();
			busy = false;
			changed.notify_all();
		}
	}
};

/* A place in a stream: turns count how often it was recorded, and passed. It outlives its handle
 * where a stream has yet to pass it. */
struct place {
	std::mutex lock;
	std::condition_variable changed;
	unsigned long recorded = 0, passed = 0;

	unsigned long record()
	{
		std::lock_guard<std::mutex> hold(lock);

		return ++recorded;
	}

	unsigned long last()
	{
		std::lock_guard<std::mutex> hold(lock);

		return recorded;
	}

	void pass(unsigned long turn)
	{
		std::lock_guard<std::mutex> hold(lock);

		passed = std::max(passed, turn);
		changed.notify_all();
	}

	void wait(unsigned long turn)
	{
		std::unique_lock<std::mutex> hold(lock);

		changed.wait(hold, [&] { return passed >= turn; });
	}
};

struct CUevent_st {
	std::shared_ptr<place> at = std::make_shared<place>();
};

/* Null and CUDA's two special handles are the default stream. */
static CUstream_st *stream_of(cudaStream_t stream)
{
	static CUstream_st *standard = new CUstream_st();

	return (uintptr_t)stream <= (uintptr_t)cudaStreamPerThread ? standard : stream;
}

void smd_stream_add(cudaStream_t handle, std::function<void()> work)
{
	CUstream_st *stream = stream_of(handle);
	std::lock_guard<std::mutex> hold(stream->lock);

	stream->work.push_back(std::move(work));
	stream->changed.notify_all();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	*stream = new CUstream_st();
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	{
		std::lock_guard<std::mutex> hold(stream->lock);

		stream->stop = true;
		stream->changed.notify_all();
	}
	stream->thread.join();
	delete stream;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
	CUstream_st *stream = stream_of(handle);
	std::unique_lock<std::mutex> hold(stream->lock);

	stream->changed.wait(hold, [=] { return stream->idle(); });
	return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
	CUstream_st *stream = stream_of(handle);
	std::lock_guard<std::mutex> hold(stream->lock);

	return stream->idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize()
{
	return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	*id = (uintptr_t)stream_of(stream);
	return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status)
{
	*status = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus *status,
	unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **, const cudaGraphEdgeData **,
	size_t *)
{
	*status = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
	smd_stream_add(stream, [=] { function(argument); });
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	*event = new CUevent_st();
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	delete event;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	auto at = event->at;
	unsigned long turn = at->record();

	smd_stream_add(stream, [=] { at->pass(turn); });
	return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	std::lock_guard<std::mutex> hold(event->at->lock);

	return event->at->passed >= event->at->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	event->at->wait(event->at->last());
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	auto at = event->at;
	unsigned long turn = at->last();

	smd_stream_add(stream, [=] { at->wait(turn); });
	return cudaSuccess;
}
