/* Opens devices, and finds the addresses of their ports. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/rdma/verbs.h"

#define GIDS_MOST 512 /* that are looked at, of all ports of a device */

static int device_open(struct ibv_device *device, struct ibv_context **out)
{
	int flags;

	*out = ibv_open_device(device);
	if (!*out) {
		return -errno;
	}
	flags = fcntl((*out)->async_fd, F_GETFL);
	if (fcntl((*out)->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
		int err = errno;

		ibv_close_device(*out);
		return -err;
	}
	return 0;
}

int smd_verbs_devices_open(bool (*known)(const void *owner, const char *name), const void *owner,
	struct ibv_context **out, int n)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int opened = 0;
	int ret = 0;

	if (!list) {
		return -errno;
	}
	for (int i = 0; list[i] && opened < n; i++) {
		if (known(owner, ibv_get_device_name(list[i]))) {
			continue;
		}
		ret = device_open(list[i], &out[opened]);
		opened += ret == 0;
	}
	ibv_free_device_list(list);
	return opened ? opened : ret;
}

void smd_verbs_device_close(struct ibv_context *device)
{
	ibv_close_device(device);
}

int smd_verbs_device_event_take(struct ibv_context *device, struct ibv_async_event *out)
{
	if (ibv_get_async_event(device, out) != 0) {
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	}
	ibv_ack_async_event(out);
	return 0;
}

/* ---- ports ---- */

/* Lanes of one width, times their rate in units of 2.5 Gbit/s. */
static uint32_t port_mbps(const struct ibv_port_attr *port)
{
	static const struct {
		uint8_t code;
		uint32_t value;
	} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
	  speeds[] = {{1, 2500}, {2, 5000}, {4, 10000}, {8, 10000}, {16, 14000}, {32, 25000},
		  {64, 50000}, {128, 100000}};
	uint32_t mbps = 1;

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		mbps *= widths[i].code == port->active_width ? widths[i].value : 1;
	}
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		mbps *= speeds[i].code == port->active_speed ? speeds[i].value : 1;
	}
	return mbps;
}

/* RoCE v2 on Ethernet; on InfiniBand the port's own, which is its first. */
static bool gid_is_used(const struct ibv_gid_entry *gid, const struct ibv_port_attr *port)
{
	return port->link_layer == IBV_LINK_LAYER_ETHERNET
		       ? gid->gid_type == IBV_GID_TYPE_ROCE_V2
		       : gid->gid_index == 0;
}

static struct smd_verbs_port port_of(struct ibv_context *device, const struct ibv_gid_entry *gid,
	const struct ibv_port_attr *attributes)
{
	struct smd_verbs_port port = {
		.device = device,
		.name = ibv_get_device_name(device->device),
		.number = (uint8_t)gid->port_num,
		.ethernet = attributes->link_layer == IBV_LINK_LAYER_ETHERNET,
		.gid_index = (uint8_t)gid->gid_index,
		.lid = attributes->lid,
		.mtu = attributes->active_mtu,
		.mbps = port_mbps(attributes),
	};

	memcpy(port.gid, gid->gid.raw, sizeof(port.gid));
	return port;
}

int smd_verbs_ports(struct ibv_context *device, struct smd_verbs_port *out, int n)
{
	struct ibv_gid_entry *gids = calloc(GIDS_MOST, sizeof(*gids));
	ssize_t ngids = gids ? ibv_query_gid_table(device, gids, GIDS_MOST, 0) : -ENOMEM;
	struct ibv_port_attr port;
	int found = 0;

	for (ssize_t i = 0; i < ngids && found < n; i++) {
		if (ibv_query_port(device, (uint8_t)gids[i].port_num, &port) == 0 &&
			port.state == IBV_PORT_ACTIVE && gid_is_used(&gids[i], &port)) {
			out[found++] = port_of(device, &gids[i], &port);
		}
	}
	free(gids);
	return ngids < 0 ? (int)ngids : found;
}
