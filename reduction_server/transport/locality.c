/* Reads the nodes of network cards and processors from sysfs, and tells the kernel which processors to use. */
#include "reduction_server/transport/locality.h"

#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/numa.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/bandwidth.h"
#include "reduction_server/transport/transport.h"

#define PROCESSORS_MAX 8192

static int interface_node(const char *root, const char *interface)
{
	char path[PATH_MAX];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/class/net/%s/device/numa_node", root, interface);
	file = fopen(path, "r");
	if (!file) {
		return -1; /* it is no card: a bridge, a tunnel */
	}
	if (fscanf(file, "%d", &node) != 1 || node >= SMD_NUMA_NODES_MAX) {
		node = -1;
	}
	fclose(file);
	return node;
}

int smd_locality_node(const char *listen, const char *root)
{
	char address[SMD_ADDRESS_LONGEST];
	int node = -1;

	for (unsigned i = 0; smd_addresses_get(listen, i, address); i++) {
		char interface[IF_NAMESIZE];
		int one = smd_bandwidth_interface(address, root, interface)
				  ? interface_node(root, interface)
				  : -1;

		if (one < 0 || (i > 0 && one != node)) {
			return -1;
		}
		node = one;
	}
	return node;
}

/* Nothing is sent: a datagram's socket only asks for the way. */
static int local_end(const struct addrinfo *server, char out[SMD_ADDRESS_TEXT_MAX])
{
	struct sockaddr_storage own;
	socklen_t size = sizeof(own);
	int fd = socket(server->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 ? -errno : 0;

	if (ret == 0 && (connect(fd, server->ai_addr, server->ai_addrlen) != 0 ||
				getsockname(fd, (struct sockaddr *)&own, &size) != 0)) {
		ret = -errno;
	}
	if (ret == 0) {
		smd_address_print((const struct sockaddr *)&own, size, out);
	}
	if (fd >= 0) {
		close(fd);
	}
	return ret;
}

/* This machine's address on the way to that server. */
static int own_address(const char *server, char own[SMD_ADDRESS_TEXT_MAX])
{
	struct addrinfo *list;
	int ret = smd_address_resolve(server, 0, &list, NULL);

	if (ret == 0) {
		ret = local_end(smd_address_choose(list), own);
		freeaddrinfo(list);
	}
	return ret;
}

int smd_locality_towards(const char *server, const char *root)
{
	char own[SMD_ADDRESS_TEXT_MAX];

	return own_address(server, own) ? -1 : smd_locality_node(own, root);
}

static const char *ways_root(const struct smd_locality_ways *ways)
{
	return ways->root ? ways->root : "";
}

int smd_locality_of(const struct smd_locality_ways *ways, const char *addresses, unsigned shards)
{
	int node = -1;

	for (unsigned i = 0; i < ways->ntransports; i++) {
		const struct smd_transport_ops *ops = ways->transports[i];

		if (ops->node && ops->node(addresses, shards, &node)) {
			return node;
		}
	}
	return smd_locality_node(addresses, ways_root(ways));
}

/* A list such as "0-7,16-23". */
static void read_processors(FILE *file, cpu_set_t *set, size_t size)
{
	unsigned first;
	unsigned last;

	while (fscanf(file, "%u", &first) == 1) {
		last = first;
		if (fscanf(file, "-%u", &last) == EOF) {
			last = first;
		}
		for (unsigned i = first; i <= last && i < PROCESSORS_MAX; i++) {
			CPU_SET_S(i, size, set);
		}
		if (fgetc(file) != ',') {
			break;
		}
	}
}

int smd_locality_pin(int node, const char *root)
{
	const size_t size = CPU_ALLOC_SIZE(PROCESSORS_MAX);
	cpu_set_t *near = CPU_ALLOC(PROCESSORS_MAX);
	cpu_set_t *allowed = CPU_ALLOC(PROCESSORS_MAX);
	char path[PATH_MAX];
	int ret = -ENOMEM;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%d/cpulist", root, node);
	file = fopen(path, "r");
	if (!file) {
		ret = -errno;
	} else if (near && allowed) {
		CPU_ZERO_S(size, near);
		read_processors(file, near, size);
		ret = sched_getaffinity(0, size, allowed) == 0 ? 0 : -errno;
	}
	if (ret == 0) {
		CPU_AND_S(size, near, near, allowed);
		ret = CPU_COUNT_S(size, near) == 0	    ? -ENODEV
		      : sched_setaffinity(0, size, near) == 0 ? 0
							      : -errno;
	}
	if (file) {
		fclose(file);
	}
	CPU_FREE(allowed);
	CPU_FREE(near);
	return ret;
}

static void log_settled(const char *who, const char *what, int node, int ret)
{
	if (ret) {
		smd_log(SMD_LOG_WARN, who, "%s cannot be kept on NUMA node %d, the card's: %s",
			what, node, strerror(-ret));
	} else {
		smd_log(SMD_LOG_INFO, who, "%s: on NUMA node %d, the card's", what, node);
	}
}

void smd_locality_settle(
	const struct smd_locality_ways *ways, const char *listen, unsigned shards, bool pins)
{
	int node = smd_locality_of(ways, listen, shards);

	if (node >= 0) {
		log_settled("server", "memory", node, smd_numa_prefer(node));
	}
	if (pins && node >= 0) {
		log_settled("server", "threads", node, smd_locality_pin(node, ways_root(ways)));
	} else if (pins) {
		smd_log(SMD_LOG_WARN, "server",
			"threads run anywhere: the NUMA node of the card for %s is not known", listen);
	}
}

void smd_locality_settle_towards(const struct smd_locality_ways *ways, const char *server)
{
	static const char who[] = "libsummand";
	char address[SMD_ADDRESS_LONGEST];
	char own[SMD_ADDRESS_TEXT_MAX];
	int node = -1;

	if (smd_addresses_get(server, 0, address) && own_address(address, own) == 0) {
		node = smd_locality_of(ways, own, 0);
	}
	if (node < 0) {
		smd_log(SMD_LOG_WARN, who,
			"the progress thread runs anywhere: the NUMA node of the card for %s is "
			"not known",
			server);
		return;
	}
	log_settled(who, "the progress thread", node, smd_locality_pin(node, ways_root(ways)));
	log_settled(who, "its memory", node, smd_numa_prefer(node));
}
