/* Resolves and prints addresses. */
#include "reduction_server/transport/address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/parse.h"

void smd_address_print(
	const struct sockaddr *address, socklen_t size, char out[SMD_ADDRESS_TEXT_MAX])
{
	struct sockaddr_in6 ipv6 = {.sin6_scope_id = 0};
	char host[64];
	char port[8];
	char scope[16] = "";

	if (address->sa_family == AF_INET6 && size >= sizeof(ipv6)) {
		/* The C library would ask the kernel for the interface's name, which a server may
		 * not. */
		memcpy(&ipv6, address, sizeof(ipv6));
		if (ipv6.sin6_scope_id) {
			snprintf(scope, sizeof(scope), "%%%u", ipv6.sin6_scope_id);
			ipv6.sin6_scope_id = 0;
		}
		address = (const struct sockaddr *)&ipv6;
		size = sizeof(ipv6);
	}
	if (getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
		snprintf(out, SMD_ADDRESS_TEXT_MAX, "unknown address");
	} else if (address->sa_family == AF_INET6) {
		/* Without a scope of its own it has that of interface 0. */
		host[strcspn(host, "%")] = '\0';
		snprintf(out, SMD_ADDRESS_TEXT_MAX, "[%s%s]:%s", host, scope, port);
	} else {
		snprintf(out, SMD_ADDRESS_TEXT_MAX, "%s:%s", host, port);
	}
}

bool smd_address_bytes(const struct sockaddr *address, uint8_t out[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (address->sa_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
		return true;
	}
	if (address->sa_family != AF_INET) {
		return false;
	}
	memcpy(out, mapped, sizeof(mapped));
	memcpy(out + sizeof(mapped), &((const struct sockaddr_in *)address)->sin_addr, 4);
	return true;
}

void smd_address_of_bytes(const uint8_t bytes[16], struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct in6_addr address;

	*out = (struct sockaddr_storage){.ss_family = AF_INET6};
	memcpy(&address, bytes, sizeof(address));
	if (IN6_IS_ADDR_V4MAPPED(&address)) {
		out->ss_family = AF_INET;
		memcpy(&v4->sin_addr, bytes + 12, 4);
	} else {
		v6->sin6_addr = address;
	}
}

void smd_address_print_bytes(const uint8_t bytes[16], uint16_t port, char out[SMD_ADDRESS_TEXT_MAX])
{
	struct sockaddr_storage address;

	smd_address_of_bytes(bytes, &address);
	if (address.ss_family == AF_INET) {
		((struct sockaddr_in *)&address)->sin_port = htons(port);
		smd_address_print((struct sockaddr *)&address, sizeof(struct sockaddr_in), out);
	} else {
		((struct sockaddr_in6 *)&address)->sin6_port = htons(port);
		smd_address_print((struct sockaddr *)&address, sizeof(struct sockaddr_in6), out);
	}
}

static unsigned leading_ones(const uint8_t *mask, size_t size)
{
	unsigned bits = 0;

	while (bits < 8 * size && (mask[bits / 8] >> (7 - bits % 8) & 1)) {
		bits++;
	}
	return bits;
}

unsigned smd_address_network_bits(const struct ifaddrs *list, const uint8_t bytes[16])
{
	for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
		uint8_t own[16];
		uint8_t mask[16];

		if (!entry->ifa_addr || !entry->ifa_netmask ||
			!smd_address_bytes(entry->ifa_addr, own) || memcmp(own, bytes, 16) != 0 ||
			!smd_address_bytes(entry->ifa_netmask, mask)) {
			continue;
		}
		return entry->ifa_addr->sa_family == AF_INET ? 96 + leading_ones(mask + 12, 4)
							     : leading_ones(mask, 16);
	}
	return 0;
}

int smd_address_resolve(
	const char *address, int flags, struct addrinfo **out, struct smd_error *error)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = flags | AI_NUMERICSERV,
	};
	char host[256];
	char service[8];
	uint16_t port;
	int ret;

	if (smd_parse_endpoint(address, host, sizeof(host), &port)) {
		return smd_error_set(
			error, EINVAL, "address must be host:port, got \"%s\"", address);
	}
	snprintf(service, sizeof(service), "%u", port);
	ret = getaddrinfo(host, service, &hints, out);
	if (ret) {
		return smd_error_set(error, EHOSTUNREACH, "%s: cannot resolve the host: %s",
			address, gai_strerror(ret));
	}
	return 0;
}

bool smd_address_is_literal(const char *address)
{
	struct addrinfo *list;
	bool literal = smd_address_resolve(address, AI_NUMERICHOST, &list, NULL) == 0;

	if (literal) {
		freeaddrinfo(list);
	}
	return literal;
}

