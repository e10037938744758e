/* Reads what connections go over. */
#include "worker/nccl_plugin/net/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/transport/address.h"
#include "worker/libsummand/config.h"
#include "worker/nccl_plugin/net/wire.h"

#define VENDOR_AMAZON 0x1d0fu
#define VENDOR_GOOGLE 0x1ae0u

unsigned smd_net_sockets_default(const struct smd_nccl_device *device)
{
	switch (device->vendor) {
	case VENDOR_AMAZON:
		return 16;
	case VENDOR_GOOGLE:
		return 4;
	default:
		return 1;
	}
}

static int read_sockets(
	const struct smd_nccl_device *device, unsigned *out, struct smd_error *error)
{
	const char *text = getenv("SUMMAND_NCCL_SOCKETS");
	uint64_t sockets = smd_net_sockets_default(device);

	if (text && *text && smd_parse_number(text, 1, SMD_NET_LANES_MAX, &sockets)) {
		return smd_error_set(error, EINVAL,
			"SUMMAND_NCCL_SOCKETS: must be 1 to %d, got \"%s\"", SMD_NET_LANES_MAX,
			text);
	}
	*out = (unsigned)sockets;
	return 0;
}

int smd_net_options_read(
	const struct smd_nccl_device *device, struct smd_net_options *out, struct smd_error *error)
{
	struct smd_config config;
	int ret = smd_config_read(NULL, &config, error);

	*out = (struct smd_net_options){.ntransports = 0};
	if (ret) {
		return ret;
	}
	for (unsigned i = 0; i < config.ntransports; i++) {
		const struct smd_transport_ops *transport = config.transports[i];

		/* NCCL has memory of its own for processes of one host. */
		if (!transport->within_host && (!transport->device || *device->rdma_name)) {
			out->transports[out->ntransports++] = transport;
		}
	}
	out->encrypt = config.encrypt;
	out->key = config.key;
	out->timeout_ns = config.connect_timeout_s * SMD_SECOND_NS;
	if (out->ntransports == 0 && config.transports[0]->within_host) {
		ret = smd_error_set(error, ENODEV,
			"SUMMAND_TRANSPORT: must be one that crosses hosts, for what does not go "
			"through reduction servers, got %s",
			config.transports[0]->name);
	} else if (out->ntransports == 0) {
		ret = smd_error_set(error, ENODEV,
			"SUMMAND_TRANSPORT: %s must have an %s device, or it must not be %s",
			device->name, config.transports[0]->device, config.transports[0]->name);
	}
	smd_config_free(&config);
	return ret ? ret : read_sockets(device, &out->sockets, error);
}

void smd_net_address(const struct sockaddr_storage *address, const struct smd_nccl_device *device,
	uint16_t port, char out[128])
{
	struct sockaddr_storage whole = *address;

	if (whole.ss_family == AF_INET) {
		((struct sockaddr_in *)&whole)->sin_port = htons(port);
		smd_address_print((struct sockaddr *)&whole, sizeof(struct sockaddr_in), out);
		return;
	}
	((struct sockaddr_in6 *)&whole)->sin6_port = htons(port);
	smd_nccl_device_lead(device, &whole);
	smd_address_print((struct sockaddr *)&whole, sizeof(struct sockaddr_in6), out);
}
