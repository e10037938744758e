/*
 * "host:port" and what the system makes of it; and "host:port+host:port", the addresses of one
 * server, on a network each.
 */
#ifndef SMD_TRANSPORT_ADDRESS_H
#define SMD_TRANSPORT_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "reduction_server/base/error.h"

#define SMD_ADDRESS_TEXT_MAX 128
#define SMD_ADDRESS_LONGEST    272 /* a name's "host:port" */
#define SMD_ADDRESSES_MAX      16  /* of one server */
#define SMD_ADDRESSES_TEXT_MAX (SMD_ADDRESSES_MAX * SMD_ADDRESS_TEXT_MAX)

/* `flags` are getaddrinfo()'s; free *out with freeaddrinfo(). It may take as long as the resolver
 * does. 0 or -errno with a text. */
int smd_address_resolve(
	const char *address, int flags, struct addrinfo **out, struct smd_error *error);

/* Whether no resolver is needed for it: its host is an address already. */
bool smd_address_is_literal(const char *address);

/* Whether both are one host's, whatever their ports. */
bool smd_address_same_host(const struct sockaddr *a, const struct sockaddr *b);

/* Whether they are on one network, by the mask of either; NULL: by none they are not. */
bool smd_address_same_network(
	const struct sockaddr *a, const struct sockaddr *b, const struct sockaddr *mask);

/* The n-th of a server's addresses; false: there are fewer. */
bool smd_addresses_get(const char *addresses, unsigned n, char out[SMD_ADDRESS_LONGEST]);

/* How many there are. */
unsigned smd_addresses_count(const char *addresses);

/* 0, or -EINVAL: not 1 to SMD_ADDRESSES_MAX, each host:port. */
int smd_addresses_check(const char *addresses);

/* The one to use of the list. */
const struct addrinfo *smd_address_choose(const struct addrinfo *list);

/* Whether only this machine reaches it: 127.0.0.0/8, ::1, and ::ffff:127.0.0.0/104. */
bool smd_address_is_loopback(const struct sockaddr *address);

/* Whether that holds for all that a "host:port" resolves to. 1, 0, or -errno with a text. */
int smd_address_stays_here(const char *address, struct smd_error *error);

/* Whether a "host:port" resolves to an address of this host's, or to any. 1, 0, or -errno with a text. */
int smd_address_is_here(const char *address, struct smd_error *error);

/* The host's 16 bytes: IPv6, or IPv4 as a part of it (::ffff:0:0/96). False: it is of another
 * family. */
bool smd_address_bytes(const struct sockaddr *address, uint8_t out[16]);

/* And back, with port 0. */
void smd_address_of_bytes(const uint8_t bytes[16], struct sockaddr_storage *out);

/* As a "host:port". */
void smd_address_print_bytes(
	const uint8_t bytes[16], uint16_t port, char out[SMD_ADDRESS_TEXT_MAX]);

struct ifaddrs;
/* How many of its first bits name its network, by the mask of the interface of the list that has it;
 * 0: none has. */
unsigned smd_address_network_bits(const struct ifaddrs *list, const uint8_t bytes[16]);

/* Whether these are loopback's. */
bool smd_address_bytes_stay_here(const uint8_t bytes[16]);

/* "127.0.0.1:41873", "[::1]:41873" */
void smd_address_print(
	const struct sockaddr *address, socklen_t size, char out[SMD_ADDRESS_TEXT_MAX]);

#endif
