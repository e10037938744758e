/* Compares a server's addresses with the network that an interface is on. */
#include "reduction_server/transport/origin.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

/* On the network of the interface's address, as the system has it now. */
static bool origin_has_network(const struct smd_origin *origin, const struct sockaddr *address)
{
	const struct sockaddr *own = (const struct sockaddr *)&origin->address;
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list) != 0) {
		return false;
	}
	for (const struct ifaddrs *entry = list; entry && !found; entry = entry->ifa_next) {
		found = entry->ifa_addr && strcmp(entry->ifa_name, origin->interface) == 0 &&
			smd_address_same_host(entry->ifa_addr, own) &&
			smd_address_same_network(own, address, entry->ifa_netmask);
	}
	freeifaddrs(list);
	return found;
}

bool smd_origin_reaches(const struct smd_origin *origin, const char *address)
{
	struct addrinfo *list;
	bool reaches;

	if (!origin || !*origin->interface ||
		smd_address_resolve(address, AI_NUMERICHOST, &list, NULL)) {
		return false;
	}
	reaches = origin_has_network(origin, smd_address_choose(list)->ai_addr);
	freeaddrinfo(list);
	return reaches;
}

void smd_origin_choose(
	const struct smd_origin *origin, const char *addresses, char out[SMD_ADDRESS_LONGEST])
{
	for (unsigned i = 0; smd_addresses_get(addresses, i, out); i++) {
		if (smd_origin_reaches(origin, out)) {
			return;
		}
	}
	(void)smd_addresses_get(addresses, 0, out);
}
