/* The one device that a process of the simulated CUDA runtime sees: a GPU of Hopper's generation without
 * what NCCL can do without. CUDA_VISIBLE_DEVICES says which of its node's it is, the first one without. */
#include "gpu.h"

#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>

enum { MULTIPROCESSORS = 132, MAJOR = 9, MINOR = 0, THREADS = 1024 };

int smd_gpu_number()
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	return visible ? atoi(visible) : 0;
}

int smd_gpu_attribute(int which)
{
	switch (which) {
	case cudaDevAttrMaxThreadsPerBlock:
	case cudaDevAttrMaxBlockDimX:
		return THREADS;
	case cudaDevAttrMultiProcessorCount:
		return MULTIPROCESSORS;
	case cudaDevAttrComputeCapabilityMajor:
		return MAJOR;
	case cudaDevAttrComputeCapabilityMinor:
		return MINOR;
	case cudaDevAttrMaxSharedMemoryPerBlockOptin:
		return 227 << 10;
	case cudaDevAttrMaxSharedMemoryPerBlock:
		return 48 << 10;
	case cudaDevAttrUnifiedAddressing:
	case cudaDevAttrGPUDirectRDMASupported:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
		return 1;
	case cudaDevAttrGPUDirectRDMAWritesOrdering:
		return cudaGPUDirectRDMAWritesOrderingAllDevices;
	case cudaDevAttrWarpSize:
		return 32;
	default:
		return 0;
	}
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int)
{
	*value = smd_gpu_attribute(which);
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int)
{
	memset(properties, 0, sizeof(*properties));
	strcpy(properties->name, "simulated GPU");
	properties->major = MAJOR;
	properties->minor = MINOR;
	properties->multiProcessorCount = MULTIPROCESSORS;
	properties->totalGlobalMem = (size_t)80 << 30;
	properties->pciBusID = smd_gpu_number() + 1;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int)
{
	snprintf(id, (size_t)size, "0000:%02x:00.0", smd_gpu_number() + 1);
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
	*can = 0;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 1;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

/* A driver of 12.1, so that NCCL leaves out what only later ones have. */
cudaError_t cudaDriverGetVersion(int *version)
{
	*version = 12010;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned,
	unsigned long long, cudaDriverEntryPointQueryResult *result)
{
	*function = smd_driver_function(name);
	if (result) {
		*result = *function ? cudaDriverEntryPointSuccess
				    : cudaDriverEntryPointSymbolNotFound;
	}
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
	static thread_local char text[64];

	if (error == cudaSuccess) {
		return "no error";
	}
	snprintf(text, sizeof(text), "error %d of the simulated CUDA runtime", error);
	return text;
}

cudaError_t cudaGetLastError()
{
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *)
{
	memset(attributes, 0, sizeof(*attributes));
	attributes->maxThreadsPerBlock = THREADS;
	return cudaSuccess;
}

/* A kernel is a function of the program that launches it. */
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
	*function = (cudaFunction_t)symbol;
	return cudaSuccess;
}
