/*
 * Places that a worker's card may write to: a shard uses none of them for anything else before the
 * worker has said that it is through with it (LEAVE, SHRUNK) or its lane is closed, however late
 * the card writes. The lanes are played: their other ends, and their cards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "reduction_server/engine/window.h"
#include "tests/unit/engine/bare_shard.h"
#include "worker/summand.h"

enum { CHUNK = 4096, ELEMENTS = CHUNK / 4, PLACES_MOST = 64, LANES_MOST = 12, KINDS = 64 };

/* ---- a lane whose other end is played ---- */

struct place {
	struct smd_advertisement advertisement; /* first */
	void *memory;
	bool live; /* the card may write there */
};

struct played_lane {
	struct smd_lane lane; /* first */
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	struct place places[PLACES_MOST]; /* all that it was ever told of */
	unsigned nplaces;
	unsigned said[KINDS]; /* frames to the worker, by kind */
	int32_t result[ELEMENTS];
	bool closed;
	bool later; /* its card may write for some time after that, until this is called: */
	void (*released)(void *owner);
	void *released_owner;
};

static struct smd_shard shard;
static struct played_lane lanes[LANES_MOST];

/* The pool has it, for whoever asks. */
static bool is_free(const void *memory)
{
	const struct smd_buffer_pool *pool = &shard.resources.pool;
	bool found = false;

	for (size_t i = 0; i < pool->nfree; i++) {
		found |= pool->free[i] == memory;
	}
	return found;
}

static unsigned live_places(const struct played_lane *lane)
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
			assert_false(lanes[l].places[i].live && is_free(lanes[l].places[i].memory));
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
	*place = (struct place){.memory = memory, .live = true};
	return &place->advertisement;
}

