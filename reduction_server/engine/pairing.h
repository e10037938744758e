/*
 * Between a worker's handshake and its WELCOME, where the worker wants a lane of another transport:
 * both ends offer half of one in PAIR, over the lane that they have, and join the halves.
 *
 * A pairer is one shard's and is used on its thread. Whoever gets here has shown that it has the
 * job's token, and so does each offer (specs/design/rdma.md).
 */
#ifndef SMD_ENGINE_PAIRING_H
#define SMD_ENGINE_PAIRING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/token.h"
#include "reduction_server/transport/transport.h"
#include "reduction_server/wire/handshake.h"

struct event_base;

struct smd_pairer {
	struct event_base *base;
	const char *name;                    /* "shard 0", for messages */
	unsigned shard;                      /* its number */
	const struct smd_transport_ops *const *pairs; /* of the lanes that are made; ends with NULL */
	bool needed;                         /* workers are let in by such lanes only */
	const struct smd_tokens *tokens;     /* NULL: none are asked for */
	/* Takes the lane: the one that was made, or where that could not be begun the other, which
	 * is then on no loop. On -errno it is closed. */
	int (*on_paired)(
		void *owner, struct smd_lane *lane, const struct smd_handshake *handshake);
	void *owner;
	/* The pairer's own, zeros at first: */
	LIST_HEAD(, smd_pairing) pairings;
};

/* A lane, on no loop, that is through the handshake: is paired if its worker has asked for that and
 * it can be, and else taken as it is. */
void smd_pairer_take(
	struct smd_pairer *pairer, struct smd_lane *lane, const struct smd_handshake *handshake);

/* Closes all that are not through. */
void smd_pairer_close(struct smd_pairer *pairer);

#endif
