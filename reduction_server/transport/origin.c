/* Compares a server's addresses with the network that an interface is on. */
#include "reduction_server/transport/origin.h"

#include <ifaddrs.h>
#include <net/if.h>
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

static bool is_near(const struct ifaddrs *interfaces, const char *address)
{
	struct addrinfo *list;
	bool near = false;

	if (smd_address_resolve(address, AI_NUMERICHOST, &list, NULL)) {
		return false;
	}
	for (const struct ifaddrs *entry = interfaces; entry && !near; entry = entry->ifa_next) {
		near = entry->ifa_addr && entry->ifa_flags & IFF_RUNNING &&
		       smd_address_same_network(entry->ifa_addr, smd_address_choose(list)->ai_addr,
			       entry->ifa_netmask);
	}
	freeaddrinfo(list);
	return near;
}

bool smd_origin_take_turn(const char *addresses, uint32_t turn, char out[SMD_ADDRESS_LONGEST])
{
	char near[SMD_ADDRESSES_MAX][SMD_ADDRESS_LONGEST];
	struct ifaddrs *interfaces;
	unsigned count = 0;

	if (getifaddrs(&interfaces) != 0) {
		return false;
	}
	for (unsigned i = 0; i < SMD_ADDRESSES_MAX && smd_addresses_get(addresses, i, near[count]);
		i++) {
		count += is_near(interfaces, near[count]);
	}
	freeifaddrs(interfaces);
	if (count) {
		memcpy(out, near[turn % count], SMD_ADDRESS_LONGEST);
	}
	return count > 0;
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
