/* Asks the settings, the network cards and the CUDA driver. */
#include "worker/nccl_plugin/device/gdr.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/verbs_check.h"
#include "worker/libsummand/config.h"
#include "worker/libsummand/device.h"
#include "worker/nccl_plugin/abi/log.h"

#define VARIABLE "SUMMAND_NCCL_GDR"

/* Some GPU does not see what cards write until its driver is asked. */
static bool flushes;

static bool is_wanted(const char *how)
{
	const char *wanted = getenv(VARIABLE);

	return wanted && strcmp(wanted, how) == 0;
}

int smd_gdr_read(struct smd_error *error)
{
	const char *text = getenv(VARIABLE);

	if (!text || !*text || is_wanted("0") || is_wanted("1") || is_wanted("flush")) {
		return 0;
	}
	return smd_error_set(error, EINVAL, VARIABLE ": must be 0, 1 or flush, got \"%s\"", text);
}

static int check_wanted(struct smd_error *error)
{
	return is_wanted("1") || is_wanted("flush")
		       ? 0
		       : smd_error_set(error, ENOTSUP, "SUMMAND_NCCL_GDR is not 1");
}

/* With "auto" a lane may share memory or become TCP's, both of which copy. */
static int check_transport(struct smd_error *error)
{
	struct smd_config config;
	int ret = smd_config_read(NULL, &config, error);

	if (ret) {
		return ret;
	}
	for (unsigned i = 0; ret == 0 && i < config.ntransports; i++) {
		if (!smd_transport_takes_device_memory(config.transports[i])) {
			ret = smd_error_set(error, ENOTSUP,
				"SUMMAND_TRANSPORT lets lanes go over %s, which copies",
				config.transports[i]->name);
		}
	}
	smd_config_free(&config);
	if (ret == 0 && smd_rdma_wants_windows()) {
		ret = smd_error_set(error, ENOTSUP,
			"SUMMAND_RDMA_WINDOWS is 1, and there are no memory windows to GPU memory");
	}
	return ret;
}

static int check_card(const struct smd_nccl_device *device, struct smd_error *error)
{
	int ret;

	if (!*device->rdma_name) {
		return smd_error_set(error, ENODEV, "%s has no RDMA device", device->name);
	}
	ret = smd_verbs_check_dmabuf(device->rdma_name);
	return ret ? smd_error_set(error, -ret, "%s takes no dma-bufs: %s", device->rdma_name,
			     strerror(-ret))
		   : 0;
}

/* NCCL asks for a flush on its progress thread, for which kernels wait, and the driver may wait for
 * these: then both would for ever. */
static int check_flush(struct smd_error *error)
{
	if (flushes && !is_wanted("flush")) {
		return smd_error_set(error, ENOTSUP,
			"the GPU sees what cards write only when its driver is asked, which may "
			"wait for kernels that wait for it; SUMMAND_NCCL_GDR=flush asks");
	}
	return 0;
}

static int check_gpus(struct smd_error *error)
{
	const struct smd_device_ops *gpus = smd_device_ops();
	int ret = gpus ? gpus->check_cards(&flushes, error)
		       : smd_error_set(error, ENODEV,
				 "there is no CUDA driver, or it was built without CUDA's headers");

	return ret ? ret : check_flush(error);
}

int smd_gdr_check(const struct smd_nccl_device *devices, int ndevices, struct smd_error *error)
{
	int ret = check_wanted(error);

	ret = ret ? ret : check_transport(error);
	for (int i = 0; ret == 0 && i < ndevices; i++) {
		ret = check_card(&devices[i], error);
	}
	return ret ? ret : check_gpus(error);
}

int smd_gdr_flush(void)
{
	struct smd_error error = {""};

	if (flushes && smd_device_ops()->flush_current(&error)) {
		smd_nccl_log_warn("GPU memory: what has come cannot be made seen: %s", error.text);
		return NCCL_SYSTEM_ERROR;
	}
	return NCCL_SUCCESS;
}
