/* Stands in for RDMA in a build without it, and says so. */
#include <errno.h>

#include "reduction_server/transport/rdma/verbs_check.h"
#include "reduction_server/transport/transports.h"

static int absent_say(struct smd_error *error)
{
	return smd_error_set(error, ENODEV,
		"this build has no RDMA (it was made without libibverbs, librdmacm)");
}

static int absent_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	(void)base;
	(void)address;
	(void)on_accept;
	(void)owner;
	(void)out;
	(void)bound;
	return absent_say(error);
}

static int absent_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error)
{
	(void)base;
	(void)address;
	(void)origin;
	(void)shard;
	(void)callbacks;
	(void)owner;
	(void)out;
	return absent_say(error);
}

int smd_verbs_check_dmabuf(const char *device)
{
	(void)device;
	return -ENODEV;
}

bool smd_rdma_wants_windows(void)
{
	return false;
}

const struct smd_transport_ops smd_transport_rdma = {
	.name = "rdma",
	.preference = 2,
	.device = "RDMA",
	.listen = absent_listen,
	.connect = absent_connect,
};
