/*
 * Looks twice a second after exchanges that are under way: who is late, who does not agree, and
 * what can never be done because a rank is lost (specs/design/exchange.md).
 */
#ifndef SMD_LIBSUMMAND_EXCHANGE_WATCH_H
#define SMD_LIBSUMMAND_EXCHANGE_WATCH_H

#include "worker/libsummand/exchange_piece.h"

/* One has begun. */
void smd_exchange_watch_begin(struct smd_exchanges *exchanges);

/* Some rank needs a lane that has ended: rank 0 has a table agreed on without exchanges, and
 * servers do again what is left. Where that cannot be had the communicator fails. */
void smd_exchange_watch_needed(struct smd_exchanges *exchanges);

/* A rank asks what this one has begun as an operation, or has answered. -EPROTO with a text. */
int smd_exchange_watch_take(struct smd_mesh_peer *peer, const struct smd_frame *frame,
	const uint8_t *payload, struct smd_error *error);

#endif
