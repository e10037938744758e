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
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "worker/libsummand/device.h"

#define CUDA_CALLS(X)                                                                              \
	X(cuCtxPopCurrent)                                                                         \
	X(cuCtxPushCurrent)                                                                        \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetAttribute)                                                                    \
	X(cuDevicePrimaryCtxRelease)                                                               \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuEventCreate)                                                                           \
	X(cuEventDestroy)                                                                          \
	X(cuEventQuery)                                                                            \
	X(cuEventRecord)                                                                           \
	X(cuGetErrorName)                                                                          \
	X(cuMemFreeHost)                                                                           \
	X(cuMemGetAddressRange)                                                                    \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemcpyDtoHAsync)                                                                       \
	X(cuMemcpyHtoDAsync)                                                                       \
	X(cuPointerGetAttributes)                                                                  \
	X(cuPointerSetAttribute)                                                                   \
	X(cuStreamAddCallback)                                                                     \
	X(cuStreamCreate)                                                                          \
	X(cuStreamDestroy)                                                                         \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamWaitEvent)

/* What older drivers lack: without it network cards cannot have the memory. */
#if CUDA_VERSION >= 11070
#define CUDA_NEWER_CALLS(X)                                                                        \
	X(cuFlushGPUDirectRDMAWrites)                                                              \
	X(cuMemGetHandleForAddressRange)
#else
#define CUDA_NEWER_CALLS(X)
#endif

/* cuda.h renames calls to their current versions, which is what the driver exports. */
#define TEXT(name) #name
#define X(name)    __typeof__(name) *name;
static struct {
	CUDA_CALLS(X)
	CUDA_NEWER_CALLS(X)
} driver;
#undef X
static bool driver_found;

static int cuda_result(CUresult result, const char *call, struct smd_error *error)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS) {
		return 0;
	}
	if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) {
		return smd_error_set(error, EIO, "%s: CUDA error %d", call, (int)result);
	}
	return smd_error_set(
		error, result == CUDA_ERROR_OUT_OF_MEMORY ? ENOMEM : EIO, "%s: %s", call, name);
}

/* Makes the call; 0 or -errno. */
#define CUDA(error, call, ...) cuda_result(driver.call(__VA_ARGS__), #call, error)

/* ---- the driver ---- */

static bool driver_take_calls(void *library, const char *path)
{
#define X(name)                                                                                    \
	driver.name = (__typeof__(driver.name))dlsym(library, TEXT(name));                         \
	if (!driver.name) {                                                                        \
		smd_log(SMD_LOG_WARN, "libsummand", "%s: has no %s, so device memory is not used", \
			path, TEXT(name));                                                         \
		return false;                                                                      \
	}
	CUDA_CALLS(X)
#undef X
#define X(name) driver.name = (__typeof__(driver.name))dlsym(library, TEXT(name));
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

/* ---- places ---- */

static int cuda_locate(const void *pointer, struct smd_device_place *out, struct smd_error *error)
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
		driver.cuPointerGetAttributes(5, attributes, values, (CUdeviceptr)pointer);

	*out = (struct smd_device_place){.ordinal = -1};
	if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_INVALID_CONTEXT) {
		return 0; /* nobody uses CUDA in this process yet, or not on this thread */
	}
	if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && !managed) {
		*out = (struct smd_device_place){ordinal, context, id};
	}
	return cuda_result(result, "cuPointerGetAttributes", error);
}

static int cuda_enter(const struct smd_device *device, struct smd_error *error)
{
	return CUDA(error, cuCtxPushCurrent, device->context);
}

static void cuda_leave(void)
{
	CUcontext context;

	driver.cuCtxPopCurrent(&context);
}

/* ---- notices ---- */

static void CUDA_CB cuda_on_done(CUstream stream, CUresult status, void *arg)
{
	struct smd_notice *notice = arg;

	(void)stream;
	notice->status = (int)status;
	smd_progress_leave(notice->progress, &notice->task);
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
	return cuda_result((CUresult)notice->status, notice->what, error);
}

/* ---- devices ---- */

static void cuda_end_stream(CUstream stream)
{
	if (stream) {
		driver.cuStreamSynchronize(stream);
		driver.cuStreamDestroy(stream);
	}
}

static void cuda_fence_destroy(struct smd_fence *fence)
{
	cuda_end_stream(fence->stream);
	if (fence->event) {
		driver.cuEventDestroy(fence->event);
	}
	free(fence);
}