static const uint8_t *address_bytes(const struct sockaddr *address, size_t *length)
{
	if (address->sa_family == AF_INET) {
		*length = sizeof(struct in_addr);
		return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
	}
	*length = sizeof(struct in6_addr);
	return (const uint8_t *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

bool smd_address_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	const uint8_t *of_a, *of_b;
	size_t length;

	if (a->sa_family != b->sa_family || (a->sa_family != AF_INET && a->sa_family != AF_INET6)) {
		return false;
	}
	of_a = address_bytes(a, &length);
	of_b = address_bytes(b, &length);
	return memcmp(of_a, of_b, length) == 0;
}

bool smd_address_same_network(
	const struct sockaddr *a, const struct sockaddr *b, const struct sockaddr *mask)
{
	const uint8_t *of_a, *of_b, *of_mask;
	size_t length;

	if (!mask || a->sa_family != b->sa_family ||
		(a->sa_family != AF_INET && a->sa_family != AF_INET6)) {
		return false;
	}
	of_a = address_bytes(a, &length);
	of_b = address_bytes(b, &length);
	/* The kernel leaves the family of a mask as it likes; it is that of its address. */
	of_mask = a->sa_family == AF_INET
			  ? (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr
			  : (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
	for (size_t i = 0; i < length; i++) {
		if ((of_a[i] ^ of_b[i]) & of_mask[i]) {
			return false;
		}
	}
	return true;
}

bool smd_addresses_get(const char *addresses, unsigned n, char out[SMD_ADDRESS_LONGEST])
{
	size_t length;

	for (; n > 0 && *addresses; n--) {
		addresses += strcspn(addresses, "+");
		addresses += *addresses == '+';
	}
	length = strcspn(addresses, "+");
	length = length < SMD_ADDRESS_LONGEST ? length : SMD_ADDRESS_LONGEST - 1;
	memcpy(out, addresses, length);
	out[length] = '\0';
	return n == 0 && length > 0;
}

unsigned smd_addresses_count(const char *addresses)
{
	unsigned count = 1;

	for (const char *c = addresses; *c; c++) {
		count += *c == '+';
	}
	return count;
}

int smd_addresses_check(const char *addresses)
{
	char address[SMD_ADDRESS_LONGEST];
	char host[256];
	unsigned count = 0;
	uint16_t port;
	size_t length;

	do {
		length = strcspn(addresses, "+");
		if (length >= sizeof(address) || count++ == SMD_ADDRESSES_MAX) {
			return -EINVAL;
		}
		memcpy(address, addresses, length);
		address[length] = '\0';
		if (smd_parse_endpoint(address, host, sizeof(host), &port)) {
			return -EINVAL;
		}
		addresses += length;
	} while (*addresses++ == '+');
	return 0;
}

/* An IPv4 one if there is any, because "localhost" servers mostly have that. */
const struct addrinfo *smd_address_choose(const struct addrinfo *list)
{
	for (const struct addrinfo *info = list; info; info = info->ai_next) {
		if (info->ai_family == AF_INET) {
			return info;
		}
	}
	return list;
}

bool smd_address_bytes_stay_here(const uint8_t bytes[16])
{
	struct in6_addr v6;

	memcpy(&v6, bytes, sizeof(v6));
	return IN6_IS_ADDR_LOOPBACK(&v6) ||
	       (IN6_IS_ADDR_V4MAPPED(&v6) && bytes[12] == IN_LOOPBACKNET);
}

bool smd_address_is_loopback(const struct sockaddr *address)
{
	uint8_t bytes[16];

	return smd_address_bytes(address, bytes) && smd_address_bytes_stay_here(bytes);
}

/* Nothing is sent: a datagram's socket only asks for the way, which to a machine's own address
 * begins there. */
static bool address_is_own(const struct addrinfo *info)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof(from);
	int fd = socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool own = fd >= 0 && connect(fd, info->ai_addr, info->ai_addrlen) == 0 &&
		   getsockname(fd, (struct sockaddr *)&from, &size) == 0 &&
		   smd_address_same_host((const struct sockaddr *)&from, info->ai_addr);

	if (fd >= 0) {
		close(fd);
	}
	return own;
}

static bool address_is_any(const struct sockaddr *address)
{
	static const uint8_t any[2][16] = {{0}, {[10] = 0xff, [11] = 0xff}};
	uint8_t bytes[16];

	return smd_address_bytes(address, bytes) &&
	       (memcmp(bytes, any[0], 16) == 0 || memcmp(bytes, any[1], 16) == 0);
}

int smd_address_is_here(const char *address, struct smd_error *error)
{
	struct addrinfo *list;
	int here = 0;
	int ret = smd_address_resolve(address, AI_PASSIVE, &list, error);

	if (ret) {
		return ret;
	}
	for (const struct addrinfo *info = list; info; info = info->ai_next) {
		here |= smd_address_is_loopback(info->ai_addr) || address_is_any(info->ai_addr) ||
			address_is_own(info);
	}
	freeaddrinfo(list);
	return here;
}

int smd_address_stays_here(const char *address, struct smd_error *error)
{
	struct addrinfo *list;
	int stays = 1;
	int ret = smd_address_resolve(address, AI_PASSIVE, &list, error);

	if (ret) {
		return ret;
	}
	for (const struct addrinfo *info = list; info; info = info->ai_next) {
		stays = stays && smd_address_is_loopback(info->ai_addr);
	}
	freeaddrinfo(list);
	return stays;
}
