/*
 * Buffers that are taken before their parts come, because the member's lane lets its worker write
 * into them (transport.h, remote buffers).
 *
 * A member gets a *berth* for each ordinal that it is granted. It is used when the part's header
 * comes, and given back when the part turns out to be empty. After ABORT a worker may still be
 * writing: the berths are kept, with the promise of their buffers, until it says LEAVE or its lane
 * has been closed.
 */
#ifndef SMD_ENGINE_BERTH_H
#define SMD_ENGINE_BERTH_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/transport.h"

struct smd_member;

struct smd_berth {
	void *buffer;
	struct smd_advertisement *advertisement;
};

/* Offers berths for the ordinals before `limit` that have none yet; they go with the next frame to
 * the member. Nothing where the lane cannot advertise. -ENOMEM. */
int smd_member_offer(struct smd_member *member, uint64_t limit);

/* Whether a part of that ordinal may have been written to its berth. */
bool smd_member_has_berth(const struct smd_member *member, uint64_t ordinal);

/* The buffer of the ordinal's berth, which is the caller's from now on; NULL: it has none. */
void *smd_member_leave_berth(struct smd_member *member, uint64_t ordinal);

/* How many buffers its berths hold. */
unsigned smd_member_count_berths(const struct smd_member *member);

/* Gives all buffers back to the shard's pool, with their promise. The member is detached, and its
 * lane is closed or its worker has left. */
void smd_member_free_berths(struct smd_member *member, bool lane_is_closed);

#endif
