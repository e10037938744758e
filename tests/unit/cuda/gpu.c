/* Opens a CUDA driver, and uses it. */
#include "tests/unit/cuda/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/fake_cuda.h"

#define GPU_CALLS(X)                                                                               \
	X(cuCtxPopCurrent)                                                                         \
	X(cuCtxPushCurrent)                                                                        \
	X(cuDeviceGet)                                                                             \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuInit)                                                                                  \
	X(cuMemAddressFree)                                                                        \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAlloc)                                                                              \
	X(cuMemAllocAsync)                                                                         \
	X(cuMemAllocManaged)                                                                       \
	X(cuMemCreate)                                                                             \
	X(cuMemFree)                                                                               \
	X(cuMemGetAllocationGranularity)                                                           \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemMap)                                                                                \
	X(cuMemRelease)                                                                            \
	X(cuMemSetAccess)                                                                          \
	X(cuMemUnmap)                                                                              \
	X(cuMemcpyDtoHAsync)                                                                       \
	X(cuMemcpyHtoDAsync)                                                                       \
	X(cuMemsetD32Async)                                                                        \
	X(cuStreamBeginCapture)                                                                    \
	X(cuStreamCreate)                                                                          \
	X(cuStreamDestroy)                                                                         \
	X(cuStreamEndCapture)                                                                      \
	X(cuStreamSynchronize)                                                                     \
	X(cuStreamWaitValue32)

#define TEXT(name) #name
#define X(name)    __typeof__(name) *name;
static struct {
	GPU_CALLS(X)
	X(cuMemGetHandleForAddressRange) /* which older drivers lack */
} driver;
#undef X

static struct {
	__typeof__(smd_fake_fail) *fail; /* NULL: the driver is a real one */
	__typeof__(smd_fake_mend) *mend;
	__typeof__(smd_fake_hold_broken) *hold_broken;
	__typeof__(smd_fake_hold_pins) *hold_pins;
	__typeof__(smd_fake_held) *held;
	__typeof__(smd_fake_look) *look;
	__typeof__(smd_fake_live) *live;
	__typeof__(smd_fake_set) *set;
	__typeof__(smd_fake_flushes) *flushes;
	__typeof__(smd_fake_streams) *streams;
	__typeof__(smd_fake_pinned) *pinned;
	__typeof__(smd_fake_callbacks) *callbacks;
} fake;

#define DEVICES_MAX 2
static CUcontext contexts[DEVICES_MAX];

/*
 * What held streams wait for: words that the processor writes. A real driver makes calls wait for one that waits for a
 * device, so whoever had to make one to let a stream go could wait for ever.
 */
#define HOLDS 1024
static uint32_t *holds;
static unsigned holds_used;

