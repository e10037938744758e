/* The CUDA driver beneath the simulated runtime: what NCCL asks of it by name, and the launch of
 * kernels. A kernel is a function of the program, called with its arguments in the stream's turn.
 */
#include "driver.h"

#include "gpu.h"
#include "memory.h"
#include "stream.h"

#include <cstring>
#include <cuda.h>
#include <map>
#include <memory>
#include <string>
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

/* extra is the list that CUDA documents: a name, the arguments, a name, their size. */
static CUresult launch(CUstream stream, CUfunction kernel, void **extra)
{
	constexpr size_t LINE = 64; /* NCCL's arguments are aligned so */
	size_t size = *(size_t *)extra[3];
	auto copy = std::make_shared<std::vector<char>>(size + LINE);
	char *arguments = (char *)(((uintptr_t)copy->data() + LINE - 1) / LINE * LINE);

	memcpy(arguments, extra[1], size);
	smd_stream_add(stream,
		[copy, arguments, kernel] { ((kernel_function)(uintptr_t)kernel)(arguments); });
	return CUDA_SUCCESS;
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

	return found == all.end() ? nullptr : found->second;
}
