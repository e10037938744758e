/* Streams of the simulated GPU, threads that do their work in order, the events between them, and the capture of what is put into
 * them.
 */
#include "stream.h"

#include "graph.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

/* What streams take part in: one begins it, others join by an event of it, and it ends for all at the same time. */
struct capture {
	cudaGraph_t graph; /* null: it has ended */
};

/* Where a stream, or an event, is in a capture: behind these nodes. */
struct capture_place {
	std::shared_ptr<capture> of;
	smd_nodes behind;

	bool active() const
	{
		return of && of->graph;
	}

	void add(std::function<smd_work()> arm)
	{
		behind = {smd_graph_add(of->graph, behind, std::move(arm))};
	}
};

struct CUstream_st {
	std::mutex lock;
	std::condition_variable changed;
	std::deque<std::function<void()>> work;
	capture_place captured;
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
	capture_place captured; /* when it was recorded last */
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

	if (stream->captured.active()) {
		stream->captured.add([work] { return work; });
		return;
	}
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

/* Of a stream that is captured nothing is done that could be waited for. */
cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
	CUstream_st *stream = stream_of(handle);
	std::unique_lock<std::mutex> hold(stream->lock);

	if (stream->captured.active()) {
		return cudaErrorStreamCaptureUnsupported;
	}
	stream->changed.wait(hold, [=] { return stream->idle(); });
	return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
	CUstream_st *stream = stream_of(handle);
	std::lock_guard<std::mutex> hold(stream->lock);

	if (stream->captured.active()) {
		return cudaErrorStreamCaptureUnsupported;
	}
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

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
	if (stream_of(stream) != stream || stream->captured.active()) {
		return cudaErrorStreamCaptureUnsupported;
	}
	stream->captured = {std::make_shared<capture>(capture{smd_graph_create()}), {}};
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	if (!stream->captured.active()) {
		return cudaErrorIllegalState;
	}
	*graph = stream->captured.of->graph;
	stream->captured.of->graph = nullptr;
	return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus *status,
	unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **behind,
	const cudaGraphEdgeData **edges, size_t *count)
{
	capture_place &captured = stream_of(handle)->captured;

	*status = captured.active() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
	if (!captured.active()) {
		return cudaSuccess;
	}
	if (id) {
		*id = smd_graph_id(captured.of->graph);
	}
	if (graph) {
		*graph = captured.of->graph;
	}
	if (behind) {
		*behind = captured.behind.data();
		*count = captured.behind.size();
	}
	if (edges) {
		*edges = nullptr; /* no edge has data */
	}
	return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
	return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
	const cudaGraphEdgeData *, size_t count, unsigned flags)
{
	smd_nodes &behind = stream->captured.behind;

	if (!stream->captured.active()) {
		return cudaErrorIllegalState;
	}
	if (flags == cudaStreamSetCaptureDependencies) {
		behind.clear();
	}
	behind.insert(behind.end(), nodes, nodes + count);
	return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
	smd_stream_add(stream, [=] { function(argument); });
	return cudaSuccess;
}

/* ---- events ---- */

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

std::function<smd_work()> smd_event_record(cudaEvent_t event)
{
	return [at = event->at] {
		unsigned long turn = at->record();

		return [at, turn] { at->pass(turn); };
	};
}

std::function<smd_work()> smd_event_wait(cudaEvent_t event)
{
	return [at = event->at] {
		unsigned long turn = at->last();

		return [at, turn] { at->wait(turn); };
	};
}

/* In a capture an event is where the stream is in it, and nothing is done. */
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	event->captured = stream_of(stream)->captured;
	if (!event->captured.active()) {
		smd_stream_add(stream, smd_event_record(event)());
	}
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

/* A stream that waits for an event of a capture takes part in it from there on. An event that is recorded elsewhere must be
 * declared to be. */
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
	CUstream_st *stream = stream_of(handle);
	capture_place &own = stream->captured, &other = event->captured;

	if (own.active() && flags == cudaEventWaitExternal) {
		own.add(smd_event_wait(event));
	} else if (other.active()) {
		if (own.active() && own.of != other.of) {
			return cudaErrorStreamCaptureMerge;
		}
		if (!own.active()) {
			own = {other.of, {}};
		}
		own.behind.insert(own.behind.end(), other.behind.begin(), other.behind.end());
	} else if (own.active()) {
		return cudaErrorStreamCaptureIsolation;
	} else {
		smd_stream_add(handle, smd_event_wait(event)());
	}
	return cudaSuccess;
}
