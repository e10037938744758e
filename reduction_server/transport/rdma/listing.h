/*
 * Which ports there are, and which of them a lane takes.
 *
 * The list is read at once for who cannot go on without it, and else by the loop's maker, for the lanes
 * that come afterwards; ports of open cards are asked, too.
 */
#ifndef SMD_TRANSPORT_RDMA_LISTING_H
#define SMD_TRANSPORT_RDMA_LISTING_H

#include "reduction_server/transport/rdma/card.h"

/* The port for such a lane, and its device. 0, or -errno with a text: -ENODEV where there is no device. */
int smd_rdma_listing_choose(struct rdma_loop *loop, const struct smd_rdma_wish *wish,
	struct smd_verbs_port *out, struct smd_error *error);

#endif
