/*
 * What a connection of a device goes over, and how long it may take: from the environment, as for
 * libsummand (SUMMAND_TRANSPORT, SUMMAND_TLS, SUMMAND_CONNECT_TIMEOUT), and SUMMAND_NCCL_SOCKETS.
 */
#ifndef SMD_NCCL_PLUGIN_NET_OPTIONS_H
#define SMD_NCCL_PLUGIN_NET_OPTIONS_H

#include <stdint.h>

#include "reduction_server/transport/transport.h"
#include "worker/nccl_plugin/device/device.h"

/*
 * So many sockets without SUMMAND_NCCL_SOCKETS. One is as fast as several where the processor is
 * what bounds them; clouds give one flow less than the link has, so there it is as many as NCCL's
 * own network takes.
 */
unsigned smd_net_sockets_default(const struct smd_nccl_device *device);

struct smd_net_options {
	/* The first of these that there is. */
	const struct smd_transport_ops *transports[SMD_TRANSPORTS_MAX];
	unsigned ntransports;
	unsigned sockets;        /* of a connection over TCP */
	bool encrypt;            /* lanes, */
	struct smd_lane_key key; /* with this */
	uint64_t timeout_ns;
};

/* 0 or -errno with a text. */
int smd_net_options_read(
	const struct smd_nccl_device *device, struct smd_net_options *out, struct smd_error *error);

/* "10.0.0.1:4000": the address, which may be of the device's link only, with that port. */
void smd_net_address(const struct sockaddr_storage *address, const struct smd_nccl_device *device,
	uint16_t port, char out[128]);

#endif
