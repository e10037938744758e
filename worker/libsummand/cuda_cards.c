/* Memory of CUDA devices for network cards: dma-bufs, and when the device sees what cards write. */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "worker/libsummand/cuda_driver.h"

#define CARDS_MAX 64

uint64_t smd_cuda_identify(struct smd_device *device, const void *pointer)
{
	struct smd_device_location location = {.allocation = 0};

	if (smd_cuda_enter(device, NULL) == 0) {
		(void)smd_cuda_locate(pointer, &location, NULL);
		smd_cuda_leave();
	}
	return location.allocation;
}

#if CUDA_VERSION >= 11070

static int cuda_refuse(struct smd_error *error, const char *what)
{
	return smd_error_set(error, ENOTSUP, "%s", what);
}

/* What cards write must come to be seen; on some machines only when that is asked for. */
static int cuda_check_handle(CUdevice handle, bool *flushes, struct smd_error *error)
{
	static const CUdevice_attribute asked[] = {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS};
	int answers[3] = {0};
	int ret = 0;

	for (int i = 0; ret == 0 && i < 3; i++) {
		ret = CUDA(error, cuDeviceGetAttribute, &answers[i], asked[i], handle);
	}
	if (ret) {
		return ret;
	}
	*flushes = answers[1] < CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
	if (!answers[0]) {
		return cuda_refuse(error, "the CUDA device or its kernel module has no dma-buf");
	}
	if (*flushes && !(answers[2] & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST &&
				smd_cuda.cuFlushGPUDirectRDMAWrites)) {
		return cuda_refuse(
			error, "the CUDA device does not say when it sees what cards write");
	}
	return 0;
}

static int cuda_check_device(struct smd_device *device, struct smd_error *error)
{
	CUdevice handle;
	int ret = CUDA(error, cuDeviceGet, &handle, device->location.ordinal);

	return ret ? ret : cuda_check_handle(handle, &device->flushes, error);
}

/*
 * What was found out of each device: it stays as it is, and the driver need not be asked with every
 * message. 0: nothing yet.
 */
enum { CARD_SEEN = 1, CARD_FLUSHED = 2 };
static _Atomic unsigned char cards[CARDS_MAX];

static int cuda_check_card(CUdevice handle, bool *flushes, struct smd_error *error)
{
	int ret = cuda_check_handle(handle, flushes, error);

	if (ret == 0 && handle >= 0 && handle < CARDS_MAX) {
		cards[handle] = *flushes ? CARD_FLUSHED : CARD_SEEN;
	}
	return ret;
}

static int cuda_check_all(bool *flushes, struct smd_error *error)
{
	int devices = 0;
	int ret = CUDA(error, cuDeviceGetCount, &devices);

	*flushes = false;
	for (int i = 0; ret == 0 && i < devices; i++) {
		CUdevice handle;
		bool its = false;

		ret = CUDA(error, cuDeviceGet, &handle, i);
		ret = ret ? ret : cuda_check_card(handle, &its, error);
		*flushes |= its;
	}
	if (ret == 0 && devices == 0) {
		return cuda_refuse(error, "there is no CUDA device");
	}
	return ret;
}

int smd_cuda_check_cards(bool *flushes, struct smd_error *error)
{
	CUstreamCaptureMode mode;
	int ret;

	if (!smd_cuda.cuMemGetHandleForAddressRange) {
		return cuda_refuse(error, "the CUDA driver is older than 11.7");
	}
	mode = smd_cuda_relax();
	ret = cuda_check_all(flushes, error);
	smd_cuda_restore(mode);
	return ret;
}

static int cuda_flush_here(struct smd_error *error)
{
	return CUDA(error, cuFlushGPUDirectRDMAWrites,
		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
}

static int cuda_flush_current(struct smd_error *error)
{
	bool flushes = false;
	CUdevice handle;
	int ret = CUDA(error, cuCtxGetDevice, &handle);

	if (ret == 0 && handle >= 0 && handle < CARDS_MAX && cards[handle]) {
		flushes = cards[handle] == CARD_FLUSHED;
	} else if (ret == 0) {
		ret = cuda_check_card(handle, &flushes, error);
	}
	return ret || !flushes ? ret : cuda_flush_here(error);
}

int smd_cuda_flush_current(struct smd_error *error)
{
	CUstreamCaptureMode mode = smd_cuda_relax();
	int ret = cuda_flush_current(error);

	smd_cuda_restore(mode);
	return ret;
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

int smd_cuda_export(struct smd_device *device, const void *pointer, struct smd_device_export *out,
	struct smd_error *error)
{
	int ret;

	if (!smd_cuda.cuMemGetHandleForAddressRange) {
		return cuda_refuse(error, "the CUDA driver is older than 11.7");
	}
	ret = smd_cuda_enter(device, error);
	if (ret == 0) {
		ret = cuda_check_device(device, error);
		ret = ret ? ret : cuda_export_here(pointer, out, error);
		smd_cuda_leave();
	}
	return ret;
}

int smd_cuda_flush(struct smd_device *device, struct smd_error *error)
{
	int ret;

	if (!device->flushes) {
		return 0;
	}
	ret = smd_cuda_enter(device, error);
	if (ret == 0) {
		ret = cuda_flush_here(error);
		smd_cuda_leave();
	}
	return ret;
}

#else

int smd_cuda_export(struct smd_device *device, const void *pointer, struct smd_device_export *out,
	struct smd_error *error)
{
	(void)device;
	(void)pointer;
	(void)out;
	return smd_error_set(error, ENOTSUP, "this build used CUDA headers older than 11.7");
}

int smd_cuda_flush(struct smd_device *device, struct smd_error *error)
{
	(void)device;
	(void)error;
	return 0; /* nothing was exported */
}

int smd_cuda_check_cards(bool *flushes, struct smd_error *error)
{
	*flushes = false;
	return smd_error_set(error, ENOTSUP, "this build used CUDA headers older than 11.7");
}

int smd_cuda_flush_current(struct smd_error *error)
{
	bool flushes;

	return smd_cuda_check_cards(&flushes, error);
}

#endif
