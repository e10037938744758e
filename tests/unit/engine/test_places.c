/*
 * Places that a worker's card may write to: a shard uses none of them for anything else before the
 * worker has said that it is through with it (LEAVE, SHRUNK) or its lane is closed, however late
 * the card writes. The lanes are played: their other ends, and their cards.
 */
#include <errno.h>
#include <string.h>

#include "tests/unit/engine/places.h"

/* ---- who leaves, and who is late ---- */

static void a_place_is_its_rank_s_until_it_leaves(void **state)
{
	struct played_lane *late;
	struct played_lane *other;
	struct played_lane *one;
	struct played_lane *two;
	struct place *place;

	(void)state;
	places_shard_make(6, 1); /* for two groups, and no buffer more */
	late = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	assert_int_equal(lane_live_places(late), 1);
	place = lane_first_live(late);
	worker_fail(other, 1);
	assert_int_equal(other->said[SMD_FRAME_LEFT], 1);
	assert_int_equal(lane_live_places(other), 0);
	assert_int_equal(late->said[SMD_FRAME_ABORT], 1);
	/* It has not heard of it yet. */
	assert_true(place->live);
	one = worker_join(2, "second", 0);
	two = worker_join(3, "second", 1);
	for (unsigned round = 0; round < 4; round++) {
		worker_input(one, 0, round, 1);
		elements_fill(place->memory, 0x5a5a5a5a); /* a write that comes late */
		worker_input(two, 1, round, 2);
		elements_fill(place->memory, 0x5a5a5a5a);
		lane_assert_result(one, 3);
		lane_assert_result(two, 3);
	}
	assert_int_equal(late->said[SMD_FRAME_LEFT], 0);
	worker_leave(late, 0);
	assert_int_equal(late->said[SMD_FRAME_LEFT], 1);
	assert_false(place->live);
	assert_true(place_is_free(place->memory));
	bare_shard_end(&places_shard);
}

/* As long as it is not free the memory is promised, too: a group that needs it is refused. */
static void what_is_not_given_back_is_missing(void **state)
{
	struct played_lane *late;
	struct played_lane *other;
	struct played_lane *one;

	(void)state;
	places_shard_make(3, 1);
	late = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	worker_fail(other, 1);
	assert_int_equal(places_shard.resources.pool.reserved, 1);
	one = worker_join(2, "second", 0);
	worker_join(3, "second", 1);
	assert_int_equal(one->said[SMD_FRAME_JOINED], 0);
	assert_int_equal(one->said[SMD_FRAME_ABORT], 1);
	worker_leave(late, 0);
	assert_int_equal(places_shard.resources.pool.reserved, 0);
	bare_shard_end(&places_shard);
}