static void cuda_close(struct smd_device *device)
{
	CUdevice handle;

	if (cuda_enter(device, NULL) == 0) {
		while (!SLIST_EMPTY(&device->fences)) {
			struct smd_fence *fence = SLIST_FIRST(&device->fences);

			SLIST_REMOVE_HEAD(&device->fences, link);
			cuda_fence_destroy(fence);
		}
		for (unsigned i = 0; i < SMD_DEVICE_STREAMS; i++) {
			cuda_end_stream(device->reading[i]);
			cuda_end_stream(device->writing[i]);
		}
		cuda_leave();
	}
	if (driver.cuDeviceGet(&handle, device->place.ordinal) == CUDA_SUCCESS) {
		driver.cuDevicePrimaryCtxRelease(handle);
	}
	free(device);
}

static int cuda_create_streams(struct smd_device *device, struct smd_error *error)
{
	int ret = cuda_enter(device, error);

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
	cuda_leave();
	return ret;
}

/* The primary context is kept as long as the device is used, whether the memory is its or not. */
static int cuda_open(const struct smd_device_place *place, struct smd_progress *progress,
	struct smd_device **out, struct smd_error *error)
{
	struct smd_device *device = calloc(1, sizeof(*device));
	CUcontext primary;
	CUdevice handle;
	int ret;

	if (!device) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = CUDA(error, cuDeviceGet, &handle, place->ordinal);
	if (ret == 0) {
		ret = CUDA(error, cuDevicePrimaryCtxRetain, &primary, handle);
	}
	if (ret) {
		free(device);
		return ret;
	}
	device->place = *place;
	device->progress = progress;
	device->context = place->context ? place->context : primary;
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
	int ret = cuda_enter(device, error);

	if (ret == 0) {
		ret = CUDA(error, cuMemHostAlloc, out, bytes, CU_MEMHOSTALLOC_PORTABLE);
		cuda_leave();
	}
	return ret;
}

