/* Compares a server's addresses with the network that an interface is on. */
#include "reduction_server/transport/origin.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "reduction_server/transport/bandwidth.h"

/* Of an interface: */
#define LOOPBACK_MBPS 1u         /* less than any other */
#define UNKNOWN_MBPS  UINT32_MAX /* taken for as fast as the fastest, */
#define SOME_MBPS     10u        /* which is this at least then */

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

/* The interface of this host's that has a network with the address on it; NULL: none has. */
static const struct ifaddrs *find_near(const struct ifaddrs *interfaces, const char *address)
{
	const struct ifaddrs *entry = interfaces;
	struct addrinfo *list;

	if (smd_address_resolve(address, AI_NUMERICHOST, &list, NULL)) {
		return NULL;
	}
	while (entry && !(entry->ifa_addr && entry->ifa_flags & IFF_RUNNING &&
				smd_address_same_network(entry->ifa_addr,
					smd_address_choose(list)->ai_addr, entry->ifa_netmask))) {
		entry = entry->ifa_next;
	}
	freeaddrinfo(list);
	return entry;
}

static uint32_t rail_speed(const struct ifaddrs *interface)
{
	uint32_t mbps = smd_bandwidth_of_interface(interface->ifa_name, "");

	return interface->ifa_flags & IFF_LOOPBACK ? LOOPBACK_MBPS : mbps ? mbps : UNKNOWN_MBPS;
}

static uint32_t bits_reversed(uint32_t number)
{
	uint32_t reversed = 0;

	for (unsigned bit = 0; bit < 32; bit++) {
		reversed = reversed << 1 | (number >> bit & 1);
	}
	return reversed;
}

/* Which of the addresses are near, and not on a slow card, in order. */
static unsigned list_rails(const char *addresses, unsigned rails[SMD_ADDRESSES_MAX])
{
	uint32_t speeds[SMD_ADDRESSES_MAX] = {0};
	char address[SMD_ADDRESS_LONGEST];
	struct ifaddrs *interfaces;
	uint32_t fastest = 0;
	unsigned count = 0;

	if (getifaddrs(&interfaces) != 0) {
		return 0;
	}
	for (unsigned i = 0; i < SMD_ADDRESSES_MAX && smd_addresses_get(addresses, i, address);
		i++) {
		const struct ifaddrs *near = find_near(interfaces, address);

		uint32_t known;

		speeds[i] = near ? rail_speed(near) : 0;
		known = speeds[i] == UNKNOWN_MBPS ? SOME_MBPS : speeds[i];
		fastest = known > fastest ? known : fastest;
	}
	freeifaddrs(interfaces);
	for (unsigned i = 0; i < SMD_ADDRESSES_MAX; i++) {
		if (speeds[i] && speeds[i] >= fastest / 2) {
			rails[count++] = i;
		}
	}
	return count;
}

bool smd_origin_take_turn(
	const char *addresses, unsigned server, uint32_t turn, char out[SMD_ADDRESS_LONGEST])
{
	unsigned rails[SMD_ADDRESSES_MAX];
	unsigned count = list_rails(addresses, rails);
	uint32_t begin = (uint32_t)((uint64_t)bits_reversed(server) * count >> 32);

	return count && smd_addresses_get(addresses, rails[(begin + turn) % count], out);
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
