/*
 * CUDA devices, through the driver's interface (cuda_driver.c). It is not initialized here: until
 * the program does that, no memory is a device's.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/libsummand/cuda_word.h"
#include "worker/libsummand/host_memory.h"

/* ---- locations ---- */

/* `known`: the driver has said whose memory it is. */
static CUresult cuda_ask(const void *pointer, struct smd_device_location *out, bool *known)
{
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_BUFFER_ID};
	unsigned type = 0;
	unsigned managed = 0;
	CUcontext context = NULL;
	int ordinal = -1;
	unsigned long long id = 0;
	void *values[] = {&type, &managed, &context, &ordinal, &id};
	CUresult result =
		smd_cuda.cuPointerGetAttributes(5, attributes, values, (CUdeviceptr)pointer);

	*known = result == CUDA_SUCCESS && type != 0;
	if (*known && type == CU_MEMORYTYPE_DEVICE && !managed) {
		*out = (struct smd_device_location){ordinal, context, id};
	}
	return result;
}

/* Asks in the primary context of the first device that has one in use, where all devices' memory is
 * known. `tried`: there is one. */
static int cuda_ask_primary(
	const void *pointer, struct smd_device_location *out, bool *tried, struct smd_error *error)
{
	int devices = 0;
	int ret = CUDA(error, cuDeviceGetCount, &devices);

	*tried = false;
	for (int i = 0; ret == 0 && i < devices && !*tried; i++) {
		CUcontext context;
		CUdevice handle;
		unsigned flags;
		int active = 0;
		bool known;

		ret = CUDA(error, cuDeviceGet, &handle, i);
		ret = ret ? ret : CUDA(error, cuDevicePrimaryCtxGetState, handle, &flags, &active);
		if (ret || !active) {
			continue;
		}
		*tried = true;
		ret = CUDA(error, cuDevicePrimaryCtxRetain, &context, handle);
		if (ret) {
			break;
		}
		ret = smd_cuda_enter_context(context, error);
		if (ret == 0) {
			ret = smd_cuda_result(
				cuda_ask(pointer, out, &known), "cuPointerGetAttributes", error);
			smd_cuda_leave();
		}
		smd_cuda.cuDevicePrimaryCtxRelease(handle);
	}
	return ret;
}

/*
 * On a thread without a context the driver knows nothing of any memory, a device's or not, and some
 * say so. Where no primary context is in use either, some other may be: only what the processor
 * reads is then surely the host's.
 */
static int cuda_locate_without_context(
	const void *pointer, struct smd_device_location *out, struct smd_error *error)
{
	bool tried;
	int ret = cuda_ask_primary(pointer, out, &tried, error);

	if (ret == 0 && !tried && !smd_host_memory_is_readable(pointer, 1)) {
		return smd_error_set(error, EINVAL,
			"%p must be memory of this process or of a device whose primary context "
			"is in use; the calling thread has no CUDA context that would know it",
			pointer);
	}
	return ret;
}

static int cuda_locate(
	const void *pointer, struct smd_device_location *out, struct smd_error *error)
{
	CUcontext current = NULL;
	bool known;
	CUresult result;

	*out = (struct smd_device_location){.ordinal = -1};
	result = cuda_ask(pointer, out, &known);
	if (known || result == CUDA_ERROR_NOT_INITIALIZED) {
		return 0; /* or nobody uses CUDA in this process yet */
	}
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_CONTEXT) {
		return smd_cuda_result(result, "cuPointerGetAttributes", error);
	}
	if (smd_cuda.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current) {
		return smd_cuda_result(result, "cuPointerGetAttributes", error);
	}
	return cuda_locate_without_context(pointer, out, error);
}

int smd_cuda_locate(const void *pointer, struct smd_device_location *out, struct smd_error *error)
{
	CUstreamCaptureMode mode = smd_cuda_relax();
	int ret = cuda_locate(pointer, out, error);

	smd_cuda_restore(mode);
	return ret;
}

/* ---- notices ---- */

static int cuda_notice_result(const struct smd_notice *notice, struct smd_error *error)
{
	return smd_cuda_result((CUresult)notice->status, notice->what, error);
}

/* ---- devices ---- */

