/*
 * The CUDA driver: its calls, and whose context is a thread's.
 *
 * It is opened when the first context is made, never linked: the same library runs where there is
 * none. SUMMAND_CUDA_DRIVER names another file to open, for tests.
 */
#include "worker/libsummand/cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "reduction_server/base/log.h"

#define TEXT(name) #name
struct smd_cuda smd_cuda;
static bool driver_found;

int smd_cuda_result(CUresult result, const char *call, struct smd_error *error)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS) {
		return 0;
	}
	if (smd_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) {
		return smd_error_set(error, EIO, "%s: CUDA error %d", call, (int)result);
	}
	return smd_error_set(
		error, result == CUDA_ERROR_OUT_OF_MEMORY ? ENOMEM : EIO, "%s: %s", call, name);
}

/* ---- the driver ---- */

static bool driver_take_calls(void *library, const char *path)
{
#define X(name)                                                                                    \
	smd_cuda.name = (__typeof__(smd_cuda.name))dlsym(library, TEXT(name));                     \
	if (!smd_cuda.name) {                                                                      \
		smd_log(SMD_LOG_WARN, "libsummand", "%s: has no %s, so device memory is not used", \
			path, TEXT(name));                                                         \
		return false;                                                                      \
	}
	CUDA_CALLS(X)
#undef X
#define X(name) smd_cuda.name = (__typeof__(smd_cuda.name))dlsym(library, TEXT(name));
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

bool smd_cuda_load(void)
{
	static pthread_once_t loaded = PTHREAD_ONCE_INIT;

	pthread_once(&loaded, driver_load);
	return driver_found;
}

/* ---- contexts ---- */

static _Thread_local CUstreamCaptureMode mode_before;

CUstreamCaptureMode smd_cuda_relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	/* A driver that is not initialized does not change it, nor say what it was. */
	return smd_cuda.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS
		       ? mode
		       : CU_STREAM_CAPTURE_MODE_GLOBAL; /* the default */
}

void smd_cuda_restore(CUstreamCaptureMode mode)
{
	smd_cuda.cuThreadExchangeStreamCaptureMode(&mode);
}

int smd_cuda_enter_context(CUcontext context, struct smd_error *error)
{
	CUstreamCaptureMode mode = smd_cuda_relax();
	int ret = CUDA(error, cuCtxPushCurrent, context);

	if (ret) {
		smd_cuda_restore(mode);
	} else {
		mode_before = mode;
	}
	return ret;
}

int smd_cuda_enter(const struct smd_device *device, struct smd_error *error)
{
	return smd_cuda_enter_context(device->context, error);
}

void smd_cuda_leave(void)
{
	CUcontext context;

	smd_cuda.cuCtxPopCurrent(&context);
	smd_cuda_restore(mode_before);
}
