/*
 * Which port of which device a lane is made on, where no connection manager chooses it.
 *
 * The user may name devices. Else a port that has the address of the carrier's own end is taken: the
 * route has chosen it. Of the rest those are best whose address begins as the other end's does (the
 * same subnet), and those that are as good take turns.
 */
#ifndef SMD_TRANSPORT_RDMA_PORT_H
#define SMD_TRANSPORT_RDMA_PORT_H

#include <stdbool.h>

#include "reduction_server/transport/rdma/verbs.h"
#include "reduction_server/transport/rdma/wire.h"

struct smd_rdma_wish {
	const char *devices;                /* as in NCCL_IB_HCA; empty: any */
	const uint8_t *local;               /* [16], the carrier's own address; NULL: not known */
	const struct smd_rdma_offer *other; /* NULL: this end offers first */
	unsigned turn;
};

/* NULL: there is none for it. */
const struct smd_verbs_port *smd_rdma_port_choose(
	const struct smd_verbs_port *ports, unsigned n, const struct smd_rdma_wish *wish);

/* Which of this host's addresses the carriers of who listens there have. */
enum smd_rdma_listens {
	SMD_RDMA_LISTENS_NOWHERE, /* that RDMA goes: on loopback, or it is no address */
	SMD_RDMA_LISTENS_ANYWHERE,
	SMD_RDMA_LISTENS_AT
};
enum smd_rdma_listens smd_rdma_port_listens(const char *address, uint8_t local[16]);

/* Whether a list like "mlx5_0:1,mlx5_2" has that port: names are beginnings, after "=" whole ones,
 * and "^" begins a list of what is left out. */
bool smd_rdma_port_is_named(const char *list, const char *device, unsigned port);

#endif