#define GPU(call)                                                                                  \
	do {                                                                                       \
		CUresult gpu_result = driver.call;                                                 \
		if (gpu_result != CUDA_SUCCESS) {                                                  \
			fprintf(stderr, "%s: CUDA error %d\n", #call, (int)gpu_result);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

void gpu_open(const char *path)
{
	void *library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
	CUdevice device;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		abort();
	}
	if (path) {
		setenv("SUMMAND_CUDA_DRIVER", path, 1);
	}
#define X(name)                                                                                    \
	driver.name = (__typeof__(driver.name))dlsym(library, TEXT(name));                         \
	CHECK(driver.name);
	GPU_CALLS(X)
#undef X
	driver.cuMemGetHandleForAddressRange =
		(__typeof__(driver.cuMemGetHandleForAddressRange))dlsym(
			library, TEXT(cuMemGetHandleForAddressRange));
	fake.fail = (__typeof__(fake.fail))dlsym(library, "smd_fake_fail");
	fake.mend = (__typeof__(fake.mend))dlsym(library, "smd_fake_mend");
	fake.hold_broken = (__typeof__(fake.hold_broken))dlsym(library, "smd_fake_hold_broken");
	fake.hold_pins = (__typeof__(fake.hold_pins))dlsym(library, "smd_fake_hold_pins");
	fake.held = (__typeof__(fake.held))dlsym(library, "smd_fake_held");
	fake.look = (__typeof__(fake.look))dlsym(library, "smd_fake_look");
	fake.live = (__typeof__(fake.live))dlsym(library, "smd_fake_live");
	fake.set = (__typeof__(fake.set))dlsym(library, "smd_fake_set");
	fake.flushes = (__typeof__(fake.flushes))dlsym(library, "smd_fake_flushes");
	fake.streams = (__typeof__(fake.streams))dlsym(library, "smd_fake_streams");
	fake.pinned = (__typeof__(fake.pinned))dlsym(library, "smd_fake_pinned");
	fake.callbacks = (__typeof__(fake.callbacks))dlsym(library, "smd_fake_callbacks");
	GPU(cuInit(0));
	for (int i = 0; i < DEVICES_MAX && driver.cuDeviceGet(&device, i) == CUDA_SUCCESS; i++) {
		GPU(cuDevicePrimaryCtxRetain(&contexts[i], device));
	}
	CHECK(contexts[0]);
	gpu_enter(0);
	GPU(cuMemHostAlloc((void **)&holds, HOLDS * sizeof(*holds),
		CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	gpu_leave();
}

bool gpu_open_by(int argc, char **argv, const char *fake_driver)
{
	bool device = argc > 1 && strcmp(argv[1], "--device") == 0;

	if (device && access("/dev/nvidia0", F_OK) != 0) {
		printf("skipped: no CUDA device (/dev/nvidia0)\n");
		return false;
	}
	gpu_open(device ? NULL : fake_driver);
	return true;
}

bool gpu_is_fake(void)
{
	return fake.fail != NULL;
}

void gpu_fail(const char *call, unsigned n, CUresult result)
{
	fake.fail(call, n, (int)result);
}

void gpu_mend(void)
{
	fake.mend();
}

void gpu_hold_broken(bool hold)
{
	fake.hold_broken(hold);
}

void gpu_hold_pins(bool hold)
{
	fake.hold_pins(hold);
}

unsigned gpu_held(void)
{
	return fake.held();
}

unsigned gpu_live(void)
{
	return fake.live ? fake.live() : 0;
}

void gpu_set(int fact, int value)
{
	if (fake.set) {
		fake.set((enum smd_fake_fact)fact, value);
	}
}

unsigned gpu_flushes(void)
{
	return fake.flushes();
}

unsigned gpu_streams(void)
{
	return fake.streams ? fake.streams() : 0;
}

unsigned long gpu_pinned(void)
{
	return fake.pinned() - HOLDS * sizeof(*holds);
}

unsigned gpu_callbacks(void)
{
	return fake.callbacks ? fake.callbacks() : 0;
}

void gpu_enter(int ordinal)
{
	GPU(cuCtxPushCurrent(contexts[ordinal]));
}

void gpu_leave(void)
{
	CUcontext context;

	GPU(cuCtxPopCurrent(&context));
}

void *gpu_alloc_on(int ordinal, size_t bytes)
{
	CUdeviceptr pointer;

	gpu_enter(ordinal);
	GPU(cuMemAlloc(&pointer, bytes));
	gpu_leave();
	return (void *)pointer;
}

void *gpu_alloc(size_t bytes)
{
	return gpu_alloc_on(0, bytes);
}

void *gpu_alloc_managed(size_t bytes)
{
	CUdeviceptr pointer;

	gpu_enter(0);
	GPU(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
	gpu_leave();
	return (void *)pointer;
}

void gpu_free(void *pointer)
{
	gpu_enter(0);
	GPU(cuMemFree((CUdeviceptr)pointer));
	gpu_leave();
}

void *gpu_alloc_in(CUstream stream, size_t bytes)
{
	CUdeviceptr pointer;

	gpu_enter(0);
	GPU(cuMemAllocAsync(&pointer, bytes, stream));
	gpu_leave();
	return (void *)pointer;
}

static void map_piece(CUdeviceptr pointer, size_t bytes, const CUmemAllocationProp *properties)
{
	CUmemGenericAllocationHandle handle;

	GPU(cuMemCreate(&handle, bytes, properties, 0));
	GPU(cuMemMap(pointer, bytes, 0, handle, 0));
	GPU(cuMemRelease(handle)); /* it stays as long as it is mapped */
}

void *gpu_alloc_mapped(size_t *bytes)
{
	const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr pointer;
	size_t piece;

	gpu_enter(0);
	GPU(cuMemGetAllocationGranularity(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	*bytes = (*bytes / piece + 2) * piece; /* at least two */
	GPU(cuMemAddressReserve(&pointer, *bytes, 0, 0, 0));
	for (size_t offset = 0; offset < *bytes; offset += piece) {
		map_piece(pointer + offset, piece, &properties);
	}
	GPU(cuMemSetAccess(pointer, *bytes, &access, 1));
	gpu_leave();
	return (void *)pointer;
}

void gpu_free_mapped(void *pointer, size_t bytes)
{
	gpu_enter(0);
	GPU(cuMemUnmap((CUdeviceptr)pointer, bytes));
	GPU(cuMemAddressFree((CUdeviceptr)pointer, bytes));
	gpu_leave();
}

int gpu_export(void *pointer, size_t bytes, uint64_t *offset)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	CUdeviceptr first = (CUdeviceptr)pointer / page * page;
	int fd = -1;

	*offset = (CUdeviceptr)pointer - first;
	gpu_enter(0);
	GPU(cuMemGetHandleForAddressRange(&fd, first, (*offset + bytes + page - 1) / page * page,
		CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	gpu_leave();
	return fd;
}

/* A stream of its own for each copy: nothing of the test's may stand in the way. */
void gpu_upload(void *to, const void *from, size_t bytes)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);

	gpu_enter(0);
	GPU(cuMemcpyHtoDAsync((CUdeviceptr)to, from, bytes, stream));
	GPU(cuStreamSynchronize(stream));
	gpu_leave();
	gpu_stream_destroy(stream);
}

void gpu_download(void *to, const void *from, size_t bytes)
{
	CUstream stream = gpu_stream_create(CU_STREAM_NON_BLOCKING);

	gpu_enter(0);
	GPU(cuMemcpyDtoHAsync(to, (CUdeviceptr)from, bytes, stream));
	GPU(cuStreamSynchronize(stream));
	gpu_leave();
	gpu_stream_destroy(stream);
}

CUstream gpu_stream_create(unsigned flags)
{
	CUstream stream;

	gpu_enter(0);
	GPU(cuStreamCreate(&stream, flags));
	gpu_leave();
	return stream;
}

void gpu_stream_destroy(CUstream stream)
{
	gpu_enter(0);
	GPU(cuStreamDestroy(stream));
	gpu_leave();
}

void gpu_capture(CUstream stream, CUstreamCaptureMode mode)
{
	gpu_enter(0);
	GPU(cuStreamBeginCapture(stream, mode));
	gpu_leave();
}

int gpu_end_capture(CUstream stream)
{
	CUgraph graph;
	CUresult result;

	gpu_enter(0);
	result = driver.cuStreamEndCapture(stream, &graph);
	gpu_leave();
	if (result != CUDA_SUCCESS) {
		return -1;
	}
	return fake.fail ? (int)(uintptr_t)graph : 0;
}

void gpu_fill(void *to, uint32_t value, size_t count, CUstream stream)
{
	gpu_enter(0);
	GPU(cuMemsetD32Async((CUdeviceptr)to, value, count, stream));
	gpu_leave();
}

/* The stream waits for a word: a host function would hold up those of others. */
void *gpu_hold(CUstream stream)
{
	uint32_t *word = &holds[__atomic_fetch_add(&holds_used, 1, __ATOMIC_RELAXED) % HOLDS];

	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	gpu_enter(0);
	GPU(cuStreamWaitValue32(stream, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	gpu_leave();
	return word;
}

void gpu_open_hold(void *hold)
{
	__atomic_store_n((uint32_t *)hold, 1, __ATOMIC_RELEASE);
	if (fake.look) {
		fake.look();
	}
}

void gpu_let_go(void *hold, CUstream stream)
{
	gpu_open_hold(hold);
	gpu_enter(0);
	GPU(cuStreamSynchronize(stream));
	gpu_leave();
}
