/* Keeps the buffers that workers may write parts into. */
#include "reduction_server/engine/berth.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/peer.h"
#include "reduction_server/engine/shard.h"

/* A granted ordinal is at most so far from the next one. */
static unsigned berth_count(const struct smd_member *member)
{
	return 2 * member->peer->shard->config.window;
}

static struct smd_berth *berth_of(const struct smd_member *member, uint64_t ordinal)
{
	return &member->berths[ordinal % berth_count(member)];
}

int smd_member_offer(struct smd_member *member, uint64_t limit)
{
	struct smd_lane *lane = member->peer->lane;
	struct smd_pool *pool;

	if (!smd_lane_can_advertise(lane)) {
		return 0;
	}
	pool = &member->peer->shard->pool;
	if (!member->berths) {
		member->berths = calloc(berth_count(member), sizeof(*member->berths));
	}
	if (!member->berths) {
		return -ENOMEM;
	}
	for (; member->berthed < limit; member->berthed++) {
		struct smd_berth *berth = berth_of(member, member->berthed);

		assert(!berth->buffer);
		berth->buffer = smd_pool_take(pool);
		berth->advertisement = smd_lane_advertise(lane, berth->buffer,
			(uint32_t)pool->buffer_bytes, (struct smd_extent){NULL, 0});
	}
	return 0;
}

bool smd_member_has_berth(const struct smd_member *member, uint64_t ordinal)
{
	return ordinal >= member->next && ordinal < member->berthed &&
	       berth_of(member, ordinal)->advertisement != NULL;
}

void *smd_member_leave_berth(struct smd_member *member, uint64_t ordinal)
{
	struct smd_berth *berth;
	void *buffer;

	if (ordinal >= member->berthed) {
		return NULL;
	}
	berth = berth_of(member, ordinal);
	buffer = berth->buffer;
	smd_lane_revoke(member->peer->lane, berth->advertisement);
	*berth = (struct smd_berth){NULL, NULL};
	return buffer;
}

unsigned smd_member_count_berths(const struct smd_member *member)
{
	return member->berthed > member->next ? (unsigned)(member->berthed - member->next) : 0;
}

void smd_member_free_berths(struct smd_member *member, bool lane_is_closed)
{
	struct smd_pool *pool = &member->peer->shard->pool;

	smd_pool_release(pool, smd_member_count_berths(member));
	for (uint64_t k = member->next; k < member->berthed; k++) {
		struct smd_berth *berth = berth_of(member, k);

		if (!lane_is_closed) {
			smd_lane_revoke(member->peer->lane, berth->advertisement);
		}
		smd_pool_give(pool, berth->buffer);
	}
	free(member->berths);
	member->berths = NULL;
	member->berthed = 0;
}
