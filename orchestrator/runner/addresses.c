/* Chooses the addresses by which hosts reach each other. */
#include "orchestrator/runner/addresses.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_SIZE 256

typedef int fits_fn(const struct smd_host_interface *interface,
	const struct smd_host_address *address, const void *arg);

/* The host's first address that fits, v4 before v6. */
static int find(
	const struct smd_host_facts *host, fits_fn *fits, const void *arg, struct smd_rail *out)
{
	for (int is_v6 = 0; is_v6 <= 1; is_v6++) {
		for (size_t i = 0; i < host->ninterfaces; i++) {
			const struct smd_host_interface *interface = &host->interfaces[i];

			for (size_t n = 0; n < interface->naddresses; n++) {
				const struct smd_host_address *address = &interface->addresses[n];

				if (address->is_v6 == is_v6 && fits(interface, address, arg)) {
					*out = (struct smd_rail){address, interface};
					return 1;
				}
			}
		}
	}
	return 0;
}

static int has_name(const struct smd_host_interface *interface,
	const struct smd_host_address *address, const void *name)
{
	(void)address;
	return strcmp(interface->name, name) == 0;
}

static int is_in_network(const struct smd_host_interface *interface,
	const struct smd_host_address *address, const void *network)
{
	(void)interface;
	return smd_host_address_is_in(address, network);
}

static int is_loopback(const struct smd_host_interface *interface,
	const struct smd_host_address *address, const void *arg)
{
	(void)address;
	(void)arg;
	return interface->is_loopback;
}

static int is_same(const struct smd_host_address *a, const struct smd_host_address *b)
{
	return a->is_v6 == b->is_v6 && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/*
 * Whether all hosts are in the network, each with an address of its own: the bridges of containers
 * have the same one everywhere, and lead nowhere. The slowest interface's speed is the network's.
 */
static int is_common(const struct smd_host_facts *const *hosts, size_t count,
	const struct smd_host_address *network, struct smd_rail *chosen, uint32_t *speed)
{
	*speed = UINT32_MAX;
	for (size_t i = 0; i < count; i++) {
		if (!find(hosts[i], is_in_network, network, &chosen[i]) ||
			chosen[i].interface->is_loopback) {
			return 0;
		}
		for (size_t n = 0; n < i; n++) {
			if (is_same(chosen[n].address, chosen[i].address) &&
				strcmp(hosts[n]->network, hosts[i]->network) != 0) {
				return 0;
			}
		}
		if (chosen[i].interface->speed_mbps < *speed) {
			*speed = chosen[i].interface->speed_mbps;
		}
	}
	return 1;
}

/* The fastest network that all hosts are in, v4 before v6 where they are as fast. */
static int choose_common(
	const struct smd_host_facts *const *hosts, size_t count, struct smd_rail *out)
{
	const struct smd_host_address *best = NULL;
	uint32_t best_speed = 0;
	uint32_t speed;

	for (size_t i = 0; i < hosts[0]->ninterfaces; i++) {
		const struct smd_host_interface *interface = &hosts[0]->interfaces[i];

		for (size_t n = 0; n < interface->naddresses; n++) {
			const struct smd_host_address *address = &interface->addresses[n];

			if (!is_common(hosts, count, address, out, &speed)) {
				continue;
			}
			if (!best || speed > best_speed ||
				(speed == best_speed && best->is_v6 && !address->is_v6)) {
				best = address;
				best_speed = speed;
			}
		}
	}
	return best && is_common(hosts, count, best, out, &speed);
}

static int refuse(const struct smd_host_facts *host, const char *wanted, struct smd_error *error)
{
	char names[NAMES_SIZE] = "none";
	size_t used = 0;

	for (size_t i = 0; i < host->ninterfaces && used < sizeof(names); i++) {
		if (host->interfaces[i].naddresses > 0) {
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s %s",
				used ? ", " : "", host->interfaces[i].name,
				host->interfaces[i].addresses[0].text);
		}
	}
	return smd_error_set(error, EADDRNOTAVAIL,
		"host %s: must have an interface %s%s that is up and has an address, got %s",
		host->name, wanted ? wanted : "to the other hosts", wanted ? " (--interface)" : "",
		names);
}

/* Docker names its own networks' bridges so; br-ex, br-lan and the like may lead to other hosts. */
static int is_bridge_of_docker(const char *name)
{
	static const char prefix[] = "br-";
	const size_t digits = 12;

	return strncmp(name, prefix, strlen(prefix)) == 0 &&
	       strlen(name + strlen(prefix)) == digits &&
	       strspn(name + strlen(prefix), "0123456789abcdef") == digits;
}

/* What containers and virtual machines of one host meet at; it leads to no other host. */
static int is_bridge_of_containers(const struct smd_host_interface *interface)
{
	static const char *const beginnings[] = {"docker", "cni", "podman", "lxcbr", "lxdbr",
		"virbr", "veth", "flannel", "cali", "cilium", "weave", "kube-"};

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		if (strncmp(interface->name, beginnings[i], strlen(beginnings[i])) == 0) {
			return 1;
		}
	}
	return is_bridge_of_docker(interface->name);
}

