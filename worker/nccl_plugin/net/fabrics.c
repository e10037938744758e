/* Keeps what is known of fabrics, by device, transport and host. */
#include "worker/nccl_plugin/net/fabrics.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"
#include "worker/libsummand/fabric.h"
#include "worker/nccl_plugin/abi/log.h"

struct net_host {
	LIST_ENTRY(net_host) link;
	uint8_t address[16];
	bool used; /* connections to it were made */
	struct smd_far_end end;
};

struct net_fabric {
	LIST_ENTRY(net_fabric) link;
	const struct smd_nccl_device *device;
	const struct smd_transport_ops *ops;
	struct smd_fabric fabric;
	uint64_t vain_ns; /* the last that was in vain */
	LIST_HEAD(, net_host) hosts;
};

uint64_t smd_net_fabrics_forget_ns = 600 * SMD_SECOND_NS;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of them */
static LIST_HEAD(, net_fabric) fabrics = LIST_HEAD_INITIALIZER(fabrics);

/* NULL: nothing is known of it, and it cannot be kept (out of memory). */
static struct net_fabric *fabric_get(
	const struct smd_nccl_device *device, const struct smd_transport_ops *ops)
{
	struct net_fabric *fabric;

	LIST_FOREACH (fabric, &fabrics, link) {
		if (fabric->device == device && fabric->ops == ops) {
			return fabric;
		}
	}
	fabric = calloc(1, sizeof(*fabric));
	if (fabric) {
		fabric->device = device;
		fabric->ops = ops;
		LIST_INIT(&fabric->hosts);
		LIST_INSERT_HEAD(&fabrics, fabric, link);
	}
	return fabric;
}

static void fabric_end(struct net_fabric *fabric)
{
	while (!LIST_EMPTY(&fabric->hosts)) {
		struct net_host *host = LIST_FIRST(&fabric->hosts);

		LIST_REMOVE(host, link);
		free(host);
	}
	LIST_REMOVE(fabric, link);
	free(fabric);
}

/* What was found out long ago may have been mended. */
static void fabrics_forget(void)
{
	uint64_t now_ns = smd_clock_ns();
	struct net_fabric *fabric = LIST_FIRST(&fabrics);

	while (fabric) {
		struct net_fabric *next = LIST_NEXT(fabric, link);

		if (fabric->vain_ns && now_ns - fabric->vain_ns > smd_net_fabrics_forget_ns) {
			fabric_end(fabric);
		}
		fabric = next;
	}
}

/* NULL: as for a fabric. */
static struct net_host *host_get(struct net_fabric *fabric, const struct sockaddr_storage *of)
{
	uint8_t address[16] = {0};
	struct net_host *host;

	(void)smd_address_bytes((const struct sockaddr *)of, address);
	LIST_FOREACH (host, &fabric->hosts, link) {
		if (memcmp(host->address, address, sizeof(address)) == 0) {
			return host;
		}
	}
	host = calloc(1, sizeof(*host));
	if (host) {
		memcpy(host->address, address, sizeof(address));
		LIST_INSERT_HEAD(&fabric->hosts, host, link);
	}
	return host;
}

bool smd_net_fabric_is_silent(const struct smd_nccl_device *device,
	const struct smd_transport_ops *ops, const struct sockaddr_storage *of)
{
	struct net_fabric *fabric;
	struct net_host *host;
	bool silent;

	pthread_mutex_lock(&lock);
	fabrics_forget();
	fabric = fabric_get(device, ops);
	host = fabric ? host_get(fabric, of) : NULL;
	silent = host && smd_fabric_is_silent(&fabric->fabric, &host->end);
	pthread_mutex_unlock(&lock);
	return silent;
}

void smd_net_fabric_crosses(const struct smd_nccl_device *device,
	const struct smd_transport_ops *ops, const struct sockaddr_storage *of)
{
	struct net_fabric *fabric;
	struct net_host *host;

	pthread_mutex_lock(&lock);
	fabric = fabric_get(device, ops);
	host = fabric ? host_get(fabric, of) : NULL;
	if (host) {
		smd_fabric_crosses(&fabric->fabric, &host->end);
		host->used = true;
	}
	pthread_mutex_unlock(&lock);
}

void smd_net_fabric_in_vain(const struct smd_nccl_device *device,
	const struct smd_transport_ops *ops, const struct sockaddr_storage *of, const char *reason)
{
	enum smd_fabric_news news = SMD_FABRIC_NO_NEWS;
	struct net_fabric *fabric;
	struct net_host *host;
	char name[128];

	pthread_mutex_lock(&lock);
	fabric = fabric_get(device, ops);
	host = fabric ? host_get(fabric, of) : NULL;
	if (host) {
		news = smd_fabric_in_vain(&fabric->fabric, &host->end, host->used);
		fabric->vain_ns = smd_clock_ns();
	}
	pthread_mutex_unlock(&lock);
	if (news == SMD_FABRIC_SILENT) {
		smd_nccl_log_warn("net: nothing comes over %s from %u hosts: connections of %s to "
				  "all hosts go another way: %s",
			ops->name, SMD_FABRIC_VAIN_ENDS, device->name, reason);
	} else if (news == SMD_FAR_END_SILENT) {
		smd_address_print((const struct sockaddr *)of,
			of->ss_family == AF_INET ? sizeof(struct sockaddr_in)
						 : sizeof(struct sockaddr_in6),
			name);
		smd_nccl_log_warn("net: nothing comes over %s from %s: connections of %s to it go "
				  "another way: %s",
			ops->name, name, device->name, reason);
	}
}

void smd_net_fabrics_end(void)
{
	pthread_mutex_lock(&lock);
	while (!LIST_EMPTY(&fabrics)) {
		fabric_end(LIST_FIRST(&fabrics));
	}
	pthread_mutex_unlock(&lock);
}
