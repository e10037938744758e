/*
 * Which network interface of this machine a connection leaves by, and which of a server's addresses
 * lies behind that interface.
 *
 * A machine with several network cards has a network for each (a rail), and a server an address on
 * each of these. A connection whose own address is the interface's takes that rail, both ways; and
 * the RDMA device that has the address is the one that is used.
 */
#ifndef SMD_TRANSPORT_ORIGIN_H
#define SMD_TRANSPORT_ORIGIN_H

#include <net/if.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "reduction_server/transport/address.h"

struct smd_origin {
	char interface[IF_NAMESIZE];     /* "eth1"; empty: the system chooses the way */
	struct sockaddr_storage address; /* of the interface; port 0 */
	socklen_t length;
};

/* Whether the address, a "host:port" that needs no resolver, is on a network that the interface has
 * that address on. */
bool smd_origin_reaches(const struct smd_origin *origin, const char *address);

/*
 * Of a server's addresses those on a network of an interface of this host that is up take turns:
 * the one for the server of that number's turn `turn`. Servers begin half of the addresses apart,
 * then a quarter. Loopback takes none where there is another, nor an interface of less than half of
 * the fastest one's speed: a network for management. False: none is near; a name that needs a
 * resolver is not.
 */
bool smd_origin_take_turn(
	const char *addresses, unsigned server, uint32_t turn, char out[SMD_ADDRESS_LONGEST]);

/* Of a server's addresses ("host:port+host:port") the one on the interface's network, else the
 * first. NULL: the first. */
void smd_origin_choose(
	const struct smd_origin *origin, const char *addresses, char out[SMD_ADDRESS_LONGEST]);

#endif
