/* Finds the network interface of an address, reads its speed, and says how many shards that takes. */
#include "reduction_server/transport/bandwidth.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "reduction_server/base/parse.h"
#include "reduction_server/transport/address.h"

#define ROUTE_UP 1u /* RTF_UP */

/* ---- an interface ---- */

static FILE *interface_open(const char *root, const char *interface, const char *what)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/sys/class/net/%s/%s", root, interface, what) >=
		(int)sizeof(path)) {
		return NULL;
	}
	return fopen(path, "r");
}

/* In Mbit/s; 0 when it does not say. */
uint32_t smd_bandwidth_of_interface(const char *interface, const char *root)
{
	FILE *file = interface_open(root, interface, "speed");
	long speed = 0;

	if (!file) {
		return 0;
	}
	if (fscanf(file, "%ld", &speed) != 1) {
		speed = 0; /* what is down, or has no speed, cannot even be read */
	}
	fclose(file);
	return speed > 0 && speed < INT_MAX ? (uint32_t)speed : 0; /* -1: unknown */
}

static bool interface_is_up(const char *root, const char *interface)
{
	FILE *file = interface_open(root, interface, "operstate");
	char state[16] = "";

	if (!file) {
		return false;
	}
	if (fscanf(file, "%15s", state) != 1) {
		state[0] = '\0';
	}
	fclose(file);
	return strcmp(state, "up") == 0;
}

/* ---- which one ---- */

/* That of the first default route of the lowest metric; IPv4's, since a server has mostly that. */
static bool find_default_route(const char *root, char out[IF_NAMESIZE])
{
	unsigned long best = ULONG_MAX;
	char path[PATH_MAX];
	char line[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/net/route", root);
	file = fopen(path, "r");
	if (!file) {
		return false;
	}
	while (fgets(line, sizeof(line), file)) {
		unsigned long destination;
		unsigned long metric;
		unsigned long mask;
		unsigned flags;
		char name[IF_NAMESIZE];

		if (sscanf(line, "%15s %lx %*x %x %*d %*d %lu %lx", name, &destination, &flags,
			    &metric, &mask) == 5 &&
			destination == 0 && mask == 0 && (flags & ROUTE_UP) && metric < best) {
			best = metric;
			memcpy(out, name, IF_NAMESIZE);
		}
	}
	fclose(file);
	return best != ULONG_MAX;
}

static bool find_fastest(const char *root, char out[IF_NAMESIZE])
{
	const struct dirent *entry;
	uint32_t best = 0;
	char path[PATH_MAX];
	DIR *directory;

	snprintf(path, sizeof(path), "%s/sys/class/net", root);
	directory = opendir(path);
	if (!directory) {
		return false;
	}
	while ((entry = readdir(directory))) {
		uint32_t speed;

		if (entry->d_name[0] == '.' || !interface_is_up(root, entry->d_name)) {
			continue;
		}
		speed = smd_bandwidth_of_interface(entry->d_name, root);
		if (speed > best && strlen(entry->d_name) < IF_NAMESIZE) {
			best = speed;
			strcpy(out, entry->d_name);
		}
	}
	closedir(directory);
	return best != 0;
}

static bool find_by_address(const struct sockaddr *address, char out[IF_NAMESIZE])
{
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list) != 0) {
		return false;
	}
	for (const struct ifaddrs *entry = list; entry && !found; entry = entry->ifa_next) {
		if (entry->ifa_addr && smd_address_same_host(address, entry->ifa_addr) &&
			strlen(entry->ifa_name) < IF_NAMESIZE) {
			strcpy(out, entry->ifa_name);
			found = true;
		}
	}
	freeifaddrs(list);
	return found;
}

static bool is_any_address(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
	}
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

bool smd_bandwidth_interface(const char *listen, const char *root, char out[IF_NAMESIZE])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *info;
	char host[256];
	uint16_t port;
	bool found;

	if (smd_parse_endpoint(listen, host, sizeof(host), &port) ||
		getaddrinfo(host, NULL, &hints, &info) != 0) {
		return false; /* listening will say so */
	}
	found = is_any_address(info->ai_addr)
			? find_default_route(root, out) || find_fastest(root, out)
			: find_by_address(info->ai_addr, out);
	freeaddrinfo(info);
	return found;
}

static uint32_t read_one(
	const char *listen, const char *root, char source[SMD_BANDWIDTH_SOURCE_MAX])
{
	char interface[IF_NAMESIZE];
	uint32_t speed;

	if (!smd_bandwidth_interface(listen, root, interface)) {
		snprintf(source, SMD_BANDWIDTH_SOURCE_MAX,
			"the default: no interface is known for %.60s", listen);
		return 0;
	}
	speed = smd_bandwidth_of_interface(interface, root);
	if (speed == 0) {
		snprintf(source, SMD_BANDWIDTH_SOURCE_MAX,
			"the default: %s does not say how fast it is", interface);
		return 0;
	}
	snprintf(source, SMD_BANDWIDTH_SOURCE_MAX, "of %s", interface);
	return speed;
}

uint32_t smd_bandwidth_read(
	const char *listen, const char *root, char source[SMD_BANDWIDTH_SOURCE_MAX])
{
	char address[SMD_ADDRESS_LONGEST];
	char all[SMD_BANDWIDTH_SOURCE_MAX] = "";
	uint32_t sum = 0;

	for (unsigned i = 0; smd_addresses_get(listen, i, address); i++) {
		size_t length = strlen(all);
		uint32_t speed = read_one(address, root, source);

		if (speed == 0) {
			return 0; /* what is not known of one is not known of all */
		}
		sum += speed;
		snprintf(all + length, sizeof(all) - length, "%s%s", length ? " and " : "", source);
	}
	memcpy(source, all, sizeof(all));
	return sum;
}

static unsigned shards_at(uint32_t mbps, uint32_t each)
{
	return (mbps - 1) / each + 1;
}

unsigned smd_bandwidth_shards(uint32_t mbps, bool by_card, unsigned processors, unsigned addresses)
{
	unsigned shards = shards_at(mbps, SMD_BANDWIDTH_SHARD_MBPS);

	if (by_card && shards > SMD_BANDWIDTH_CARD_SHARDS) {
		shards = shards_at(mbps, SMD_BANDWIDTH_CARD_SHARD_MBPS);
		shards = shards > SMD_BANDWIDTH_CARD_SHARDS ? shards : SMD_BANDWIDTH_CARD_SHARDS;
	}
	if (mbps == 0) {
		shards = processors / 4 < SMD_BANDWIDTH_UNKNOWN_SHARDS
				 ? processors / 4
				 : SMD_BANDWIDTH_UNKNOWN_SHARDS;
	}
	shards = shards > addresses ? shards : addresses;
	shards = shards < processors ? shards : processors;
	return shards > 0 ? shards : 1;
}