/* lane_close() looks whether its places are somebody else's before it is through. */
static void a_place_is_its_rank_s_until_its_lane_is_closed(void **state)
{
	struct played_lane *late;
	struct played_lane *other;
	void *memory;

	(void)state;
	places_shard_make(6, 1);
	late = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	memory = lane_first_live(late)->memory;
	worker_input(other, 1, 0, 7);
	late->callbacks->on_closed(late->owner, -ECONNRESET, "gone");
	assert_true(late->closed);
	assert_true(place_is_free(memory));
	assert_int_equal(other->said[SMD_FRAME_GONE], 1);
	assert_int_equal(lane_live_places(other), 0); /* what it had was written */
	bare_shard_end(&places_shard);
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
	places_shard_make(3, 1); /* for one group, and no buffer more */
	gone = worker_join(0, "first", 0);
	other = worker_join(1, "first", 1);
	memory = lane_first_live(gone)->memory;
	gone->later = true;
	gone->callbacks->on_closed(gone->owner, -ECONNRESET, "gone");
	assert_int_equal(other->said[SMD_FRAME_GONE], 1);
	worker_leave(other, 1);
	one = worker_join(2, "second", 0);
	two = worker_join(3, "second", 1);
	assert_true(smd_server_comms_retry(&places_shard.comms));
	assert_false(place_is_free(memory));
	assert_int_equal(one->said[SMD_FRAME_JOINED] + one->said[SMD_FRAME_ABORT], 0);
	elements_fill(memory, 0x5a5a5a5a);
	lane_release(gone);
	assert_true(place_is_free(memory));
	assert_false(smd_server_comms_retry(&places_shard.comms));
	assert_int_equal(one->said[SMD_FRAME_JOINED], 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	lane_assert_result(one, 3);
	lane_assert_result(two, 3);
	bare_shard_end(&places_shard);
}

/* Lanes that part may have nothing that a group lacks, and windows of its job have. */
static void windows_give_way_meanwhile(void **state)
{
	struct played_lane *gone;
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	places_shard_make(16, 4);
	one = worker_join(0, "first", 0);
	two = worker_join(1, "first", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	gone = worker_join(2, "other", 0);
	gone->later = true;
	gone->callbacks->on_closed(gone->owner, -ECONNRESET, "gone");
	assert_int_equal(places_shard.resources.short_looks, 0);
	for (unsigned lane = 3; lane < 3 + 8; lane += 2) { /* more than there is room for */
		static const char *const groups[] = {"second", "third", "fourth", "fifth"};

		worker_join(lane, groups[lane / 2 - 1], 0);
		worker_join(lane + 1, groups[lane / 2 - 1], 1);
	}
	assert_true(smd_server_comms_retry(&places_shard.comms));
	assert_true(places_shard.resources.short_looks > 0);
	lane_release(gone);
	bare_shard_end(&places_shard);
}

/* ---- a window that is given back ---- */

static void a_window_s_places_are_its_rank_s_until_it_says_so(void **state)
{
	struct smd_frame shrunk = {.kind = SMD_FRAME_SHRUNK, .comm = 1, .ordinal = 2};
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	places_shard_make(32, 2);
	one = worker_join(0, "group", 0);
	two = worker_join(1, "group", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	assert_int_equal(lane_live_places(one), 2);
	places_ask_for_windows();
	assert_int_equal(one->said[SMD_FRAME_SHRINK], 1);
	assert_int_equal(lane_live_places(one), 2);
	worker_say(one, shrunk, NULL, 0, false);
	assert_int_equal(lane_live_places(one), 1);
	assert_int_equal(lane_live_places(two), 2);
	bare_shard_end(&places_shard);
}

/* A result that leaves while ranks are asked grants an ordinal whose place is given back then: it
 * comes without one, and the next places are of those after it. */
static void what_is_granted_meanwhile_has_no_place(void **state)
{
	struct smd_frame shrunk = {.kind = SMD_FRAME_SHRUNK, .comm = 1, .ordinal = 2};
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	places_shard_make(64, 4);
	one = worker_join(0, "group", 0);
	two = worker_join(1, "group", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	places_ask_for_windows();
	worker_input(one, 0, 1, 1); /* these were on their way */
	worker_input(two, 1, 1, 2);
	worker_say(one, shrunk, NULL, 0, false);
	shrunk.rank = 1;
	worker_say(two, shrunk, NULL, 0, false);
	assert_int_equal(lane_live_places(one), 0);
	for (uint64_t ordinal = 2; ordinal < 13; ordinal++) { /* more than there are entries for */
		worker_input_plain(one, 0, ordinal, 1);
		worker_input_plain(two, 1, ordinal, 2);
	}
	bare_shard_end(&places_shard);
}

/* What is advertised with a result that leaves before SHRUNK is heard is taken by the worker in its
 * turn, whose card then writes there. */
static void what_is_advertised_meanwhile_stays(void **state)
{
	struct smd_frame shrunk = {.kind = SMD_FRAME_SHRUNK, .comm = 1, .ordinal = 3};
	struct played_lane *one;
	struct played_lane *two;
	const struct place *last;

	(void)state;
	places_shard_make(64, 2);
	one = worker_join(0, "group", 0);
	two = worker_join(1, "group", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	places_ask_for_windows();
	assert_int_equal(one->said[SMD_FRAME_SHRINK], 1);
	for (uint64_t ordinal = 1; ordinal < 3; ordinal++) { /* these were on their way */
		worker_input(one, 0, ordinal, 1);
		worker_input(two, 1, ordinal, 2);
	}
	last = &one->places[one->nplaces - 1];
	assert_true(last->live);
	worker_say(one, shrunk, NULL, 0, false);
	assert_true(last->live);
	shrunk.rank = 1;
	worker_say(two, shrunk, NULL, 0, false);
	worker_input(one, 0, 3, 5);
	worker_input(two, 1, 3, 6);
	lane_assert_result(one, 11);
	bare_shard_end(&places_shard);
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
		cmocka_unit_test(what_is_advertised_meanwhile_stays),
	};

	return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
