/*
 * Which port of which device a lane is made on, where no connection manager chooses it; or leaves
 * by, where one does.
 *
 * The user may name devices. Else InfiniBand's go before RoCE's, unless they are much slower. Of
 * RoCE's the one that has the address of the carrier's own end is taken: the route has chosen it.
 * Of the rest those are best whose address begins as the other end's does (the same subnet), and
 * those that are as good take turns, but for those that are much slower. Turns begin at the port
 * that has the carrier's own address, as InfiniBand's have by IPoIB, where one of them has.
 *
 * The connection manager knows ports by IP addresses alone: of those that have one that is of the
 * server's network goes before others.
 */
#ifndef SMD_TRANSPORT_RDMA_PORT_H
#define SMD_TRANSPORT_RDMA_PORT_H

#include <net/if.h>
#include <stdbool.h>

#include "reduction_server/transport/rdma/verbs.h"
#include "reduction_server/transport/rdma/wire.h"

struct smd_rdma_wish {
	const char *devices;                /* as in NCCL_IB_HCA; empty: any */
	const uint8_t *local;               /* [16], the carrier's own address; NULL: not known */
	const struct smd_rdma_offer *other; /* NULL: this end offers first, */
	uint16_t kinds;        /* and the other has ports of these (SMD_HELLO_KINDS); 0: of any */
	const uint8_t *server; /* [16], that the connection manager asks; NULL: over a carrier */
	unsigned turn;
	const char *interface; /* that the carrier is likely to come by; NULL or empty: not known */
	uint32_t first; /* at which of the ports turns begin: so many 2^32ths of their number; */
	bool anywhere;  /* also where one has the carrier's address, as its listener has all */
	bool stays;     /* turns are for want of a port with the carrier's address */
};

/* NULL: there is none for it. */
const struct smd_verbs_port *smd_rdma_port_choose(
	const struct smd_verbs_port *ports, unsigned n, const struct smd_rdma_wish *wish);

/* [16], its IP address; zeros: it has none. */
const uint8_t *smd_rdma_port_address(const struct smd_verbs_port *port);

/* Of which kinds those are that the list of devices has, as in a wish; 0: there are none. */
uint16_t smd_rdma_port_kinds(const struct smd_verbs_port *ports, unsigned n, const char *devices);

/* How the carriers come of who listens at an address. */
struct smd_rdma_way {
	uint8_t local[16];           /* to it; one that is no port's: to any, and then */
	char interface[IF_NAMESIZE]; /* by the one that bandwidth.h reads too; empty: not known */
	bool anywhere;               /* to any */
};
/* False: by none that RDMA goes, as it is on loopback, or no address. `root` is where /proc and
 * /sys are. */
bool smd_rdma_port_listens(const char *address, const char *root, struct smd_rdma_way *out);

/* Where turns begin of a server that listens there, as in a wish: elsewhere than those of the
 * host's other servers, as their ports or addresses are others; neighbours are far from each other.
 */
uint32_t smd_rdma_port_first(const char *addresses);

/* Whether a list like "mlx5_0:1,mlx5_2" has that port: names are beginnings, after "=" whole ones,
 * and "^" begins a list of what is left out. */
bool smd_rdma_port_is_named(const char *list, const char *device, unsigned port);

#endif
