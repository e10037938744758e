/*
 * What connections have found out of the fabrics of this process's devices (libsummand/fabric.h):
 * each transport's of each device, and the hosts at its other ends.
 *
 * NCCL connects on several threads: each call takes a lock.
 */
#ifndef SMD_NCCL_PLUGIN_NET_FABRICS_H
#define SMD_NCCL_PLUGIN_NET_FABRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "reduction_server/transport/transport.h"
#include "worker/nccl_plugin/device/device.h"

/* Whether a connection to that host need not be tried over the transport. */
bool smd_net_fabric_is_silent(const struct smd_nccl_device *device,
	const struct smd_transport_ops *ops, const struct sockaddr_storage *host);

/* One was made. */
void smd_net_fabric_crosses(const struct smd_nccl_device *device,
	const struct smd_transport_ops *ops, const struct sockaddr_storage *host);

/* Both ends of one had made their halves, and nothing came over it; `reason` is a phrase. */
void smd_net_fabric_in_vain(const struct smd_nccl_device *device,
	const struct smd_transport_ops *ops, const struct sockaddr_storage *host,
	const char *reason);

/* Silence is forgotten after so long, since NCCL before net v11 does not say when it ends; tests
 * have less. */
extern uint64_t smd_net_fabrics_forget_ns;

/* All of it is forgotten. */
void smd_net_fabrics_end(void);

#endif
