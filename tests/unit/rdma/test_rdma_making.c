/*
 * Lanes whose queue pairs are made and joined beside the loop, as a shard's are: however long the
 * driver takes for each of its calls, another lane's frames come and go. How they end is in
 * test_rdma_unmaking.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/later.h"

/* ---- slow calls ---- */

static void no_call_delays_another_lane(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_ports, SCRIPT_query,
		SCRIPT_region_create, SCRIPT_pair_create, SCRIPT_pair_init};
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_open(&halves, link);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		loop_age(&halves);
		slow_begin(names[i]);
		assert_int_equal(later_offer(link, &error), 0);
		chunks_cross(link, names[i]);
		assert_int_equal(later.offered, 0);
		slow_end(names[i]);
		RUN_UNTIL(link, later.offered == 1);
		assert_int_equal(later.half.offer.length, SMD_RDMA_OFFER_SIZE);
		later_close(link);
	}
	halves_close(&halves);
}

/* Nor is it made for each: InfiniBand without IP addresses has nothing that an id could be bound to. */
static void what_is_known_of_a_card_is_not_asked_again(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_ports, SCRIPT_device_open, SCRIPT_query,
		SCRIPT_id_create, SCRIPT_bind};
	enum { NAMES = sizeof(names) / sizeof(names[0]) };
	struct script_call *bind = &script.calls[SCRIPT_bind];
	struct link *link = *state;
	unsigned before[NAMES];
	struct halves halves;

	forget_loop(link);
	bind->fail_at = 1;
	bind->err = -ENODEV;
	bind->always = true;
	halves_open(&halves, link);
	assert_true(bind->count > 0);
	for (int i = 0; i < NAMES; i++) {
		before[i] = script.calls[names[i]].count;
	}
	later_make(link);
	for (int i = 0; i < NAMES; i++) {
		assert_int_equal(script.calls[names[i]].count, before[i]);
	}
	later_close(link);
	halves_close(&halves);
}

/* The lane that comes first does not wait for it, and those that come afterwards know it. */
static void ports_are_read_anew_beside_lanes(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct halves halves;

	halves_open(&halves, link);
	loop = loop_age(&halves);
	script.limits.mtu = IBV_MTU_1024;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(later_offer(link, &error), 0);
		assert_int_equal(later.half.lane->path.port.mtu, i ? IBV_MTU_1024 : IBV_MTU_4096);
		RUN_UNTIL(link, later.offered == 1 && !loop->listing);
		later_close(link);
	}
	halves_close(&halves);
}

/* A port that is not there any more, or whose card is not open yet, is not guessed. */
static void a_port_that_is_not_in_use_is_not_taken_from_an_old_list(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct halves halves;

	halves_open(&halves, link);
	loop = loop_age(&halves);
	loop->ports[0].device = NULL;
	script.nports = 0;
	assert_int_equal(later_offer(link, &error), -ENETDOWN);
	free(later.end.room);
	loop->ports_ns = 1;
	script.nports = 1; /* it is up again */
	later_make(link);
	later_close(link);
	halves_close(&halves);
}

/* The card is in use as long as its ports are asked, and what was read before it went is not taken. */
static void a_card_that_is_removed_while_ports_are_read(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct rdma_loop *loop;
	struct halves halves;

	halves_open(&halves, link);
	loop = loop_age(&halves);
	slow_begin(SCRIPT_query);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_query));
	script_device_tell(IBV_EVENT_DEVICE_FATAL, NULL);
	RUN_UNTIL(link, later.end.closed == 1);
	halves_close(&halves);
	end_close(&later.end);
	stage_turn(link);
	assert_false(LIST_EMPTY(&loop->cards));
	slow_end(SCRIPT_query);
	RUN_UNTIL(link, LIST_EMPTY(&loop->cards));
	assert_int_equal(loop->ports_ns, 0);
	later_close(link);
	halves_open(&halves, link); /* it is there again */
	halves_close(&halves);
}

static void joining_delays_no_other_lane(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct end answering;
	struct half answer;
	struct parcel parcel;

	halves_open(&halves, link);
	later_answer(link, &answer, &answering);
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &answer, &error), 0);
	chunks_cross(link, SCRIPT_pair_join);
	assert_int_equal(later.end.opened, 0);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, later.end.opened == 1 && answering.opened == 1);
	parcel_send(&parcel, &answering, 3, 100000, NULL);
	RUN_UNTIL(link, later.end.frames == 1);
	end_assert_payload(&later.end);
	end_close(&answering);
	later_close(link);
	assert_true(later.half.carrier.closed);
	halves_close(&halves);
	parcels_free(&parcel, 1);
	free(answering.room);
}

/* ---- many at once ---- */

/* Hundreds of workers that come at once wait for each other, and none of them is too late by that.
 */
static void who_waits_for_others_is_not_timed(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct later second;

	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	assert_int_equal(offer_one(&second, link, &error), 0);
	for (int i = 0; i < 3; i++) {
		event_active(second.half.lane->patience, EV_TIMEOUT, 1);
		stage_turn(link);
		assert_int_equal(second.end.closed, 0);
		assert_true(evtimer_pending(second.half.lane->patience, NULL));
	}
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, later.offered == 1 && second.offered == 1);
	assert_true(evtimer_pending(second.half.lane->patience, NULL)); /* for the answer */
	event_active(second.half.lane->patience, EV_TIMEOUT, 1);
	RUN_UNTIL(link, second.end.closed);
	end_assert_closed(&second.end, -ETIMEDOUT, "no answer about RDMA within 7 s");
	close_one(&second, link);
	later_close(link);
}

