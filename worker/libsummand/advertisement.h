/*
 * Where a shard's card may write results of a flow by itself: each place is advertised with the
 * chunk's input, and taken back when the result is there (specs/design/epochs.md, "Over RDMA").
 *
 * A result may be written over its own input. Then a copy of that is kept (undo.h), or its path
 * can have it again, so that half a result is no loss.
 *
 * All on the owner (progress.h).
 */
#ifndef SMD_LIBSUMMAND_ADVERTISEMENT_H
#define SMD_LIBSUMMAND_ADVERTISEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/flow.h"

/* Advertises the memory that the chunk's result is for, if the lane can have it written to: of the
 * flow's next one, before its input is sent. */
void smd_flow_advertise(struct smd_flow *flow, struct smd_request *operation, uint64_t chunk);

/* The result of that ordinal is there, and all of it: `written` bytes by the card, or (0) elsewhere.
 */
void smd_flow_claim(struct smd_flow *flow, uint64_t ordinal, uint32_t written);

/* Whether the result of that ordinal may come: 0; -EPROTO with a text where it was written to a
 * place
 * (`direct`) that was not advertised, or where the shard can still write to one that was. */
int smd_flow_check_place(
	const struct smd_flow *flow, uint64_t ordinal, bool direct, struct smd_error *error);

/* Whether the shard may write into buffers of the communicator without a further word. */
bool smd_flow_is_open(const struct smd_flow *flow);

/* The shard is finished with the communicator; withdrawn() is called when its card cannot write to
 * any place any more: now, later, or when the lane is closed. */
void smd_flow_withdraw_all(struct smd_flow *flow, void (*withdrawn)(struct smd_flow *flow));

/* The lane has been closed, and with it all that was advertised on it. Where a card may have begun
 * to write a result over its input, the input is there again. */
void smd_flow_forget_advertisements(struct smd_flow *flow);

#endif
