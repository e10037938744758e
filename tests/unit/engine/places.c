/* Plays workers, their lanes and their cards. */
#include "tests/unit/engine/places.h"

#include <errno.h>
#include <string.h>

#include "reduction_server/engine/window.h"
#include "worker/summand.h"

/* ---- lanes ---- */

struct smd_shard places_shard;
const char *places_job;
static struct played_lane lanes[LANES_MOST];

/* The pool has it, for whoever asks. */
bool place_is_free(const void *memory)
{
	const struct smd_buffer_pool *pool = &places_shard.resources.pool;
	bool found = false;

	for (size_t i = 0; i < pool->nfree; i++) {
		found |= pool->free[i] == memory;
	}
	return found;
}

unsigned lane_live_places(const struct played_lane *lane)
{
	unsigned live = 0;

	for (unsigned i = 0; i < lane->nplaces; i++) {
		live += lane->places[i].live;
	}
	return live;
}

static void assert_places_are_nobody_elses(void)
{
	for (unsigned l = 0; l < LANES_MOST; l++) {
		for (unsigned i = 0; i < lanes[l].nplaces; i++) {
			assert_false(lanes[l].places[i].live &&
				     place_is_free(lanes[l].places[i].memory));
		}
	}
}

static struct smd_advertisement *lane_advertise(
	struct smd_lane *outer, void *memory, uint32_t length, struct smd_extent extent)
{
	struct played_lane *lane = (struct played_lane *)outer;
	struct place *place = &lane->places[lane->nplaces++];

	(void)length;
	(void)extent;
	assert_in_range(lane->nplaces, 1, PLACES_MOST);
	for (unsigned l = 0; l < LANES_MOST; l++) {
		for (unsigned i = 0; i < lanes[l].nplaces; i++) {
			assert_false(
				lanes[l].places[i].live && lanes[l].places[i].memory == memory);
		}
	}
	*place = (struct place){.memory = memory,
		.live = true,
		.advertisement.held = lane->lane.ops->withdraw != NULL};
	return &place->advertisement;
}

static void lane_revoke(struct smd_lane *lane, struct smd_advertisement *advertisement)
{
	(void)lane;
	((struct place *)advertisement)->live = false;
}

/* With memory windows: the card has to take a key back. */
static void lane_withdraw(struct smd_lane *lane, struct smd_advertisement *advertisement,
	smd_withdrawn *gone, void *owner)
{
	struct place *place = (struct place *)advertisement;

	(void)lane;
	place->gone = gone;
	place->gone_owner = owner;
}

void lane_take_back(struct played_lane *lane)
{
	for (unsigned i = 0; i < lane->nplaces; i++) {
		struct place *place = &lane->places[i];

		if (place->gone) {
			place->live = false;
			place->gone(place->gone_owner, place->memory);
			place->gone = NULL;
		}
	}
}

static int lane_attach(struct smd_lane *outer, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	struct played_lane *lane = (struct played_lane *)outer;

	(void)base;
	lane->callbacks = callbacks;
	lane->owner = owner;
	return 0;
}

static void lane_send(struct smd_lane *outer, struct smd_send *send)
{
	struct played_lane *lane = (struct played_lane *)outer;
	struct smd_frame frame;

	assert_int_equal(smd_frame_decode(send->header, &frame, NULL), 0);
	lane->said[frame.kind]++;
	if (frame.kind == SMD_FRAME_RESULT) {
		memcpy((uint8_t *)lane->result + frame.offset * 4, send->payload, send->length);
	}
	send->done(send, 0);
}

/* Afterwards the card writes nowhere, and not before: until then all is as it was. */
static void lane_close(struct smd_lane *outer)
{
	struct played_lane *lane = (struct played_lane *)outer;

	assert_places_are_nobody_elses();
	for (unsigned i = 0; i < lane->nplaces; i++) {
		lane->places[i].live = false;
	}
	lane_take_back(lane);
	lane->closed = true;
}

static void lane_close_later(struct smd_lane *outer, void (*released)(void *owner), void *owner)
{
	struct played_lane *lane = (struct played_lane *)outer;

	if (lane->later) {
		lane->closed = true;
		lane->released = released;
		lane->released_owner = owner;
	} else {
		lane_close(outer);
		released(owner);
	}
}

void lane_release(struct played_lane *lane)
{
	lane_close(&lane->lane);
	lane->released(lane->released_owner);
}

static const char *lane_peer_name(const struct smd_lane *lane)
{
	(void)lane;
	return "10.0.0.9:7";
}

const struct smd_transport_ops played_transport = {
	.name = "played",
	.room = 1u << 20,
	.attach = lane_attach,
	.send = lane_send,
	.advertise = lane_advertise,
	.revoke = lane_revoke,
	.close = lane_close,
	.close_later = lane_close_later,
	.peer_name = lane_peer_name,
};

const struct smd_transport_ops plain_transport = {
	.name = "plain",
	.room = 1u << 20,
	.attach = lane_attach,
	.send = lane_send,
	.close = lane_close,
	.close_later = lane_close_later,
	.peer_name = lane_peer_name,
};

