/*
 * The chunks of one communicator on one shard: what has been sent, and what has come back.
 *
 *     0 ......... done ......... next ......... limit
 *     results here | sent, waiting | may be sent   | not granted yet
 *
 * Of those that may be sent, the ones before `read` are being read from a device or have been.
 * Numbers are ordinals. `done` and `next` only grow; limit - done is at most SMD_FLOW_WINDOW_MAX.
 */
#ifndef SMD_LIBSUMMAND_FLOW_H
#define SMD_LIBSUMMAND_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/transport.h"

struct smd_comm;
struct smd_remote;
struct smd_request;
struct smd_stage;

#define SMD_FLOW_WINDOW_MAX 16

struct smd_flow_send {
	struct smd_send send; /* owner: the communicator, for smd_lane_cancel() */
	struct smd_request *operation;
	struct smd_stage *stage; /* NULL: the chunk is sent from the caller's buffer */
};

struct smd_flow {
	struct smd_comm *comm;
	struct smd_remote *remote;
	uint64_t done;
	uint64_t next;
	uint64_t limit;
	uint64_t read;
	struct smd_request *rx_operation; /* whose result is coming in */
	struct smd_stage *rx_stage;       /* and where to; NULL: not to a stage */
	struct smd_flow_send
		sends[SMD_FLOW_WINDOW_MAX]; /* of ordinal k at k mod SMD_FLOW_WINDOW_MAX */
};

/* The shard allows so many chunks after those that are done. */
void smd_flow_grant(struct smd_flow *flow, unsigned window);

/* Sends the next chunk if it is there and may go, begins to read one; whether it did either. */
bool smd_flow_send(struct smd_flow *flow);

/*
 * A result is announced: *payload is where it goes. -errno with a text when the shard breaks the
 * protocol.
 */
int smd_flow_receive(struct smd_flow *flow, const struct smd_frame *frame, void **payload,
	struct smd_error *error);

/* The announced result is there. */
void smd_flow_received(struct smd_flow *flow, const struct smd_frame *frame);

#endif
