/*
 * Places with memory windows: a shard uses none of them for anything else before its card has taken
 * the key back, whatever the worker says.
 */
#include <errno.h>
#include <string.h>

#include "tests/unit/engine/places.h"
#include "worker/summand.h"

/* Its card takes a while to take the key back, and the worker may lie when it says that it leaves.
 */
static void a_place_with_a_window_comes_back_when_that_is_closed(void **state)
{
	struct played_lane *liar;
	struct played_lane *other;
	struct played_lane *one;
	struct played_lane *two;
	void *memory;

	(void)state;
	places_shard_make(3, 1); /* for one group, and no buffer more */
	liar = worker_join_over(&windowed_transport, 0, "first", 0);
	other = worker_join(1, "first", 1);
	memory = lane_first_live(liar)->memory;
	worker_leave(liar, 0);
	worker_leave(other, 1);
	assert_int_equal(liar->said[SMD_FRAME_LEFT], 1);
	assert_int_equal(places_shard.resources.pool.reserved, 1);
	one = worker_join(2, "second", 0);
	two = worker_join(3, "second", 1);
	assert_true(smd_server_comms_retry(&places_shard.comms)); /* it waits, and is not refused */
	elements_fill(memory, 0x5a5a5a5a);
	assert_false(place_is_free(memory));
	lane_take_back(liar);
	assert_false(smd_server_comms_retry(&places_shard.comms));
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	lane_assert_result(one, 3);
	bare_shard_end(&places_shard);
}

static void a_place_with_a_window_comes_back_with_its_lane(void **state)
{
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	places_shard_make(3, 1);
	one = worker_join_over(&windowed_transport, 0, "first", 0);
	two = worker_join(1, "first", 1);
	worker_leave(one, 0);
	worker_leave(two, 1);
	one->callbacks->on_closed(one->owner, -ECONNRESET, "gone");
	assert_int_equal(places_shard.resources.pool.reserved, 0);
	assert_int_equal(places_shard.resources.pool.nfree, 3);
	assert_int_equal(places_shard.resources.parting, 0);
	bare_shard_end(&places_shard);
}

/* Whether its payload is there or comes in messages. */
static void a_part_gives_the_key_of_its_place_back(void **state)
{
	(void)state;
	for (int direct = 0; direct < 2; direct++) {
		struct smd_frame input = {.kind = SMD_FRAME_INPUT,
			.dtype = SMD_INT32,
			.op = SMD_SUM,
			.comm = 1,
			.count = ELEMENTS,
			.length = CHUNK};
		struct smd_error error = {""};
		struct played_lane *lane;
		void *to;

		places_shard_make(6, 1);
		lane = worker_join_over(&windowed_transport, 0, "group", 0);
		worker_join_over(&windowed_transport, 1, "group", 1);
		lane->lane.direct = direct;
		assert_int_equal(
			lane->callbacks->on_header(lane->owner, &input, &to, &error), -EPROTO);
		assert_string_equal(error.text,
			"INPUT: must give back the memory window of its buffer, got ordinal 0 "
			"without");
		lane->lane.direct = false;
		bare_shard_end(&places_shard);
	}
}

/* A place could be had back only when its key has been taken, and ranks wait for what they have. */
static void a_window_with_such_places_is_kept(void **state)
{
	struct played_lane *one;
	struct played_lane *two;

	(void)state;
	places_shard_make(32, 2);
	one = worker_join_over(&windowed_transport, 0, "group", 0);
	two = worker_join(1, "group", 1);
	worker_input(one, 0, 0, 1);
	worker_input(two, 1, 0, 2);
	places_ask_for_windows();
	assert_int_equal(one->said[SMD_FRAME_SHRINK], 0);
	bare_shard_end(&places_shard);
}

/* Nor behind what another rank of it, which has no card, has sent there. */
static void a_short_part_hides_nothing_of_another_job(void **state)
{
	struct smd_frame input = {
		.kind = SMD_FRAME_INPUT, .dtype = SMD_INT32, .op = SMD_SUM, .comm = 1, .count = 1};
	struct played_lane *one;
	struct played_lane *two;
	const int32_t *left;
	int32_t element = 7;

	(void)state;
	places_shard_make(3, 1);
	one = worker_join_over(&windowed_transport, 0, "first", 0);
	two = worker_join_over(&windowed_transport, 1, "first", 1);
	left = lane_first_live(one)->memory;
	elements_fill(lane_first_live(one)->memory, 42);
	worker_leave(one, 0);
	worker_leave(two, 1);
	lane_take_back(two);
	lane_take_back(one);
	places_job = "other";
	one = worker_join_over(&plain_transport, 2, "second", 0);
	two = worker_join_over(&plain_transport, 3, "second", 1);
	worker_say(one, input, &element, sizeof(element), false);
	input.rank = 1;
	worker_say(two, input, &element, sizeof(element), false);
	assert_int_equal(left[ELEMENTS - 1], 42); /* as nobody has asked for it to go */
	input.rank = 0;
	worker_leave(one, 0);
	worker_leave(two, 1);
	worker_join_over(&windowed_transport, 4, "third", 0);
	worker_join_over(&windowed_transport, 5, "third", 1);
	assert_int_equal(left[ELEMENTS - 1], 0);
	bare_shard_end(&places_shard);
}

/* It could ask for the sum of what it has not written. */
static void a_job_finds_nothing_of_another_in_its_places(void **state)
{
	struct played_lane *one;
	struct played_lane *two;
	const int32_t *left;

	(void)state;
	for (int others = 0; others < 2; others++) {
		places_shard_make(3, 1);
		one = worker_join_over(&windowed_transport, 0, "first", 0);
		two = worker_join_over(&windowed_transport, 1, "first", 1);
		left = lane_first_live(one)->memory;
		elements_fill(lane_first_live(one)->memory, 42);
		worker_leave(one, 0);
		worker_leave(two, 1);
		lane_take_back(one);
		lane_take_back(two);
		places_job = others ? "other" : "job";
		worker_join_over(&windowed_transport, 2, "second", 0);
		worker_join_over(&windowed_transport, 3, "second", 1);
		for (unsigned i = 0; i < ELEMENTS; i++) {
			assert_int_equal(left[i], others ? 0 : 42);
		}
		bare_shard_end(&places_shard);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_with_a_window_comes_back_when_that_is_closed),
		cmocka_unit_test(a_place_with_a_window_comes_back_with_its_lane),
		cmocka_unit_test(a_part_gives_the_key_of_its_place_back),
		cmocka_unit_test(a_window_with_such_places_is_kept),
		cmocka_unit_test(a_job_finds_nothing_of_another_in_its_places),
		cmocka_unit_test(a_short_part_hides_nothing_of_another_job),
	};

	return cmocka_run_group_tests_name("held places", tests, NULL, NULL);
}
