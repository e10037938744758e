/* What the plugin must not call of the driver while network cards read and write the GPU's memory: its thread is NCCL's, and a
 * kernel on the GPU may be waiting for it. Nothing is read of the arguments, so these have none here. */
#include <stdio.h>
#include <stdlib.h>

#define FORBIDDEN(name)                                                                            \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		fprintf(stderr, "simulated GPU: %s() must not be called by the plugin\n", #name);    \
		abort();                                                                           \
	}

FORBIDDEN(cuCtxGetCurrent)
FORBIDDEN(cuCtxGetDevice)
FORBIDDEN(cuCtxPopCurrent_v2)
FORBIDDEN(cuCtxPushCurrent_v2)
FORBIDDEN(cuDevicePrimaryCtxGetState)
FORBIDDEN(cuDevicePrimaryCtxRelease_v2)
FORBIDDEN(cuDevicePrimaryCtxRetain)
FORBIDDEN(cuFlushGPUDirectRDMAWrites)
FORBIDDEN(cuMemFreeHost)
FORBIDDEN(cuMemGetAddressRange_v2)
FORBIDDEN(cuMemGetHandleForAddressRange)
FORBIDDEN(cuMemHostAlloc)
FORBIDDEN(cuMemcpyDtoHAsync_v2)
FORBIDDEN(cuMemcpyHtoDAsync_v2)
FORBIDDEN(cuPointerGetAttributes)
FORBIDDEN(cuPointerSetAttribute)
FORBIDDEN(cuStreamAddCallback)
FORBIDDEN(cuStreamCreate)
FORBIDDEN(cuStreamDestroy_v2)
FORBIDDEN(cuStreamIsCapturing)
FORBIDDEN(cuStreamQuery)
FORBIDDEN(cuStreamSynchronize)
FORBIDDEN(cuStreamWriteValue32_v2)
