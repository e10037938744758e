/* Chooses network interfaces as NCCL does. */
#include "worker/nccl_plugin/device/interface.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/address.h"

struct pattern {
	const char *list;
	bool exact;
	bool negated;
};

static struct pattern pattern_read(const char *text)
{
	struct pattern pattern = {.list = text};

	if (*pattern.list == '^') {
		pattern.negated = true;
		pattern.list++;
	}
	if (*pattern.list == '=') {
		pattern.exact = true;
		pattern.list++;
	}
	return pattern;
}

/* A port of an entry that is none, or of a name that has none, is any. */
static bool port_matches(const char *colon, int port)
{
	return *colon != ':' || port < 0 || atoi(colon + 1) == port;
}

static bool pattern_matches(const struct pattern *pattern, const char *name, int port)
{
	const char *entry = pattern->list;
	bool empty = true;

	while (*entry) {
		size_t length = strcspn(entry, ",:");

		if (length && strncmp(entry, name, length) == 0 &&
			(!pattern->exact || name[length] == '\0') &&
			port_matches(entry + length, port)) {
			return !pattern->negated;
		}
		empty = empty && length == 0;
		entry += strcspn(entry, ",");
		entry += *entry == ',';
	}
	return empty != pattern->negated; /* a list of nothing matches everything */
}

bool smd_hca_allowed(const char *rule, const char *name, int port)
{
	const struct pattern pattern = pattern_read(rule);

	return pattern_matches(&pattern, name, port);
}

static socklen_t address_length(const struct sockaddr *address)
{
	return address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6);
}

static bool interface_usable(const struct ifaddrs *entry, int family)
{
	const struct sockaddr *address = entry->ifa_addr;

	if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
		!(entry->ifa_flags & IFF_RUNNING)) {
		return false;
	}
	if (family != AF_UNSPEC && address->sa_family != family) {
		return false;
	}
	return address->sa_family == AF_INET ||
	       !IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool interface_known(
	const struct smd_interface *interfaces, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(interfaces[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

static void interface_set(struct smd_interface *interface, const struct ifaddrs *entry)
{
	memset(interface, 0, sizeof(*interface));
	strncpy(interface->name, entry->ifa_name, sizeof(interface->name) - 1);
	interface->length = address_length(entry->ifa_addr);
	memcpy(&interface->address, entry->ifa_addr, interface->length);
}

static unsigned choose_by_name(const struct ifaddrs *list, const char *names, int family,
	struct smd_interface out[SMD_INTERFACES_MAX])
{
	const struct pattern pattern = pattern_read(names);
	unsigned count = 0;

	for (; list && count < SMD_INTERFACES_MAX; list = list->ifa_next) {
		if (interface_usable(list, family) &&
			pattern_matches(&pattern, list->ifa_name, -1) &&
			!interface_known(out, count, list->ifa_name)) {
			interface_set(&out[count++], list);
		}
	}
	return count;
}

static unsigned choose_by_network(const struct ifaddrs *list, const char *comm_id,
	struct smd_interface out[SMD_INTERFACES_MAX])
{
	struct addrinfo *info;
	unsigned count = 0;

	if (!comm_id || smd_address_resolve(comm_id, 0, &info, NULL)) {
		return 0;
	}
	for (; list && count == 0; list = list->ifa_next) {
		if (list->ifa_addr &&
			(list->ifa_addr->sa_family == AF_INET ||
				list->ifa_addr->sa_family == AF_INET6) &&
			smd_address_same_network(
				list->ifa_addr, info->ai_addr, list->ifa_netmask)) {
			interface_set(&out[count++], list);
		}
	}
	freeaddrinfo(info);
	return count;
}

static int family_read(const char *text)
{
	if (text && strcmp(text, "AF_INET") == 0) {
		return AF_INET;
	}
	return text && strcmp(text, "AF_INET6") == 0 ? AF_INET6 : AF_UNSPEC;
}

unsigned smd_interfaces_choose(const struct ifaddrs *list, const struct smd_interface_rules *rules,
	struct smd_interface out[SMD_INTERFACES_MAX])
{
	static const char *const rest[] = {"^docker,lo,virbr", "docker", "lo", "virbr"};
	int family = family_read(rules->family);
	unsigned count;

	if (rules->names && strlen(rules->names) > 1) { /* as NCCL: one letter is none */
		return choose_by_name(list, rules->names, family, out);
	}
	count = choose_by_name(list, "ib", family, out);
	if (count == 0) {
		count = choose_by_network(list, rules->comm_id, out);
	}
	for (size_t i = 0; count == 0 && i < sizeof(rest) / sizeof(rest[0]); i++) {
		count = choose_by_name(list, rest[i], family, out);
	}
	return count;
}
