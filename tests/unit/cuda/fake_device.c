/* The fake driver's devices: what they can do, and their contexts, of which each thread has a
 * stack. */
#include "tests/unit/cuda/fake.h"
#include "tests/unit/cuda/fake_cuda.h"

#define STACK_MAX 4

struct CUctx_st fake_contexts[FAKE_DEVICES] = {{.ordinal = 0}, {.ordinal = 1}};
static unsigned flushes;

static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local unsigned depth;

CUcontext fake_context(void)
{
	return depth ? stack[depth - 1] : NULL;
}

unsigned smd_fake_flushes(void)
{
	return fake_count(&flushes);
}

CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
	ENTER("cuDeviceGet", false);
	*out = ordinal;
	return fake_leave(
		ordinal >= 0 && ordinal < FAKE_DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDeviceGetCount(int *out)
{
	ENTER("cuDeviceGetCount", false);
	*out = FAKE_DEVICES;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *out)
{
	ENTER("cuCtxGetDevice", true);
	*out = fake_context()->ordinal;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device)
{
	ENTER("cuDeviceGetAttribute", false);
	(void)device;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
		*out = fake_facts[SMD_FAKE_DMA_BUF];
		break;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
		*out = fake_facts[SMD_FAKE_ORDERING];
		break;
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
		*out = fake_facts[SMD_FAKE_FLUSH];
		break;
	default:
		REQUIRE(!"an attribute that the fake knows");
	}
	return fake_leave(CUDA_SUCCESS);
}

#ifndef FAKE_OLD
CUresult cuFlushGPUDirectRDMAWrites(
	CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
	ENTER("cuFlushGPUDirectRDMAWrites", true);
	REQUIRE(target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
	REQUIRE(scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
	REQUIRE(fake_facts[SMD_FAKE_FLUSH] & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
	flushes++;
	return fake_leave(CUDA_SUCCESS);
}
#endif

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	ENTER("cuDevicePrimaryCtxGetState", false);
	*flags = 0;
	*active = fake_contexts[device].retained && !fake_facts[SMD_FAKE_NO_PRIMARY];
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
	ENTER("cuCtxGetCurrent", false);
	*out = fake_context();
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	ENTER("cuDevicePrimaryCtxRetain", false);
	fake_contexts[device].retained++;
	fake_live++;
	*out = &fake_contexts[device];
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	ENTER("cuDevicePrimaryCtxRelease", false);
	REQUIRE(fake_contexts[device].retained);
	fake_contexts[device].retained--;
	fake_live--;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	ENTER("cuCtxPushCurrent", false);
	REQUIRE(depth < STACK_MAX && context->retained);
	stack[depth++] = context;
	return fake_leave(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent(CUcontext *out)
{
	ENTER("cuCtxPopCurrent", false);
	REQUIRE(depth);
	*out = stack[--depth];
	return fake_leave(CUDA_SUCCESS);
}