/* Whether a host on another machine has the address, too. */
static int is_elsewhere(const struct smd_host_facts *const *hosts, size_t count,
	const struct smd_host_facts *own, const struct smd_host_address *address)
{
	for (size_t h = 0; h < count; h++) {
		if (strcmp(hosts[h]->network, own->network) == 0) {
			continue;
		}
		for (size_t i = 0; i < hosts[h]->ninterfaces; i++) {
			const struct smd_host_interface *interface = &hosts[h]->interfaces[i];

			for (size_t n = 0; n < interface->naddresses; n++) {
				if (is_same(&interface->addresses[n], address)) {
					return 1;
				}
			}
		}
	}
	return 0;
}

/* An address of the same link alone says nothing to a host behind a router. */
static int is_of_the_link(const struct smd_host_address *address)
{
	return address->is_v6 ? address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80
			      : address->bytes[0] == 169 && address->bytes[1] == 254;
}

/* The host's fastest address that others may reach it at, v4 before v6 where they are as fast, and
 * the first of those. */
static int find_routed(const struct smd_host_facts *const *hosts, size_t count,
	const struct smd_host_facts *host, struct smd_rail *out)
{
	*out = (struct smd_rail){NULL, NULL};
	for (size_t i = 0; i < host->ninterfaces; i++) {
		const struct smd_host_interface *interface = &host->interfaces[i];

		if (interface->is_loopback || is_bridge_of_containers(interface)) {
			continue;
		}
		for (size_t n = 0; n < interface->naddresses; n++) {
			const struct smd_host_address *address = &interface->addresses[n];

			if (is_of_the_link(address) || is_elsewhere(hosts, count, host, address)) {
				continue;
			}
			if (!out->address || interface->speed_mbps > out->interface->speed_mbps ||
				(interface->speed_mbps == out->interface->speed_mbps &&
					out->address->is_v6 && !address->is_v6)) {
				*out = (struct smd_rail){address, interface};
			}
		}
	}
	return out->address != NULL;
}

/* Hosts without a common network reach each other through routers, if at all. */
static int choose_routed(const struct smd_host_facts *const *hosts, size_t count,
	struct smd_rail *out, struct smd_error *error)
{
	for (size_t i = 0; i < count; i++) {
		if (!find_routed(hosts, count, hosts[i], &out[i])) {
			return refuse(hosts[i], NULL, error);
		}
	}
	return 0;
}

static int choose_each(const struct smd_host_facts *const *hosts, size_t count, fits_fn *fits,
	const void *arg, const char *wanted, struct smd_rail *out, struct smd_error *error)
{
	for (size_t i = 0; i < count; i++) {
		if (!find(hosts[i], fits, arg, &out[i])) {
			return refuse(hosts[i], wanted, error);
		}
	}
	return 0;
}

/* Hosts of different machines do not reach each other at an address that several have. */
static int check_apart(const struct smd_host_facts *const *hosts, size_t count, const char *wanted,
	const struct smd_rail *chosen, struct smd_error *error)
{
	for (size_t i = 1; i < count; i++) {
		for (size_t n = 0; n < i; n++) {
			if (is_same(chosen[n].address, chosen[i].address) &&
				strcmp(hosts[n]->network, hosts[i]->network) != 0) {
				return smd_error_set(error, EADDRINUSE,
					"host %s: must have an address of its own on %s "
					"(--interface), got %s, which host %s has too: name an "
					"interface that leads to the other hosts, or a network "
					"that they are in",
					hosts[i]->name, wanted, chosen[i].address->text,
					hosts[n]->name);
			}
		}
	}
	return 0;
}

static int choose_wanted(const struct smd_host_facts *const *hosts, size_t count,
	const char *wanted, struct smd_rail *out, struct smd_error *error)
{
	struct smd_host_address network;
	int ret = smd_host_address_parse(wanted, &network) == 0
			  ? choose_each(hosts, count, is_in_network, &network, wanted, out, error)
			  : choose_each(hosts, count, has_name, wanted, wanted, out, error);

	return ret ? ret : check_apart(hosts, count, wanted, out, error);
}

/* Several agents may be on one machine. */
static int are_one(const struct smd_host_facts *const *hosts, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (strcmp(hosts[0]->network, hosts[i]->network) != 0) {
			return 0;
		}
	}
	return 1;
}

/* The first of each host. Whether they are in one network. */
static int choose_first(const struct smd_host_facts *const *hosts, size_t count,
	struct smd_rail *out, bool *common, struct smd_error *error)
{
	*common = false;
	if (are_one(hosts, count)) {
		return choose_each(hosts, count, is_loopback, NULL, NULL, out, error);
	}
	*common = choose_common(hosts, count, out);
	return *common ? 0 : choose_routed(hosts, count, out, error);
}