static void cuda_end_stream(const struct smd_device_stream *stream)
{
	if (stream->stream) {
		smd_cuda.cuStreamSynchronize(stream->stream);
		smd_cuda.cuStreamDestroy(stream->stream);
	}
}

/* A stream of the user's may still write its word, unless its work has failed. */
static void cuda_fence_destroy(struct smd_fence *fence)
{
	while (fence->notice.status == CUDA_SUCCESS && !smd_cuda_over(&fence->notice, true)) {
		usleep(1000);
	}
	free(fence);
}

/* Frees what is there, and releases the primary context. */
static void cuda_close(struct smd_device *device)
{
	CUstreamCaptureMode mode = smd_cuda_relax();
	CUdevice handle;

	while (!SLIST_EMPTY(&device->fences)) {
		struct smd_fence *fence = SLIST_FIRST(&device->fences);

		SLIST_REMOVE_HEAD(&device->fences, link);
		cuda_fence_destroy(fence);
	}
	if (smd_cuda_enter(device, NULL) == 0) {
		cuda_end_stream(&device->reading);
		cuda_end_stream(&device->writing);
		smd_cuda_words_free(device);
		smd_cuda_leave();
	}
	if (smd_cuda.cuDeviceGet(&handle, device->location.ordinal) == CUDA_SUCCESS) {
		smd_cuda.cuDevicePrimaryCtxRelease(handle);
	}
	smd_cuda_restore(mode);
	free(device);
}

/* Not blocking: it must not wait for what happens to be in the legacy default stream. */
static int cuda_create_stream(
	struct smd_device *device, struct smd_device_stream *stream, struct smd_error *error)
{
	int ret = smd_cuda_word_take(device, &stream->word, error);

	return ret ? ret
		   : CUDA(error, cuStreamCreate, (CUstream *)&stream->stream,
			     CU_STREAM_NON_BLOCKING);
}

static int cuda_create_streams(struct smd_device *device, struct smd_error *error)
{
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = cuda_create_stream(device, &device->reading, error);
	ret = ret ? ret : cuda_create_stream(device, &device->writing, error);
	ret = ret ? ret
		  : smd_cuda_word_try(device, device->reading.stream, device->reading.word, error);
	smd_cuda_leave();
	return ret;
}

static int cuda_retain(int ordinal, CUcontext *primary, struct smd_error *error)
{
	CUstreamCaptureMode mode = smd_cuda_relax();
	CUdevice handle;
	int ret = CUDA(error, cuDeviceGet, &handle, ordinal);

	if (ret == 0) {
		ret = CUDA(error, cuDevicePrimaryCtxRetain, primary, handle);
	}
	smd_cuda_restore(mode);
	return ret;
}

/* The primary context is kept as long as the device is used, whether the memory is its or not. */
static int cuda_open(const struct smd_device_location *location, struct smd_device **out,
	struct smd_error *error)
{
	struct smd_device *device = calloc(1, sizeof(*device));
	CUcontext primary;
	int ret;

	if (!device) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = cuda_retain(location->ordinal, &primary, error);
	if (ret) {
		free(device);
		return ret;
	}
	device->location = *location;
	device->context = location->context ? location->context : primary;
	ret = cuda_create_streams(device, error);
	if (ret) {
		cuda_close(device);
		return ret;
	}
	*out = device;
	return 0;
}

static int cuda_pin(struct smd_device *device, size_t bytes, void **out, struct smd_error *error)
{
	int ret = smd_cuda_enter(device, error);

	if (ret == 0) {
		ret = CUDA(error, cuMemHostAlloc, out, bytes, CU_MEMHOSTALLOC_PORTABLE);
		smd_cuda_leave();
	}
	return ret;
}

static void cuda_unpin(struct smd_device *device, void *memory)
{
	if (smd_cuda_enter(device, NULL) == 0) {
		smd_cuda.cuMemFreeHost(memory);
		smd_cuda_leave();
	}
}

/* ---- fences ---- */

static int cuda_fence_create(
	struct smd_device *device, struct smd_fence **out, struct smd_error *error)
{
	struct smd_fence *fence = calloc(1, sizeof(*fence));
	int ret;

