/* Keeps the buffers that workers may write parts into. */
#include "reduction_server/engine/receive_buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/engine/comm.h"
#include "reduction_server/engine/job.h"
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

/* Whoever may write there may write nothing, and then ask for the result: with memory windows jobs
 * may not trust each other, and what another one has left there is cleared before it is told of. */
static void member_advertise_one(struct smd_member *member, struct smd_receive_buffer *receive)
{
	struct smd_buffer_pool *pool = &member->resources->pool;
	const bool clears = member->lane->windows;
	bool others = false;

	receive->buffer =
		smd_buffer_pool_take(pool, member->comm->job->number, clears ? &others : NULL);
	if (others) {
		memset(receive->buffer, 0, pool->buffer_bytes);
	}
	receive->advertisement = smd_lane_advertise(member->lane, receive->buffer,
		(uint32_t)pool->buffer_bytes, (struct smd_extent){NULL, 0});
}

int smd_member_advertise(struct smd_member *member, uint64_t limit)
{
	if (!smd_lane_can_advertise(member->lane)) {
		return 0;
	}
	if (!member->receive_buffers) {
		member->receive_buffers =
			calloc(receive_buffer_count(member), sizeof(*member->receive_buffers));
	}
	if (!member->receive_buffers) {
		return -ENOMEM;
	}
	for (; member->advertised < limit; member->advertised++) {
		assert(!receive_buffer_of(member, member->advertised)->buffer);
		member_advertise_one(member, receive_buffer_of(member, member->advertised));
	}
	return 0;
}

static const struct smd_advertisement *advertisement_of(
	const struct smd_member *member, uint64_t ordinal)
{
	return ordinal >= member->next && ordinal < member->advertised
		       ? receive_buffer_of(member, ordinal)->advertisement
		       : NULL;
}

int smd_member_check_buffer(
	const struct smd_member *member, uint64_t ordinal, bool direct, struct smd_error *error)
{
	const struct smd_advertisement *advertisement = advertisement_of(member, ordinal);

	if (direct && !advertisement) {
		return smd_error_set(error, EPROTO,
			"INPUT: must not be written to a buffer that was not advertised, got "
			"ordinal %llu",
			(unsigned long long)ordinal);
	}
	if (advertisement && advertisement->held) {
		return smd_error_set(error, EPROTO,
			"INPUT: must give back the memory window of its buffer, got ordinal %llu "
			"without",
			(unsigned long long)ordinal);
	}
	return 0;
}

bool smd_member_holds_buffers(const struct smd_member *member)
{
	for (uint64_t k = member->next; k < member->advertised; k++) {
		if (advertisement_of(member, k) && advertisement_of(member, k)->held) {
			return true;
		}
	}
	return false;
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

static void resources_take_back(void *owner, void *buffer)
{
	struct smd_resources *resources = owner;

	resources->parting--;
	smd_buffer_pool_release(&resources->pool, 1);
	smd_buffer_pool_give(&resources->pool, buffer);
}

void smd_member_free_buffers(struct smd_member *member, bool lane_is_closed)
{
	struct smd_resources *resources = member->resources;

	for (uint64_t k = member->next; k < member->advertised; k++) {
		const struct smd_receive_buffer *receive = receive_buffer_of(member, k);

		resources->parting++;
		if (lane_is_closed) {
			resources_take_back(resources, receive->buffer);
		} else {
			smd_lane_withdraw(member->lane, receive->advertisement, receive->buffer,
				resources_take_back, resources);
		}
	}
	free(member->receive_buffers);
	member->receive_buffers = NULL;
	member->advertised = 0;
}