/* Who has been made an offer counts the seconds from then on, so is not behind those who have none.
 */
static void joining_comes_before_making(void **state)
{
	const struct script_call *create = &script.calls[SCRIPT_pair_create];
	struct link *link = *state;
	struct smd_error error = {""};
	struct end answering;
	struct later others[2];
	struct half answer;
	unsigned created;

	later_answer(link, &answer, &answering);
	slow_begin(SCRIPT_pair_create);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(offer_one(&others[i], link, &error), 0);
	}
	RUN_UNTIL(link, is_held(SCRIPT_pair_create)); /* for the first of them */
	created = create->count;
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &answer, &error), 0);
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	assert_int_equal(create->count, created);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, later.end.opened == 1 && others[1].offered == 1);
	end_close(&answering);
	later_close(link);
	for (int i = 0; i < 2; i++) {
		close_one(&others[i], link);
	}
	free(answering.room);
}

static void nobody_waits_for_ever(void **state)
{
	const struct script_call *create = &script.calls[SCRIPT_pair_create];
	struct link *link = *state;
	struct smd_error error = {""};
	struct later behind;
	unsigned created;

	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	created = create->count;
	assert_int_equal(offer_one(&behind, link, &error), 0);
	later.loop->settings.connect_s =
		0; /* which are over as soon as the maker has taken it up, or one before it */
	event_active(later.half.lane->patience, EV_TIMEOUT, 1);
	event_active(behind.half.lane->patience, EV_TIMEOUT, 1);
	RUN_UNTIL(link, later.end.closed && behind.end.closed);
	end_assert_closed(&later.end, -ETIMEDOUT, "the device has made no queue pair within 0 s");
	end_assert_closed(&behind.end, -ETIMEDOUT, "the device has made no queue pair within 0 s");
	end_close(&behind.end); /* for whom nothing is made any more */
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, !later.half.lane->making.under_way);
	assert_int_equal(later.end.closed, 1);
	assert_int_equal(create->count, created);
	later_close(link);
	free(behind.end.room);
}

/* ---- calls that fail ---- */

static void what_cannot_be_made_is_told_later(void **state)
{
	static const struct {
		enum script_call_name name;
		const char *says;
	} calls[] = {
		{SCRIPT_region_create, "rdma: cannot register memory: "},
		{SCRIPT_pair_create, "rdma: cannot make a queue pair: "},
		{SCRIPT_pair_init, "rdma: cannot make a queue pair: "},
		{SCRIPT_post_receive, "rdma: cannot post receives: "},
	};
	struct link *link = *state;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct script_call *call = &script.calls[calls[i].name];
		struct smd_error error = {""};

		call->fail_at = call->count + 1;
		call->err = -EDQUOT;
		call->always = true;
		assert_int_equal(later_offer(link, &error), 0);
		RUN_UNTIL(link, later.end.closed == 1);
		assert_int_equal(later.end.err, -EDQUOT);
		assert_memory_equal(later.end.reason, calls[i].says, strlen(calls[i].says));
		assert_int_equal(later.offered, 0);
		call->fail_at = 0;
		call->always = false;
		later_close(link);
	}
}

static void what_cannot_be_joined_is_told_later(void **state)
{
	struct script_call *call = &script.calls[SCRIPT_pair_join];
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_open(&halves, link);
	later_make(link);
	call->fail_at = call->count + 1;
	call->err = -EINVAL;
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, later.end.closed == 1);
	end_assert_closed(&later.end, -EINVAL,
		"rdma: the queue pair on script0 cannot be connected: Invalid argument");
	later_close(link);
	assert_true(later.half.carrier.closed);
	halves_close(&halves);
}

/* A server goes on without RDMA where a setting is wrong, and workers ask it for a queue pair all
 * the same. */
static void where_a_setting_is_wrong_nothing_is_offered(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};

	forget_loop(link);
	setenv("SUMMAND_RDMA_BOUNCE", "much", 1);
	assert_int_equal(later_offer(link, &error), -EINVAL);
	assert_string_equal(
		error.text, "SUMMAND_RDMA_BOUNCE: must be a size like 64M, got \"much\"");
	unsetenv("SUMMAND_RDMA_BOUNCE");
	stage_turn(link);
	free(later.end.room);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(no_call_delays_another_lane),
		STAGE(what_is_known_of_a_card_is_not_asked_again),
		STAGE(ports_are_read_anew_beside_lanes),
		STAGE(a_port_that_is_not_in_use_is_not_taken_from_an_old_list),
		STAGE(a_card_that_is_removed_while_ports_are_read),
		STAGE(joining_delays_no_other_lane),
		STAGE(who_waits_for_others_is_not_timed),
		STAGE(joining_comes_before_making),
		STAGE(nobody_waits_for_ever),
		STAGE(what_cannot_be_made_is_told_later),
		STAGE(what_cannot_be_joined_is_told_later),
		STAGE(where_a_setting_is_wrong_nothing_is_offered),
	};

	return cmocka_run_group_tests_name("rdma making", tests, NULL, NULL);
}