static void lane_revoke(struct smd_lane *lane, struct smd_advertisement *advertisement)
{
	(void)lane;
	((struct place *)advertisement)->live = false;
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

static void lane_release(struct played_lane *lane)
{
	lane_close(&lane->lane);
	lane->released(lane->released_owner);
}

static const char *lane_peer_name(const struct smd_lane *lane)
{
	(void)lane;
	return "10.0.0.9:7";
}

static const struct smd_transport_ops played_transport = {
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

/* The worker says that; `direct`: its card has written the payload to the place that is next. */
static void say(struct played_lane *lane, struct smd_frame frame, const void *payload,
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

/* ---- a shard, and workers on it ---- */

static void shard_make(size_t buffers, unsigned window)
{
	memset(lanes, 0, sizeof(lanes));
	bare_shard_make(&shard, buffers, CHUNK, window);
}

static struct played_lane *worker_join(unsigned index, const char *group, unsigned rank)
{
	struct smd_handshake handshake = {.hello = {.replica = "worker", .job = "job"}};
	struct smd_join join = {.nranks = 2};
	struct smd_frame frame = {.kind = SMD_FRAME_JOIN, .comm = 1, .rank = (uint16_t)rank};
	struct played_lane *lane = &lanes[index];
	uint8_t payload[SMD_CONTROL_MAX];

	lane->lane.ops = &played_transport;
	assert_int_equal(smd_peer_create(&shard, &lane->lane, &handshake), 0);
	strcpy(join.group, group);
	say(lane, frame, payload, smd_join_encode(&join, payload), false);
	return lane;
}

/* That there is no going on with the group: what every rank then hears. */
static void worker_fail(struct played_lane *lane, unsigned rank)
{
	struct smd_frame frame = {.kind = SMD_FRAME_LEAVE, .comm = 1, .rank = (uint16_t)rank};
	struct smd_abort why = {.err = EIO, .text = "no more"};
	uint8_t payload[SMD_CONTROL_MAX];

	say(lane, frame, payload, smd_abort_encode(&why, payload), false);
}

static void worker_leave(struct played_lane *lane, unsigned rank)
{
	say(lane, (struct smd_frame){.kind = SMD_FRAME_LEAVE, .comm = 1, .rank = (uint16_t)rank},
		NULL, 0, false);
}

static void fill(int32_t *values, int32_t value)
{
	for (unsigned i = 0; i < ELEMENTS; i++) {
		values[i] = value;
	}
}

static struct place *first_live(struct played_lane *lane)
{
	struct place *place = lane->places;

	while (!place->live) {
		place++;
		assert_true(place < lane->places + lane->nplaces);
	}
	return place;
}

/* A part of `value`s, which its card writes to its place. */
static void worker_input(struct played_lane *lane, unsigned rank, uint64_t ordinal, int32_t value)
{
	fill(first_live(lane)->memory, value);
	say(lane,
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
static void worker_input_plain(
	struct played_lane *lane, unsigned rank, uint64_t ordinal, int32_t value)
{
	int32_t elements[ELEMENTS];

	fill(elements, value);
	say(lane,
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

static void assert_result(const struct played_lane *lane, int32_t value)
{
	for (unsigned i = 0; i < ELEMENTS; i++) {
		assert_int_equal(lane->result[i], value);
	}
}

/* ---- who leaves, and who is late ---- */

static void a_place_is_its_rank_s_until_it_leaves(void **state)
{
	struct played_lane *late;
	struct played_lane *other;
	struct played_lane *one;
	struct played_lane *two;
	struct place *place;

	(void)state;
	shard_make(6, 1); /* for two groups, and no buffer more */
	late = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	assert_int_equal(live_places(late), 1);
	place = first_live(late);
	worker_fail(other, 1);
	assert_int_equal(other->said[SMD_FRAME_LEFT], 1);
	assert_int_equal(live_places(other), 0);
	assert_int_equal(late->said[SMD_FRAME_ABORT], 1);
	/* It has not heard of it yet. */
	assert_true(place->live);
	one = worker_join(2, "second", 0);
	two = worker_join(3, "second", 1);
	for (unsigned round = 0; round < 4; round++) {
		worker_input(one, 0, round, 1);
		fill(place->memory, 0x5a5a5a5a); /* a write that comes late */
		worker_input(two, 1, round, 2);
		fill(place->memory, 0x5a5a5a5a);
		assert_result(one, 3);
		assert_result(two, 3);
	}
	assert_int_equal(late->said[SMD_FRAME_LEFT], 0);
	worker_leave(late, 0);
	assert_int_equal(late->said[SMD_FRAME_LEFT], 1);
	assert_false(place->live);
	assert_true(is_free(place->memory));
	bare_shard_end(&shard);
}

/* As long as it is not free the memory is promised, too: a group that needs it is refused. */
static void what_is_not_given_back_is_missing(void **state)
{
	struct played_lane *late;
	struct played_lane *other;
	struct played_lane *one;

	(void)state;
	shard_make(3, 1);
	late = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	worker_fail(other, 1);
	assert_int_equal(shard.resources.pool.reserved, 1);
	one = worker_join(2, "second", 0);
	worker_join(3, "second", 1);
	assert_int_equal(one->said[SMD_FRAME_JOINED], 0);
	assert_int_equal(one->said[SMD_FRAME_ABORT], 1);
	worker_leave(late, 0);
	assert_int_equal(shard.resources.pool.reserved, 0);
	bare_shard_end(&shard);
}

/* lane_close() looks whether its places are somebody else's before it is through. */
static void a_place_is_its_rank_s_until_its_lane_is_closed(void **state)
{
	struct played_lane *late;
	struct played_lane *other;
	void *memory;

	(void)state;
	shard_make(6, 1);
	late = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	memory = first_live(late)->memory;
	worker_input(other, 1, 0, 7);
	late->callbacks->on_closed(late->owner, -ECONNRESET, "gone");
	assert_true(late->closed);
	assert_true(is_free(memory));
	assert_int_equal(other->said[SMD_FRAME_GONE], 1);
	assert_int_equal(live_places(other), 0); /* what it had was written */
	bare_shard_end(&shard);
}

/* Its queue pair takes a card a while to destroy: the next group waits for that, and a rank is not
 * told that there is no memory. */
static void a_place_comes_back_when_the_card_is_through(void **state)
{
	struct played_lane *gone;
	struct played_lane *other;
	struct played_lane *one;
	struct played_lane *two;
	void *memory;

	(void)state;
	shard_make(3, 1); /* for one group, and no buffer more */
	gone = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	memory = first_live(gone)->memory;
	gone->later = true;
	gone->callbacks->on_closed(gone->owner, -ECONNRESET, "gone");
	assert_int_equal(other->said[SMD_FRAME_GONE], 1);
	worker_leave(other, 1);
	one = worker_join(2, "second", 0);
	two = worker_join(3, "second", 1);
	assert_true(smd_server_comms_retry(&shard.comms));
	assert_false(is_free(memory));
	assert_int_equal(one->said[SMD_FRAME_JOINED] + one->said[SMD_FRAME_ABORT], 0);
	fill(memory, 0x5a5a5a5a);
	lane_release(gone);
	assert_true(is_free(memory));
	assert_false(smd_server_comms_retry(&shard.comms));
	assert_int_equal(one->said[SMD_FRAME_JOINED], 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	assert_result(one, 3);
	assert_result(two, 3);
	bare_shard_end(&shard);
}

/* Lanes that part may have nothing that a group lacks, and windows of its job have. */
static void windows_give_way_meanwhile(void **state)
{
	struct played_lane *gone;
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	shard_make(16, 4);
	one = worker_join(0, "first", 0);
	two = worker_join(1, "first", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	gone = worker_join(2, "other", 0);
	gone->later = true;
	gone->callbacks->on_closed(gone->owner, -ECONNRESET, "gone");
	assert_int_equal(shard.resources.short_looks, 0);
	for (unsigned lane = 3; lane < 3 + 8; lane += 2) { /* more than there is room for */
		static const char *const groups[] = {"second", "third", "fourth", "fifth"};

		worker_join(lane, groups[lane / 2 - 1], 0);
		worker_join(lane + 1, groups[lane / 2 - 1], 1);
	}
	assert_true(smd_server_comms_retry(&shard.comms));
	assert_true(shard.resources.short_looks > 0);
	lane_release(gone);
	bare_shard_end(&shard);
}

/* ---- a window that is given back ---- */

/* Somebody wants memory, and the communicator rests. */
static void ask_for_windows(void)
{
	for (unsigned look = 0; look < 3; look++) {
		smd_windows_want(&shard.resources);
		smd_windows_shrink_idle(&shard.comms);
	}
}

static void a_window_s_places_are_its_rank_s_until_it_says_so(void **state)
{
	struct smd_frame shrunk = {.kind = SMD_FRAME_SHRUNK, .comm = 1, .ordinal = 2};
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	shard_make(32, 2);
	one = worker_join(0, "group", 0);
	two = worker_join(1, "group", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	assert_int_equal(live_places(one), 2);
	ask_for_windows();
	assert_int_equal(one->said[SMD_FRAME_SHRINK], 1);
	assert_int_equal(live_places(one), 2);
	say(one, shrunk, NULL, 0, false);
	assert_int_equal(live_places(one), 1);
	assert_int_equal(live_places(two), 2);
	bare_shard_end(&shard);
}

/* A result that leaves while ranks are asked grants an ordinal whose place is given back then: it
 * comes without one, and the next places are of those after it. */
static void what_is_granted_meanwhile_has_no_place(void **state)
{
	struct smd_frame shrunk = {.kind = SMD_FRAME_SHRUNK, .comm = 1, .ordinal = 2};
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	shard_make(64, 4);
	one = worker_join(0, "group", 0);
	two = worker_join(1, "group", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	ask_for_windows();
	worker_input(one, 0, 1, 1); /* these were on their way */
	worker_input(two, 1, 1, 2);
	say(one, shrunk, NULL, 0, false);
	shrunk.rank = 1;
	say(two, shrunk, NULL, 0, false);
	assert_int_equal(live_places(one), 0);
	for (uint64_t ordinal = 2; ordinal < 13; ordinal++) { /* more than there are entries for */
		worker_input_plain(one, 0, ordinal, 1);
		worker_input_plain(two, 1, ordinal, 2);
	}
	bare_shard_end(&shard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_its_rank_s_until_it_leaves),
		cmocka_unit_test(what_is_not_given_back_is_missing),
		cmocka_unit_test(a_place_is_its_rank_s_until_its_lane_is_closed),
		cmocka_unit_test(a_place_comes_back_when_the_card_is_through),
		cmocka_unit_test(windows_give_way_meanwhile),
		cmocka_unit_test(a_window_s_places_are_its_rank_s_until_it_says_so),
		cmocka_unit_test(what_is_granted_meanwhile_has_no_place),
	};

	return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
