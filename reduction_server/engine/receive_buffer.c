/* Keeps the buffers that workers may write parts into. */
#include "reduction_server/engine/receive_buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/resources.h"

/* A granted ordinal is at most so far from the next one. */
static unsigned receive_buffer_count(const struct smd_member *member)
{
	return 2 * member->resources->window;
}

static struct smd_receive_buffer *receive_buffer_of(
	const struct smd_member *member, uint64_t ordinal)
{
	return &member->receive_buffers[ordinal % receive_buffer_count(member)];
}

int smd_member_advertise(struct smd_member *member, uint64_t limit)
{
	struct smd_lane *lane = member->lane;
	struct smd_buffer_pool *pool;

	if (!smd_lane_can_advertise(lane)) {
		return 0;
	}
	pool = &member->resources->pool;
	if (!member->receive_buffers) {
		member->receive_buffers =
			calloc(receive_buffer_count(member), sizeof(*member->receive_buffers));
	}
	if (!member->receive_buffers) {
		return -ENOMEM;
	}
	for (; member->advertised < limit; member->advertised++) {
		struct smd_receive_buffer *receive = receive_buffer_of(member, member->advertised);

		assert(!receive->buffer);
		receive->buffer = smd_buffer_pool_take(pool);
		receive->advertisement = smd_lane_advertise(lane, receive->buffer,
			(uint32_t)pool->buffer_bytes, (struct smd_extent){NULL, 0});
	}
	return 0;
}

bool smd_member_advertises(const struct smd_member *member, uint64_t ordinal)
{
	return ordinal >= member->next && ordinal < member->advertised &&
	       receive_buffer_of(member, ordinal)->advertisement != NULL;
}

void *smd_member_claim_buffer(struct smd_member *member, uint64_t ordinal, uint32_t written)
{
	struct smd_receive_buffer *receive;
	void *buffer;

	if (ordinal >= member->advertised) { /* the worker counts the next one from there, too */
		member->advertised = ordinal + 1;
		return NULL;
	}
	receive = receive_buffer_of(member, ordinal);
	buffer = receive->buffer;
	if (written) {
		smd_lane_claim(member->lane, receive->advertisement, written);
	} else {
		smd_lane_revoke(member->lane, receive->advertisement);
	}
	*receive = (struct smd_receive_buffer){NULL, NULL};
	return buffer;
}

void smd_member_withdraw(struct smd_member *member, uint64_t limit)
{
	while (member->advertised > limit) {
		struct smd_receive_buffer *receive =
			receive_buffer_of(member, --member->advertised);

		smd_lane_revoke(member->lane, receive->advertisement);
		smd_buffer_pool_give(&member->resources->pool, receive->buffer);
		*receive = (struct smd_receive_buffer){NULL, NULL};
	}
}

unsigned smd_member_count_buffers(const struct smd_member *member)
{
	return member->advertised > member->next ? (unsigned)(member->advertised - member->next)
						 : 0;
}

void smd_member_free_buffers(struct smd_member *member, bool lane_is_closed)
{
	struct smd_buffer_pool *pool = &member->resources->pool;

	smd_buffer_pool_release(pool, smd_member_count_buffers(member));
	for (uint64_t k = member->next; k < member->advertised; k++) {
		struct smd_receive_buffer *receive = receive_buffer_of(member, k);

		if (!lane_is_closed) {
			smd_lane_revoke(member->lane, receive->advertisement);
		}
		smd_buffer_pool_give(pool, receive->buffer);
	}
	free(member->receive_buffers);
	member->receive_buffers = NULL;
	member->advertised = 0;
}
