/*
 * How the ranks of a communicator agree to have a mesh: MEET and MEETS, which shards relay
 * (specs/design/exchange.md). Rank 0 asks, and tells all where all listen. All on the owner.
 */
#ifndef SMD_LIBSUMMAND_MEETING_H
#define SMD_LIBSUMMAND_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/exchange_piece.h"

struct smd_epoch_message;

/* Rank 0, whenever exchanges should be tried and ranks have not met: asks all, the first time.
 * False: there will be no mesh, or one of its lanes has ended. */
bool smd_meeting_begin(struct smd_comm *comm);

/* Rank 0: all ranks have all lanes. */
bool smd_meeting_is_ready(const struct smd_comm *comm);

/* Some rank cannot have all lanes, or has lost one: there will be no more exchanges. */
bool smd_meeting_has_failed(const struct smd_comm *comm);

/* This rank has all lanes, and all of them live. */
bool smd_meeting_holds(const struct smd_comm *comm);

/* MEET or MEETS has come. -EPROTO with a text. */
int smd_meeting_take(
	struct smd_comm *comm, const struct smd_epoch_message *message, struct smd_error *error);

#endif
