/* The rest of the CUDA runtime that NCCL is linked with: what succeeds by doing nothing, and what
 * the simulated GPU has not. Nothing is read of the arguments, so these have none here. */

enum { NOT_SUPPORTED = 801 }; /* cudaErrorNotSupported */

#define NOTHING(name)                                                                              \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return 0;                                                                          \
	}

#define ABSENT(name)                                                                               \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return NOT_SUPPORTED;                                                              \
	}

NOTHING(cudaDeviceEnablePeerAccess)
NOTHING(cudaDeviceSetLimit)
NOTHING(cudaFuncSetAttribute)
NOTHING(cudaHostRegister)
NOTHING(cudaHostUnregister)
NOTHING(cudaMemPoolDestroy)
NOTHING(cudaMemPoolSetAttribute)
NOTHING(cudaThreadExchangeStreamCaptureMode)

ABSENT(cudaMemcpyBatchAsync)