static void append(struct smd_host_rails *out, const struct smd_rail *rails, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		out[i].each[out[i].count++] = rails[i];
	}
}

static int goes_by(const struct smd_host_interface *interface, const char *name)
{
	for (size_t i = 0; i < interface->nbelow; i++) {
		if (strcmp(interface->below[i], name) == 0) {
			return 1;
		}
	}
	return strcmp(interface->name, name) == 0;
}

/* As two VLANs of a card do, or one and the card. */
static int share_a_link(const struct smd_host_interface *a, const struct smd_host_interface *b)
{
	for (size_t i = 0; i < a->nbelow; i++) {
		if (goes_by(b, a->below[i])) {
			return 1;
		}
	}
	return goes_by(b, a->name);
}

/* A host whose interface has the link of another rail; `count`: there is none. */
static size_t find_twice(
	const struct smd_host_rails *chosen, const struct smd_rail *rails, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t n = 0; n < chosen[i].count; n++) {
			if (share_a_link(chosen[i].each[n].interface, rails[i].interface)) {
				return i;
			}
		}
	}
	return count;
}

static uint32_t slowest(const struct smd_host_rails *rails, size_t count)
{
	uint32_t mbps = UINT32_MAX;

	for (size_t i = 0; i < count; i++) {
		uint32_t own = rails[i].each[0].interface->speed_mbps;

		mbps = own < mbps ? own : mbps;
	}
	return mbps;
}

/* Other networks that all hosts are in, each by a link of its own. Speeds that nobody knows say
 * nothing, and a tunnel has none. */
static void add_rails(const struct smd_host_facts *const *hosts, size_t count,
	struct smd_rail *rails, struct smd_host_rails *out)
{
	uint32_t first = slowest(out, count);

	for (size_t i = 0; i < hosts[0]->ninterfaces; i++) {
		const struct smd_host_interface *interface = &hosts[0]->interfaces[i];

		for (size_t n = 0; n < interface->naddresses; n++) {
			const struct smd_host_address *address = &interface->addresses[n];
			uint32_t speed;

			if (out[0].count < SMD_RAILS_MAX && !is_bridge_of_containers(interface) &&
				!is_of_the_link(address) &&
				is_common(hosts, count, address, rails, &speed) && speed > 0 &&
				speed >= first / 2 && find_twice(out, rails, count) == count) {
				append(out, rails, count);
			}
		}
	}
}

static int refuse_twice(const struct smd_host_facts *const *hosts, const char *wanted,
	const struct smd_rail *rails, size_t host, struct smd_error *error)
{
	return smd_error_set(error, EINVAL,
		"host %s: must have another link for each of %s (--interface), got that of %s "
		"twice",
		hosts[host]->name, wanted, rails[host].interface->name);
}

static int choose_listed(const struct smd_host_facts *const *hosts, size_t count,
	const char *wanted, struct smd_rail *rails, struct smd_host_rails *out,
	struct smd_error *error)
{
	char *words = strdup(wanted), *rest = words;
	int ret = words ? 0 : -ENOMEM;

	for (char *word = strsep(&rest, ","); word && !ret; word = strsep(&rest, ",")) {
		size_t twice;

		if (out[0].count == SMD_RAILS_MAX) {
			ret = smd_error_set(error, EINVAL,
				"--interface: must name at most %d, got %s", SMD_RAILS_MAX, wanted);
			break;
		}
		ret = choose_wanted(hosts, count, word, rails, error);
		twice = ret ? count : find_twice(out, rails, count);
		if (twice < count) {
			ret = refuse_twice(hosts, wanted, rails, twice, error);
		} else if (!ret) {
			append(out, rails, count);
		}
	}
	free(words);
	return ret;
}

int smd_addresses_choose(const struct smd_host_facts *const *hosts, size_t count,
	const char *wanted, struct smd_host_rails *out, struct smd_error *error)
{
	struct smd_rail *rails = calloc(count + 1, sizeof(*rails));
	bool common;
	int ret;

	if (!rails) {
		return -ENOMEM;
	}
	memset(out, 0, count * sizeof(*out));
	if (wanted) {
		ret = choose_listed(hosts, count, wanted, rails, out, error);
	} else {
		ret = choose_first(hosts, count, rails, &common, error);
		if (!ret) {
			append(out, rails, count);
		}
		if (!ret && common) {
			add_rails(hosts, count, rails, out);
		}
	}
	free(rails);
	return ret;
}

unsigned smd_host_rails_mbps(const struct smd_host_rails *rails)
{
	unsigned mbps = 0;

	for (size_t i = 0; i < rails->count; i++) {
		const struct smd_host_interface *interface = rails->each[i].interface;

		if (interface->is_loopback || interface->speed_mbps == 0) {
			return 0;
		}
		mbps += interface->speed_mbps;
	}
	return mbps;
}
