/* Says of the ports that lanes to a server take what they carry together, width times speed of
 * each, and on which node they are. */
#include "reduction_server/transport/rdma/rate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/address.h"
#include "reduction_server/transport/rdma/port.h"
#include "reduction_server/transport/rdma/settings.h"

struct rate {
	struct smd_verbs_port *ports;
	unsigned nports;
	const struct smd_verbs_port **counted; /* [ncounted], of them */
	unsigned ncounted;
};

static bool rate_counts(const struct rate *rate, const struct smd_verbs_port *port)
{
	for (unsigned i = 0; i < rate->ncounted; i++) {
		if (strcmp(rate->counted[i]->name, port->name) == 0 &&
			rate->counted[i]->number == port->number) {
			return true;
		}
	}
	return false;
}

/* Those that the shards of a server take in their turns; so many shards, 0: enough for all. */
static void rate_add(struct rate *rate, unsigned shards, struct smd_rdma_wish wish)
{
	const struct smd_verbs_port *begun = NULL;

	for (; !shards || wish.turn < shards; wish.turn++) {
		const struct smd_verbs_port *port =
			smd_rdma_port_choose(rate->ports, rate->nports, &wish);

		if (!port || port == begun) { /* all have had their turn */
			return;
		}
		begun = begun ? begun : port;
		if (!rate_counts(rate, port)) {
			rate->counted[rate->ncounted++] = port;
		}
	}
}

static bool port_is_listened_at(const struct smd_verbs_port *port, const struct smd_rdma_way *way)
{
	return memcmp(port->ethernet ? port->gid : port->address, way->local, sizeof(way->local)) ==
		       0 ||
	       (way->interface[0] && strcmp(port->interface, way->interface) == 0);
}

/* Those that the connection manager takes: the address decides alone, of InfiniBand too, and
 * nothing takes turns. */
static void rate_add_listened(struct rate *rate, const struct smd_rdma_way *way)
{
	for (unsigned i = 0; i < rate->nports; i++) {
		if (port_is_listened_at(&rate->ports[i], way) &&
			!rate_counts(rate, &rate->ports[i])) {
			rate->counted[rate->ncounted++] = &rate->ports[i];
		}
	}
}

static uint32_t rate_sum(const struct rate *rate, char *source, size_t size)
{
	uint32_t sum = 0;

	snprintf(source, size, "of ");
	for (unsigned i = 0; i < rate->ncounted; i++) {
		const struct smd_verbs_port *port = rate->counted[i];
		size_t length = strlen(source);

		if (port->mbps == 0) {
			return 0; /* what is not known of one is not known of all */
		}
		sum += port->mbps;
		snprintf(source + length, size - length, "%s%s:%u", i ? " and " : "", port->name,
			port->number);
	}
	return sum;
}

/* The ports that lanes take at these addresses. */
static void rate_read(struct rate *rate, const char *addresses, const char *devices,
	unsigned shards, const char *root)
{
	const uint32_t first = shards ? smd_rdma_port_first(addresses) : 0;
	char address[SMD_ADDRESS_LONGEST];
	struct smd_rdma_way way;
	int n;

	*rate = (struct rate){.ports = NULL};
	n = smd_verbs_ports(root, &rate->ports);
	rate->counted = n > 0 ? calloc((size_t)n, sizeof(*rate->counted)) : NULL;
	rate->nports = rate->counted ? (unsigned)n : 0;
	for (unsigned i = 0; smd_addresses_get(addresses, i, address); i++) {
		if (!smd_rdma_port_listens(address, root, &way)) {
			continue;
		}
		if (!devices) {
			rate_add_listened(rate, &way);
		}
		/* By the connection manager workers may come to any of them, where it is not known.
		 */
		if (devices || (way.anywhere && rate->ncounted == 0)) {
			rate_add(rate, shards,
				(struct smd_rdma_wish){.devices = devices,
					.local = way.local,
					.interface = way.interface,
					.first = first,
					.anywhere = way.anywhere});
		}
	}
}

static void rate_free(struct rate *rate)
{
	free(rate->counted);
	free(rate->ports);
}

uint32_t smd_rdma_rate_read(const char *addresses, const char *devices, unsigned shards,
	const char *root, char *source, size_t size)
{
	struct rate rate;
	uint32_t sum;

	rate_read(&rate, addresses, devices, shards, root);
	sum = rate_sum(&rate, source, size);
	rate_free(&rate);
	return sum;
}

/* Those that lanes heed. */
static const char *settings_devices(const struct smd_rdma_settings *settings)
{
	return settings->by_manager ? NULL : settings->devices;
}

uint32_t smd_rdma_rate(const char *addresses, unsigned shards, char *source, size_t size)
{
	struct smd_rdma_settings settings;

	return smd_rdma_settings_read(&settings, NULL)
		       ? 0
		       : smd_rdma_rate_read(
				 addresses, settings_devices(&settings), shards, "", source, size);
}

bool smd_rdma_node_read(
	const char *addresses, const char *devices, unsigned shards, const char *root, int *node)
{
	struct rate rate;

	rate_read(&rate, addresses, devices, shards, root);
	*node = -1;
	for (unsigned i = 0; i < rate.ncounted; i++) {
		int one = smd_verbs_node(root, rate.counted[i]->name);

		if (i > 0 && one != *node) {
			*node = -1;
			break;
		}
		*node = one;
	}
	rate_free(&rate);
	return rate.ncounted > 0;
}

bool smd_rdma_node(const char *addresses, unsigned shards, int *node)
{
	struct smd_rdma_settings settings;

	return smd_rdma_settings_read(&settings, NULL) == 0 &&
	       smd_rdma_node_read(addresses, settings_devices(&settings), shards, "", node);
}
