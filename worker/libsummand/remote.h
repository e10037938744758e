/*
 * A shard as a worker sees it: the lane to it, and the frame that is coming in.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_H
#define SMD_LIBSUMMAND_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/heartbeat.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/wire/message.h"

struct event;
struct smd_comm;
struct smd_context;
struct smd_flow;
struct smd_target;

struct smd_remote {
	struct smd_context *context;
	struct smd_target *target;
	uint32_t shard;
	unsigned index;        /* in the deal, once the context is ready */
	struct smd_lane *lane; /* NULL: not connected now */
	unsigned transport;    /* of the context's, the one that is tried or used */
	struct event *retry;   /* connects again a little later */
	struct event *beat;    /* polls whether the shard is alive, once it has said WELCOME */
	struct smd_heartbeat heartbeat;
	bool welcomed;
	struct smd_welcome welcome;
	int err;                         /* how the last attempt failed */
	char reason[SMD_ERROR_TEXT_MAX]; /* empty: none has, since the lane was last open */

	struct smd_comm *rx_comm; /* NULL: the frame is not about a communicator that still cares */
	struct smd_flow *rx_flow; /* the result is for this flow; NULL: it is discarded */
	uint8_t rx_control[SMD_CONTROL_MAX];
	uint8_t *sink; /* where discarded results go */
};

/* Begins to connect, and goes on trying until the context's deadline. NULL: out of memory. */
struct smd_remote *smd_remote_create(
	struct smd_context *context, struct smd_target *target, uint32_t shard);
void smd_remote_free(struct smd_remote *remote);

/* The time to connect is over, and the shard has not said WELCOME. */
void smd_remote_give_up(struct smd_remote *remote);

/* The communicator's buffers are no longer to be used by this lane, as far as that can be had at
 * once. */
void smd_remote_forget(struct smd_remote *remote, struct smd_comm *comm);

/* A control frame about a communicator; nothing when the lane is gone. */
void smd_remote_send(struct smd_remote *remote, enum smd_frame_kind kind,
	const struct smd_comm *comm, const void *payload, size_t length);

#endif
