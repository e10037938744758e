/* The CUDA driver beneath the simulated runtime: what NCCL asks of it by name, what the plugin opens it for, and the
 * launch of kernels. A kernel is a function of the program, called with its arguments in the stream's turn.
 */
#include "driver.h"

#include "gpu.h"
#include "memory.h"
#include "multicast.h"
#include "stream.h"

#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

typedef void (*kernel_function)(void *arguments);

static CUresult error_text(CUresult, const char **text)
{
	*text = "an error of the simulated driver";
	return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int)
{
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice)
{
	memset(uuid, 0, sizeof(*uuid));
	uuid->bytes[0] = (char)smd_gpu_number();
	return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, CUdevice_attribute which, CUdevice)
{
	*value = smd_gpu_attribute(which);
	return CUDA_SUCCESS;
}

static CUresult address_range(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
	smd_range range;

	if (!smd_memory_find((void *)pointer, &range)) {
		return CUDA_ERROR_NOT_FOUND;
	}
	*base = range.base;
	*size = range.size;
	return CUDA_SUCCESS;
}

/* A dma-buf: here the file that the memory is. NCCL asks for whole allocations. */
static CUresult memory_handle(
	void *handle, CUdeviceptr pointer, size_t size, CUmemRangeHandleType type, unsigned long long)
{
	smd_range range;

	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !smd_memory_find((void *)pointer, &range) ||
		range.file == -1 || pointer + size > range.base + range.size) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	*(int *)handle = fcntl(range.file, F_DUPFD_CLOEXEC, 0);
	return *(int *)handle == -1 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *value, CUpointer_attribute, CUdeviceptr)
{
	*(int *)value = 0;
	return CUDA_SUCCESS;
}

/* Other arguments follow where a context is created: there is only one. */
static CUresult context_get(CUcontext *context, ...)
{
	static char only;

	*context = (CUcontext)&only;
	return CUDA_SUCCESS;
}

static CUresult context_ignore(CUcontext)
{
	return CUDA_SUCCESS;
}

static CUresult context_device(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

/* The arguments are copied, as the caller may change them before the stream's turn comes. */
static smd_work kernel_with(const void *kernel, const void *from, size_t size)
{
	constexpr size_t LINE = 64; /* NCCL's arguments are aligned so */
	auto copy = std::make_shared<std::vector<char>>(size + LINE);
	char *arguments = (char *)(((uintptr_t)copy->data() + LINE - 1) / LINE * LINE);

	memcpy(arguments, from, size);
	return [copy, arguments, kernel] { ((kernel_function)(uintptr_t)kernel)(arguments); };
}

/* extra is the list that CUDA documents: a name, the arguments, a name, their size. */
static CUresult launch(CUstream stream, CUfunction kernel, void **extra)
{
	smd_stream_add(stream, kernel_with(kernel, extra[1], *(size_t *)extra[3]));
	return CUDA_SUCCESS;
}

/* NCCL's kernels up to 2.21 have three arguments of 8 bytes, which are named one by one. */
smd_work smd_driver_kernel(const void *kernel, void **each)
{
	enum { ARGUMENTS = 3 };
	uint64_t arguments[ARGUMENTS];

	for (int i = 0; i < ARGUMENTS; i++) {
		memcpy(&arguments[i], each[i], sizeof(arguments[i]));
	}
	return kernel_with(kernel, arguments, sizeof(arguments));
}

static cudaError_t launch_three(cudaStream_t stream, const void *kernel, void **each)
{
	smd_stream_add(stream, smd_driver_kernel(kernel, each));
	return cudaSuccess;
}

cudaError_t cudaLaunchKernel(
	const void *kernel, dim3, dim3, void **arguments, size_t, cudaStream_t stream)
{
	return launch_three(stream, kernel, arguments);
}

cudaError_t cudaLaunchKernelExC(
	const cudaLaunchConfig_t *config, const void *kernel, void **arguments)
{
	return launch_three(config->stream, kernel, arguments);
}

static CUresult launch_kernel(CUfunction kernel, unsigned, unsigned, unsigned, unsigned, unsigned,
	unsigned, unsigned, CUstream stream, void **, void **extra)
{
	return launch(stream, kernel, extra);
}

static CUresult launch_kernel_ex(
	const CUlaunchConfig *config, CUfunction kernel, void **, void **extra)
{
	for (unsigned i = 0; i < config->numAttrs; i++) {
		CUlaunchAttribute *attribute = &config->attrs[i];

		if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
			cudaEventRecord(
				attribute->value.launchCompletionEvent.event, config->hStream);
		}
	}
	return launch(config->hStream, kernel, extra);
}

void *smd_driver_function(const char *name)
{
	static const std::map<std::string, void *> all = {
		{"cuGetErrorString", (void *)error_text},
		{"cuGetErrorName", (void *)error_text},
		{"cuDeviceGet", (void *)device_get},
		{"cuDeviceGetUuid", (void *)device_uuid},
		{"cuDeviceGetAttribute", (void *)device_attribute},
		{"cuMemGetAddressRange", (void *)address_range},
		{"cuMemGetHandleForAddressRange", (void *)memory_handle},
		{"cuPointerGetAttribute", (void *)pointer_attribute},
		{"cuCtxCreate", (void *)context_get},
		{"cuCtxGetCurrent", (void *)context_get},
		{"cuCtxSetCurrent", (void *)context_ignore},
		{"cuCtxDestroy", (void *)context_ignore},
		{"cuCtxGetDevice", (void *)context_device},
		{"cuLaunchKernel", (void *)launch_kernel},
		{"cuLaunchKernelEx", (void *)launch_kernel_ex},
	};
	auto found = all.find(name);
	auto memory = smd_multicast_functions.find(name);

	return found != all.end() ? found->second : memory != smd_multicast_functions.end() ? memory->second : nullptr;
}

/* What the plugin may call of the driver that it opens; absent_driver.c has the rest. */

CUresult cuGetErrorName(CUresult error, const char **text)
{
	return error_text(error, text);
}

/* Around what it asks for when it is set up; around all else, too, which ends the process. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;

	std::swap(own, *mode);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int number)
{
	return device_get(device, number);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
	return device_attribute(value, which, device);
}
