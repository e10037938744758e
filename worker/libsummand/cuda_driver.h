/*
 * What the files of the CUDA part share: the driver's calls, and contexts (cuda_driver.c).
 */
#ifndef SMD_LIBSUMMAND_CUDA_DRIVER_H
#define SMD_LIBSUMMAND_CUDA_DRIVER_H

#include <cuda.h>

#include "worker/libsummand/device.h"

#define CUDA_CALLS(X)                                                                              \
	X(cuCtxGetCurrent)                                                                         \
	X(cuCtxGetDevice)                                                                          \
	X(cuCtxPopCurrent)                                                                         \
	X(cuCtxPushCurrent)                                                                        \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetAttribute)                                                                    \
	X(cuDeviceGetCount)                                                                        \
	X(cuDevicePrimaryCtxGetState)                                                              \
	X(cuDevicePrimaryCtxRelease)                                                               \
	X(cuDevicePrimaryCtxRetain)                                                                \
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
	X(cuStreamIsCapturing)                                                                     \
	X(cuStreamQuery)                                                                           \
	X(cuStreamSynchronize)                                                                     \
	X(cuThreadExchangeStreamCaptureMode)

/* What older drivers lack: streams that write words, and memory for network cards. */
#if CUDA_VERSION >= 11070
#define CUDA_NEWER_CALLS(X)                                                                        \
	X(cuFlushGPUDirectRDMAWrites)                                                              \
	X(cuMemGetHandleForAddressRange)                                                           \
	X(cuStreamWriteValue32)
#else
#define CUDA_NEWER_CALLS(X) X(cuStreamWriteValue32)
#endif

/* cuda.h renames calls to their current versions, which is what the driver exports. */
#define X(name) __typeof__(name) *name;
struct smd_cuda {
	CUDA_CALLS(X)
	CUDA_NEWER_CALLS(X)
};
#undef X
extern struct smd_cuda smd_cuda; /* calls that an older driver lacks are NULL */

/* Opens the driver, once; false: there is none, or it lacks a call. */
bool smd_cuda_load(void);

/* 0 or -errno. */
int smd_cuda_result(CUresult result, const char *call, struct smd_error *error);
/* Makes the call; 0 or -errno. */
#define CUDA(error, call, ...) smd_cuda_result(smd_cuda.call(__VA_ARGS__), #call, error)

/*
 * The device's context is the calling thread's, until smd_cuda_leave(). In between it may make
 * calls that would spoil graphs which any thread is capturing: nothing of a graph's is touched
 * here.
 */
int smd_cuda_enter_context(CUcontext context, struct smd_error *error);
int smd_cuda_enter(const struct smd_device *device, struct smd_error *error);
void smd_cuda_leave(void);
/* The same for calls that need no context. */
CUstreamCaptureMode smd_cuda_relax(void);
void smd_cuda_restore(CUstreamCaptureMode mode);

/* What device.h says of them. */
int smd_cuda_locate(const void *pointer, struct smd_device_location *out, struct smd_error *error);
int smd_cuda_export(struct smd_device *device, const void *pointer, struct smd_device_export *out,
	struct smd_error *error);
uint64_t smd_cuda_identify(struct smd_device *device, const void *pointer);
int smd_cuda_flush(struct smd_device *device, struct smd_error *error);
int smd_cuda_check_cards(bool *flushes, struct smd_error *error);
int smd_cuda_flush_current(struct smd_error *error);

#endif