const struct smd_transport_ops windowed_transport = {
	.name = "windowed",
	.room = 1u << 20,
	.attach = lane_attach,
	.send = lane_send,
	.advertise = lane_advertise,
	.revoke = lane_revoke,
	.withdraw = lane_withdraw,
	.close = lane_close,
	.close_later = lane_close_later,
	.peer_name = lane_peer_name,
};

/* The worker says that; `direct`: its card has written the payload to the place that is next. */
void worker_say(struct played_lane *lane, struct smd_frame frame, const void *payload,
	size_t length, bool direct)
{
	struct smd_error error = {""};
	void *to = NULL;

	frame.length = (uint32_t)length;
	lane->lane.direct = direct;
	assert_int_equal(lane->callbacks->on_header(lane->owner, &frame, &to, &error), 0);
	if (!direct && length) {
		memcpy(to, payload, length);
	}
	assert_int_equal(lane->callbacks->on_frame(lane->owner, &frame, to, &error), 0);
	lane->lane.direct = false;
	assert_places_are_nobody_elses();
}

/* ---- a places_shard, and workers on it ---- */

void places_shard_make(size_t buffers, unsigned window)
{
	memset(lanes, 0, sizeof(lanes));
	places_job = "job";
	bare_shard_make(&places_shard, buffers, CHUNK, window);
}

struct played_lane *worker_join_over(
	const struct smd_transport_ops *transport, unsigned index, const char *group, unsigned rank)
{
	struct smd_handshake handshake = {.hello = {.replica = "worker"}};
	struct smd_join join = {.nranks = 2};
	struct smd_frame frame = {.kind = SMD_FRAME_JOIN, .comm = 1, .rank = (uint16_t)rank};
	struct played_lane *lane = &lanes[index];
	uint8_t payload[SMD_CONTROL_MAX];

	strcpy(handshake.hello.job, places_job);
	lane->lane.ops = transport;
	lane->lane.windows = transport == &windowed_transport;
	assert_int_equal(smd_peer_create(&places_shard, &lane->lane, &handshake), 0);
	strcpy(join.group, group);
	worker_say(lane, frame, payload, smd_join_encode(&join, payload), false);
	return lane;
}

struct played_lane *worker_join(unsigned index, const char *group, unsigned rank)
{
	return worker_join_over(&played_transport, index, group, rank);
}

/* That there is no going on with the group: what every rank then hears. */
void worker_fail(struct played_lane *lane, unsigned rank)
{
	struct smd_frame frame = {.kind = SMD_FRAME_LEAVE, .comm = 1, .rank = (uint16_t)rank};
	struct smd_abort why = {.err = EIO, .text = "no more"};
	uint8_t payload[SMD_CONTROL_MAX];

	worker_say(lane, frame, payload, smd_abort_encode(&why, payload), false);
}

void worker_leave(struct played_lane *lane, unsigned rank)
{
	worker_say(lane,
		(struct smd_frame){.kind = SMD_FRAME_LEAVE, .comm = 1, .rank = (uint16_t)rank},
		NULL, 0, false);
}

void elements_fill(int32_t *values, int32_t value)
{
	for (unsigned i = 0; i < ELEMENTS; i++) {
		values[i] = value;
	}
}

struct place *lane_first_live(struct played_lane *lane)
{
	struct place *place = lane->places;

	while (!place->live) {
		place++;
		assert_true(place < lane->places + lane->nplaces);
	}
	return place;
}

/* A part of `value`s, which its card writes to its place; the key of a window comes back with it.
 */
void worker_input(struct played_lane *lane, unsigned rank, uint64_t ordinal, int32_t value)
{
	elements_fill(lane_first_live(lane)->memory, value);
	lane_first_live(lane)->advertisement.held = false;
	worker_say(lane,
		(struct smd_frame){.kind = SMD_FRAME_INPUT,
			.dtype = SMD_INT32,
			.op = SMD_SUM,
			.comm = 1,
			.rank = (uint16_t)rank,
			.chunk = ordinal,
			.operation = ordinal,
			.count = ELEMENTS,
			.ordinal = ordinal},
		NULL, CHUNK, true);
}

/* Without a place, in a message. */
void worker_input_plain(struct played_lane *lane, unsigned rank, uint64_t ordinal, int32_t value)
{
	int32_t elements[ELEMENTS];

	elements_fill(elements, value);
	worker_say(lane,
		(struct smd_frame){.kind = SMD_FRAME_INPUT,
			.dtype = SMD_INT32,
			.op = SMD_SUM,
			.comm = 1,
			.rank = (uint16_t)rank,
			.chunk = ordinal,
			.operation = ordinal,
			.count = ELEMENTS,
			.ordinal = ordinal},
		elements, CHUNK, false);
}

void lane_assert_result(const struct played_lane *lane, int32_t value)
{
	for (unsigned i = 0; i < ELEMENTS; i++) {
		assert_int_equal(lane->result[i], value);
	}
}

/* Somebody wants memory, and the communicator rests. */
void places_ask_for_windows(void)
{
	for (unsigned look = 0; look < 3; look++) {
		smd_windows_want(&places_shard.resources);
		smd_windows_shrink_idle(&places_shard.comms);
	}
}
