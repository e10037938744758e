/*
 * CUDA devices, through the driver's interface.
 *
 * The driver is opened when the first context is made, never linked: the same library runs where
 * there is none. It is not initialized here: until the program does that, no memory is a device's.
 * SUMMAND_CUDA_DRIVER names another file to open, for tests.
 *
 * Ends of work are heard of through cuStreamAddCallback(). The newer cuLaunchHostFunc() is not
 * called after an error in the context, so an operation would wait for ever; and to ask events
 * again and again would cost a processor for as long as the user's work takes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/cuda_driver.h"

#define TEXT(name) #name
struct smd_cuda smd_cuda;
static bool driver_found;

int smd_cuda_result(CUresult result, const char *call, struct smd_error *error)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS) {
		return 0;
	}
	if (smd_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) {
		return smd_error_set(error, EIO, "%s: CUDA error %d", call, (int)result);
	}
	return smd_error_set(
		error, result == CUDA_ERROR_OUT_OF_MEMORY ? ENOMEM : EIO, "%s: %s", call, name);
}

/* ---- the driver ---- */

static bool driver_take_calls(void *library, const char *path)
{
#define X(name)                                                                                    \
	smd_cuda.name = (__typeof__(smd_cuda.name))dlsym(library, TEXT(name));                     \
	if (!smd_cuda.name) {                                                                      \
		smd_log(SMD_LOG_WARN, "libsummand", "%s: has no %s, so device memory is not used", \
			path, TEXT(name));                                                         \
		return false;                                                                      \
	}
	CUDA_CALLS(X)
#undef X
#define X(name) smd_cuda.name = (__typeof__(smd_cuda.name))dlsym(library, TEXT(name));
	CUDA_NEWER_CALLS(X)
#undef X
	return true;
}

static void driver_load(void)
{
	const char *path = secure_getenv("SUMMAND_CUDA_DRIVER");
	void *library;

	path = path && *path ? path : "libcuda.so.1";
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		smd_log(SMD_LOG_DEBUG, "libsummand", "no CUDA driver: %s", dlerror());
		return;
	}
	driver_found = driver_take_calls(library, path);
	if (!driver_found) {
		dlclose(library);
	}
}

/* ---- locations ---- */

int smd_cuda_locate(const void *pointer, struct smd_device_location *out, struct smd_error *error)
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

	*out = (struct smd_device_location){.ordinal = -1};
	if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT) {
		return 0; /* nobody uses CUDA in this process yet, or not on this thread */
	}
	if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && !managed) {
		*out = (struct smd_device_location){ordinal, context, id};
	}
	return smd_cuda_result(result, "cuPointerGetAttributes", error);
}

int smd_cuda_enter(const struct smd_device *device, struct smd_error *error)
{
	return CUDA(error, cuCtxPushCurrent, device->context);
}

void smd_cuda_leave(void)
{
	CUcontext context;

	smd_cuda.cuCtxPopCurrent(&context);
}

/* ---- notices ---- */

static void CUDA_CB cuda_on_done(CUstream stream, CUresult status, void *arg)
{
	struct smd_notice *notice = arg;

	(void)stream;
	notice->status = (int)status;
	smd_progress_defer(notice->progress, &notice->task);
}

/* The notice comes when what is in the stream is done. */
static int cuda_announce(struct smd_device *device, CUstream stream, const char *what,
	struct smd_notice *notice, struct smd_error *error)
{
	notice->progress = device->progress;
	notice->what = what;
	return CUDA(error, cuStreamAddCallback, stream, cuda_on_done, notice, 0);
}

static int cuda_notice_result(const struct smd_notice *notice, struct smd_error *error)
{
	return smd_cuda_result((CUresult)notice->status, notice->what, error);
}

/* ---- devices ---- */

static void cuda_end_stream(CUstream stream)
{
	if (stream) {
		smd_cuda.cuStreamSynchronize(stream);
		smd_cuda.cuStreamDestroy(stream);
	}
}

static void cuda_fence_destroy(struct smd_fence *fence)
{
	cuda_end_stream(fence->stream);
	if (fence->event) {
		smd_cuda.cuEventDestroy(fence->event);
	}
	free(fence);
}

static void cuda_close(struct smd_device *device)
{
	CUdevice handle;

	if (smd_cuda_enter(device, NULL) == 0) {
		while (!SLIST_EMPTY(&device->fences)) {
			struct smd_fence *fence = SLIST_FIRST(&device->fences);

			SLIST_REMOVE_HEAD(&device->fences, link);
			cuda_fence_destroy(fence);
		}
		for (unsigned i = 0; i < SMD_DEVICE_STREAMS; i++) {
			cuda_end_stream(device->reading[i]);
			cuda_end_stream(device->writing[i]);
		}
		smd_cuda_leave();
	}
	if (smd_cuda.cuDeviceGet(&handle, device->location.ordinal) == CUDA_SUCCESS) {
		smd_cuda.cuDevicePrimaryCtxRelease(handle);
	}
	free(device);
}

