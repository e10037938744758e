/* NVML, which NCCL opens by name, with one GPU that has neither NVLink nor peers. What is not here
 * NCCL takes for a driver that has not got it. */

enum { NOT_SUPPORTED = 3, P2P_NOT_SUPPORTED = 1 };

typedef struct device *nvml_device;

static nvml_device only(void)
{
	static char place;

	return (nvml_device)&place;
}

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
	*count = 1;
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	return nvmlDeviceGetCount(count);
}

int nvmlDeviceGetHandleByPciBusId(const char *id, nvml_device *device)
{
	(void)id;
	*device = only();
	return 0;
}

int nvmlDeviceGetHandleByIndex(unsigned index, nvml_device *device)
{
	(void)index;
	*device = only();
	return 0;
}

int nvmlDeviceGetIndex(nvml_device device, unsigned *index)
{
	(void)device;
	*index = 0;
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
	*status = P2P_NOT_SUPPORTED;
	return 0;
}
