/* NVML, which NCCL opens by name, with the GPUs of a node: NVML shows all of them to each process. They may be peers; a topology
 * that NCCL is given (NCCL_TOPO_FILE) says over what. What is not here NCCL takes for a driver that has not got it. */
#include <stdlib.h>

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, GPUS = 8 };

static char gpus[GPUS]; /* each known by its address */

typedef char *nvml_device;

#define ANSWER(name, value)                                                                        \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return value;                                                                      \
	}

ANSWER(nvmlInit, 0)
ANSWER(nvmlInit_v2, 0)
ANSWER(nvmlShutdown, 0)
ANSWER(nvmlDeviceGetNvLinkState, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetNvLinkRemotePciInfo, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetNvLinkCapability, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetFieldValues, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetPciInfoExt, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetPciInfo_v3, NOT_SUPPORTED)
ANSWER(nvmlDeviceGetPcieLinkMaxSpeed, NOT_SUPPORTED)

const char *nvmlErrorString(int error);
int nvmlDeviceGetCount(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByPciBusId(const char *id, nvml_device *device);
int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device);
int nvmlDeviceGetIndex(nvml_device device, unsigned *index);
int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor);
int nvmlDeviceGetP2PStatus(nvml_device one, nvml_device other, int which, int *status);

const char *nvmlErrorString(int error)
{
	return error ? "not supported by the simulated GPU" : "no error";
}

int nvmlDeviceGetCount(unsigned *count)
{
	*count = GPUS;
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	return nvmlDeviceGetCount(count);
}

/* "0000:01:00.0" is the first one's. */
int nvmlDeviceGetHandleByPciBusId(const char *id, nvml_device *device)
{
	char *end;
	unsigned long bus;

	strtoul(id, &end, 16);
	bus = *end == ':' ? strtoul(end + 1, NULL, 16) : 0;
	if (bus < 1 || bus > GPUS) {
		return NOT_FOUND;
	}
	*device = &gpus[bus - 1];
	return 0;
}

int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device)
{
	if (index >= GPUS) {
		return NOT_FOUND;
	}
	*device = &gpus[index];
	return 0;
}

int nvmlDeviceGetIndex(nvml_device device, unsigned *index)
{
	*index = (unsigned)(device - gpus);
	return 0;
}

int nvmlDeviceGetCudaComputeCapability(nvml_device device, int *major, int *minor)
{
	(void)device;
	*major = 9;
	*minor = 0;
	return 0;
}

int nvmlDeviceGetP2PStatus(nvml_device one, nvml_device other, int which, int *status)
{
	(void)one;
	(void)other;
	(void)which;
	*status = 0; /* they can */
	return 0;
}