static int cuda_create_streams(struct smd_device *device, struct smd_error *error)
{
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	/* Not blocking: they must not wait for what happens to be in the legacy default stream. */
	for (unsigned i = 0; ret == 0 && i < SMD_DEVICE_STREAMS; i++) {
		ret = CUDA(error, cuStreamCreate, (CUstream *)&device->reading[i],
			CU_STREAM_NON_BLOCKING);
		if (ret == 0) {
			ret = CUDA(error, cuStreamCreate, (CUstream *)&device->writing[i],
				CU_STREAM_NON_BLOCKING);
		}
	}
	smd_cuda_leave();
	return ret;
}

/* The primary context is kept as long as the device is used, whether the memory is its or not. */
static int cuda_open(const struct smd_device_location *location, struct smd_progress *progress,
	struct smd_device **out, struct smd_error *error)
{
	struct smd_device *device = calloc(1, sizeof(*device));
	CUcontext primary;
	CUdevice handle;
	int ret;

	if (!device) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = CUDA(error, cuDeviceGet, &handle, location->ordinal);
	if (ret == 0) {
		ret = CUDA(error, cuDevicePrimaryCtxRetain, &primary, handle);
	}
	if (ret) {
		free(device);
		return ret;
	}
	device->location = *location;
	device->progress = progress;
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
	ret = smd_cuda_enter(device, error);
	if (ret) {
		free(fence);
		return ret;
	}
	ret = CUDA(error, cuEventCreate, (CUevent *)&fence->event, CU_EVENT_DISABLE_TIMING);
	if (ret == 0) {
		ret = CUDA(
			error, cuStreamCreate, (CUstream *)&fence->stream, CU_STREAM_NON_BLOCKING);
	}
	if (ret) {
		cuda_fence_destroy(fence);
	}
	smd_cuda_leave();
	*out = ret ? NULL : fence;
	return ret;
}

static int cuda_fence_set_here(struct smd_fence *fence, void *stream, struct smd_error *error)
{
	CUresult result;
	int ret = CUDA(error, cuEventRecord, fence->event, stream);

	if (ret) {
		return ret;
	}
	result = smd_cuda.cuEventQuery(fence->event);
	if (result == CUDA_SUCCESS) {
		return 1;
	}
	if (result != CUDA_ERROR_NOT_READY) {
		return smd_cuda_result(result, "cuEventQuery", error);
	}
	ret = CUDA(error, cuStreamWaitEvent, fence->stream, fence->event, 0);
	if (ret == 0) {
		ret = cuda_announce(fence->device, fence->stream, "work in the user's stream",
			&fence->notice, error);
	}
	return ret;
}

static int cuda_fence_set(struct smd_fence *fence, void *stream, struct smd_error *error)
{
	int ret = smd_cuda_enter(fence->device, error);

	if (ret == 0) {
		ret = cuda_fence_set_here(fence, stream, error);
		smd_cuda_leave();
	}
	return ret;
}

/* ---- copies ---- */

/* After a copy was begun. If its end cannot be heard of, it is awaited here. */
static int cuda_announce_copy(struct smd_device *device, CUstream stream, const char *what,
	struct smd_notice *notice, struct smd_error *error)
{
	int ret = cuda_announce(device, stream, what, notice, error);

	if (ret) {
		smd_cuda.cuStreamSynchronize(stream);
	}
	return ret;
}

static int cuda_read(struct smd_device *device, void *host, const void *pointer, size_t bytes,
	struct smd_notice *notice, struct smd_error *error)
{
	CUstream stream = device->reading[device->reads++ % SMD_DEVICE_STREAMS];
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = CUDA(error, cuMemcpyDtoHAsync, host, (CUdeviceptr)pointer, bytes, stream);
	if (ret == 0) {
		ret = cuda_announce_copy(device, stream, "cuMemcpyDtoHAsync", notice, error);
	}
	smd_cuda_leave();
	return ret;
}

static int cuda_write(struct smd_device *device, void *pointer, const void *host, size_t bytes,
	struct smd_notice *notice, struct smd_error *error)
{
	CUstream stream = device->writing[device->writes++ % SMD_DEVICE_STREAMS];
	int ret = smd_cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = CUDA(error, cuMemcpyHtoDAsync, (CUdeviceptr)pointer, host, bytes, stream);
	if (ret == 0) {
		ret = cuda_announce_copy(device, stream, "cuMemcpyHtoDAsync", notice, error);
	}
	smd_cuda_leave();
	return ret;
}

static int cuda_write_now(struct smd_device *device, void *pointer, const void *host, size_t bytes,
	struct smd_error *error)
{
	CUstream stream = device->writing[device->writes++ % SMD_DEVICE_STREAMS];
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
	.result = cuda_notice_result,
};

const struct smd_device_ops *smd_device_ops(void)
{
	static pthread_once_t loaded = PTHREAD_ONCE_INIT;

	pthread_once(&loaded, driver_load);
	return driver_found ? &cuda_ops : NULL;
}