static void cuda_unpin(struct smd_device *device, void *memory)
{
	if (cuda_enter(device, NULL) == 0) {
		driver.cuMemFreeHost(memory);
		cuda_leave();
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
	ret = cuda_enter(device, error);
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
	cuda_leave();
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
	result = driver.cuEventQuery(fence->event);
	if (result == CUDA_SUCCESS) {
		return 1;
	}
	if (result != CUDA_ERROR_NOT_READY) {
		return cuda_result(result, "cuEventQuery", error);
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
	int ret = cuda_enter(fence->device, error);

	if (ret == 0) {
		ret = cuda_fence_set_here(fence, stream, error);
		cuda_leave();
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
		driver.cuStreamSynchronize(stream);
	}
	return ret;
}

static int cuda_read(struct smd_device *device, void *host, const void *pointer, size_t bytes,
	struct smd_notice *notice, struct smd_error *error)
{
	CUstream stream = device->reading[device->reads++ % SMD_DEVICE_STREAMS];
	int ret = cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = CUDA(error, cuMemcpyDtoHAsync, host, (CUdeviceptr)pointer, bytes, stream);
	if (ret == 0) {
		ret = cuda_announce_copy(device, stream, "cuMemcpyDtoHAsync", notice, error);
	}
	cuda_leave();
	return ret;
}

static int cuda_write(struct smd_device *device, void *pointer, const void *host, size_t bytes,
	struct smd_notice *notice, struct smd_error *error)
{
	CUstream stream = device->writing[device->writes++ % SMD_DEVICE_STREAMS];
	int ret = cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = CUDA(error, cuMemcpyHtoDAsync, (CUdeviceptr)pointer, host, bytes, stream);
	if (ret == 0) {
		ret = cuda_announce_copy(device, stream, "cuMemcpyHtoDAsync", notice, error);
	}
	cuda_leave();
	return ret;
}

static int cuda_write_now(struct smd_device *device, void *pointer, const void *host, size_t bytes,
	struct smd_error *error)
{
	CUstream stream = device->writing[device->writes++ % SMD_DEVICE_STREAMS];
	int ret = cuda_enter(device, error);

	if (ret) {
		return ret;
	}
	ret = CUDA(error, cuMemcpyHtoDAsync, (CUdeviceptr)pointer, host, bytes, stream);
	if (ret == 0) {
		ret = CUDA(error, cuStreamSynchronize, stream);
	}
	cuda_leave();
	return ret;
}

/* ---- network cards ---- */

static uint64_t cuda_identify(struct smd_device *device, const void *pointer)
{
	struct smd_device_place place = {.allocation = 0};

	if (cuda_enter(device, NULL) == 0) {
		(void)cuda_locate(pointer, &place, NULL);
		cuda_leave();
	}
	return place.allocation;
}

#if CUDA_VERSION >= 11070

static int cuda_refuse(struct smd_error *error, const char *what)
{
	return smd_error_set(error, ENOTSUP, "%s", what);
}

/* What cards write must come to be seen; on some machines only when that is asked for. */
static int cuda_check_device(struct smd_device *device, struct smd_error *error)
{
	static const CUdevice_attribute asked[] = {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS};
	int answers[3] = {0};
	CUdevice handle;
	int ret = CUDA(error, cuDeviceGet, &handle, device->place.ordinal);

	for (int i = 0; ret == 0 && i < 3; i++) {
		ret = CUDA(error, cuDeviceGetAttribute, &answers[i], asked[i], handle);
	}
	if (ret) {
		return ret;
	}
	device->flushes = answers[1] < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
	if (!answers[0]) {
		return cuda_refuse(error, "the CUDA device or its kernel module has no dma-buf");
	}
	if (device->flushes && !(answers[2] & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST &&
				       driver.cuFlushGPUDirectRDMAWrites)) {
		return cuda_refuse(
			error, "the CUDA device does not say when it sees what cards write");
	}
	return 0;
}

/*
 * Memory of cuMemAlloc() is one allocation from its beginning to its end. What is mapped piecewise
 * (cuMemMap()) or comes from a pool (cuMemAllocAsync()) is not: there it is not certain that the id
 * tells of every change behind the addresses.
 */
static int cuda_check_memory(const void *pointer, struct smd_error *error)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
	unsigned whole = 0; /* the driver writes one byte or four */
	void *value = &whole;
	int ret = CUDA(error, cuPointerGetAttributes, 1, &attribute, &value, (CUdeviceptr)pointer);

	return ret == 0 && !whole ? cuda_refuse(error, "the memory is not of cuMemAlloc()") : ret;
}

/* Dma-bufs are whole pages of the host; the allocation need not be. */
static int cuda_export_here(
	const void *pointer, struct smd_device_export *out, struct smd_error *error)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	CUdeviceptr base;
	size_t length;
	uint64_t first;
	uint64_t end;
	int yes = 1;
	int ret = cuda_check_memory(pointer, error);

	if (ret == 0) {
		ret = CUDA(error, cuMemGetAddressRange, &base, &length, (CUdeviceptr)pointer);
	}
	if (ret == 0) { /* cuMemcpy() and the like then return when the bytes are there */
		ret = CUDA(
			error, cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base);
	}
	if (ret) {
		return ret;
	}
	first = base / page * page;
	end = (base + length + page - 1) / page * page;
	*out = (struct smd_device_export){
		.memory = {(void *)base, length},
		.offset = base - first,
	};
	return CUDA(error, cuMemGetHandleForAddressRange, &out->fd, first, end - first,
		CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static int cuda_export(struct smd_device *device, const void *pointer,
	struct smd_device_export *out, struct smd_error *error)
{
	int ret;

	if (!driver.cuMemGetHandleForAddressRange) {
		return cuda_refuse(error, "the CUDA driver is older than 11.7");
	}
	ret = cuda_check_device(device, error);
	if (ret == 0) {
		ret = cuda_enter(device, error);
	}
	if (ret == 0) {
		ret = cuda_export_here(pointer, out, error);
		cuda_leave();
	}
	return ret;
}

static int cuda_flush(struct smd_device *device, struct smd_error *error)
{
	int ret;

	if (!device->flushes) {
		return 0;
	}
	ret = cuda_enter(device, error);
	if (ret == 0) {
		ret = CUDA(error, cuFlushGPUDirectRDMAWrites,
			CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
			CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
		cuda_leave();
	}
	return ret;
}

#else

static int cuda_export(struct smd_device *device, const void *pointer,
	struct smd_device_export *out, struct smd_error *error)
{
	(void)device;
	(void)pointer;
	(void)out;
	return smd_error_set(error, ENOTSUP, "this build used CUDA headers older than 11.7");
}

static int cuda_flush(struct smd_device *device, struct smd_error *error)
{
	(void)device;
	(void)error;
	return 0; /* nothing was exported */
}

#endif

static const struct smd_device_ops cuda_ops = {
	.locate = cuda_locate,
	.open = cuda_open,
	.close = cuda_close,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.fence_create = cuda_fence_create,
	.fence_set = cuda_fence_set,
	.read = cuda_read,
	.write = cuda_write,
	.write_now = cuda_write_now,
	.export = cuda_export,
	.identify = cuda_identify,
	.flush = cuda_flush,
	.result = cuda_notice_result,
};

const struct smd_device_ops *smd_device_ops(void)
{
	static pthread_once_t loaded = PTHREAD_ONCE_INIT;

	pthread_once(&loaded, driver_load);
	return driver_found ? &cuda_ops : NULL;
}
