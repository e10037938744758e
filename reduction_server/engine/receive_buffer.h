/*
 * The receive buffers of a member whose lane supports remote buffers (transport.h): each is taken
 * from the pool and advertised to the worker before the part that is written into it arrives.
 *
 * A member gets one for each ordinal that it is granted. The part's header claims it; a part
 * without elements gives it back. After ABORT the worker may still be writing, so the buffers stay
 * taken and reserved until it says LEAVE or its lane has been closed and released.
 */
#ifndef SMD_ENGINE_RECEIVE_BUFFER_H
#define SMD_ENGINE_RECEIVE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/transport.h"

struct smd_member;

struct smd_receive_buffer {
	void *buffer;
	struct smd_advertisement *advertisement;
};

/* Advertises a buffer for each ordinal before `limit` that has none yet; they go with the next
 * frame to the member. Does nothing where the lane does not support remote buffers. -ENOMEM. */
int smd_member_advertise(struct smd_member *member, uint64_t limit);

/* Whether a part of that ordinal may come: 0; -EPROTO with a text where it was written to a receive
 * buffer (`direct`) that the ordinal has not, or where the worker can still write to the one that
 * it has. */
int smd_member_check_buffer(
	const struct smd_member *member, uint64_t ordinal, bool direct, struct smd_error *error);

/* The ordinal's receive buffer, which is the caller's from now on, with so many bytes of the part
 * that have been written to it already; NULL: it has none. */
void *smd_member_claim_buffer(struct smd_member *member, uint64_t ordinal, uint32_t written);

/* Gives those for ordinals from `limit` on back: the worker has said that it will not use them. */
void smd_member_withdraw(struct smd_member *member, uint64_t limit);

/* How many receive buffers it holds. */
unsigned smd_member_count_buffers(const struct smd_member *member);

/* Whether some could be taken back only later: smd_member_withdraw() is not for these. */
bool smd_member_holds_buffers(const struct smd_member *member);

/* Gives all receive buffers and their reservation back to the pool, those with memory windows when
 * these are closed. The member is detached, and its lane is closed or its worker has left. */
void smd_member_free_buffers(struct smd_member *member, bool lane_is_closed);

#endif