	if (!fence) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	fence->device = device;
	fence->notice.device = device;
	fence->notice.what = "work in the user's stream";
	ret = smd_cuda_enter(device, error);
	if (ret == 0) {
		ret = smd_cuda_word_take(device, &fence->notice.word, error);
		smd_cuda_leave();
	}
	if (ret) {
		free(fence);
	}
	*out = ret ? NULL : fence;
	return ret;
}

/* Whatever else is put into it would become part of the graph, or spoil it. */
static int cuda_check_capture(CUstream stream, struct smd_error *error)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = smd_cuda.cuStreamIsCapturing(stream, &status);

	if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
		return smd_error_set(error, EINVAL,
			"the default stream cannot be followed while a stream that it waits for "
			"is captured into a CUDA graph");
	}
	if (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) {
		return smd_error_set(error, EINVAL,
			"operations cannot be captured into CUDA graphs, and the stream is being "
			"captured");
	}
	return smd_cuda_result(result, "cuStreamIsCapturing", error);
}

static int cuda_fence_set(struct smd_fence *fence, void *stream, struct smd_error *error)
{
	int ret = smd_cuda_enter(fence->device, error);

	if (ret) {
		return ret;
	}
	ret = cuda_check_capture(stream, error);
	if (ret == 0) {
		fence->notice.status = CUDA_SUCCESS;
		fence->notice.number++;
		ret = smd_cuda_word_write(stream, &fence->notice, error);
		if (ret) {
			fence->notice.number--; /* only then: a callback may be reading it by now */
		}
	}
	smd_cuda_leave();
	return ret;
}

/* ---- copies ---- */

/* After a copy was begun. If its end cannot be heard of, it is awaited here. */
static int cuda_announce_copy(struct smd_device *device, struct smd_device_stream *stream,
	struct smd_notice *notice, struct smd_error *error)
{
	int ret;

	notice->device = device;
	notice->word = stream->word;
	notice->number = ++stream->number;
	ret = smd_cuda_word_write(stream->stream, notice, error);
	if (ret) {
		smd_cuda.cuStreamSynchronize(stream->stream);
	}
	return ret;
}

static int cuda_read(struct smd_device *device, void *host, const void *pointer, size_t bytes,
	struct smd_notice *notice, struct smd_error *error)
{
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	notice->what = "cuMemcpyDtoHAsync";
	ret = CUDA(error, cuMemcpyDtoHAsync, host, (CUdeviceptr)pointer, bytes,
		device->reading.stream);
	if (ret == 0) {
		ret = cuda_announce_copy(device, &device->reading, notice, error);
	}
	smd_cuda_leave();
	return ret;
}

static int cuda_write(struct smd_device *device, void *pointer, const void *host, size_t bytes,
	struct smd_notice *notice, struct smd_error *error)
{
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	notice->what = "cuMemcpyHtoDAsync";
	ret = CUDA(error, cuMemcpyHtoDAsync, (CUdeviceptr)pointer, host, bytes,
		device->writing.stream);
	if (ret == 0) {
		ret = cuda_announce_copy(device, &device->writing, notice, error);
	}
	smd_cuda_leave();
	return ret;
}

static int cuda_write_now(struct smd_device *device, void *pointer, const void *host, size_t bytes,
	struct smd_error *error)
{
	CUstream stream = device->writing.stream;
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = CUDA(error, cuMemcpyHtoDAsync, (CUdeviceptr)pointer, host, bytes, stream);
	if (ret == 0) {
		ret = CUDA(error, cuStreamSynchronize, stream);
	}
	smd_cuda_leave();
	return ret;
}

static const struct smd_device_ops cuda_ops = {
	.locate = smd_cuda_locate,
	.open = cuda_open,
	.close = cuda_close,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.fence_create = cuda_fence_create,
	.fence_set = cuda_fence_set,
	.read = cuda_read,
	.write = cuda_write,
	.write_now = cuda_write_now,
	.export = smd_cuda_export,
	.identify = smd_cuda_identify,
	.flush = smd_cuda_flush,
	.check_cards = smd_cuda_check_cards,
	.flush_current = smd_cuda_flush_current,
	.over = smd_cuda_over,
	.result = cuda_notice_result,
};

const struct smd_device_ops *smd_device_ops(void)
{
	return smd_cuda_load() ? &cuda_ops : NULL;
}
