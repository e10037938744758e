/*
 * The devices that a loop has opened by itself: those of the ports that its lanes are on, and what
 * happens to them.
 *
 * Each loop opens them for itself, so what a device tells (a port that is down, a queue pair that
 * has failed, its own removal) comes to the thread that uses it.
 */
#ifndef SMD_TRANSPORT_RDMA_CARD_H
#define SMD_TRANSPORT_RDMA_CARD_H

#include "reduction_server/transport/rdma/device.h"
#include "reduction_server/transport/rdma/port.h"

/* The port for such a lane, of those that are known (listing.h). 0, or -errno with a text. */
int smd_rdma_card_choose(struct rdma_loop *loop, const struct smd_rdma_wish *wish,
	struct smd_verbs_port *out, struct smd_error *error);

/* The device that the connection manager has chosen for the id, as it is open here. 0, or -errno
 * with a text. */
int smd_rdma_card_of_id(struct rdma_loop *loop, const struct rdma_cm_id *id,
	struct ibv_context **out, struct smd_error *error);

/* The connection manager tells somebody of its removal: its lanes fail, and it is closed when they
 * have gone. */
void smd_rdma_card_remove(struct rdma_loop *loop, const struct ibv_context *context);

/* A lane has gone from it. Where nothing uses it any more it is closed, if it was opened here and has been
 * removed. */
void smd_rdma_card_release(struct rdma_loop *loop, struct ibv_context *context);

/* The same of all that were opened here. */
void smd_rdma_cards_release(struct rdma_loop *loop);

/* All of them, at the loop's end. */
void smd_rdma_cards_close(struct rdma_loop *loop);

/* The port is asked what a lane must know of it, by its device, which it has then. 0 or -errno. Any
 * thread. */
int smd_rdma_port_ask(struct smd_verbs_port *port, struct ibv_context *device);

#endif
