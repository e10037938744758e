/*
 * Lanes whose queue pairs are made beside the loop, as a shard's are: however long the driver takes
 * for each of its calls, another lane's frames come and go, and closing waits for nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rdma/halves.h"

/* A half that is made later, beside two that are joined. */
struct later {
	struct end end;
	struct half half;
	unsigned offered;
};
static struct later later;

static void later_on_offered(void *owner, const struct smd_offer *own)
{
	assert_ptr_equal(owner, &later.end);
	later.offered++;
	later.half.offer = *own;
}

static const struct smd_lane_callbacks *later_callbacks(void)
{
	static struct smd_lane_callbacks callbacks;

	callbacks = link_callbacks;
	callbacks.on_offered = later_on_offered;
	return &callbacks;
}

static int later_offer(struct link *link, struct smd_error *error)
{
	struct smd_offer none;
	int ret;

	later = (struct later){.end = {.room = malloc(ROOM)}};
	half_begin(&later.half, link, &later.end);
	ret = smd_transport_rdma.offer(link->base, &later.half.carrier.lane, 5, NULL,
		later_callbacks(), &later.end, &later.end.lane, &none, error);
	later.half.lane = ret ? NULL : rdma_lane_of(later.end.lane);
	return ret;
}

static void later_close(struct link *link)
{
	if (later.end.lane) {
		end_close(&later.end);
	}
	stage_turn(link);
	free(later.end.room);
	later.end.room = NULL;
}

static void slow_begin(enum script_call_name name)
{
	atomic_store(&script.calls[name].slow, true);
}

static void slow_end(enum script_call_name name)
{
	atomic_store(&script.calls[name].slow, false);
}

static bool is_held(enum script_call_name name)
{
	return atomic_load(&script.calls[name].held);
}

/* A chunk crosses the lane that is there, both ways, while that call is not through. */
static void chunks_cross(struct link *link, enum script_call_name name)
{
	unsigned near = link->near.frames;
	unsigned far = link->far.frames;
	struct parcel parcels[2];

	RUN_UNTIL(link, is_held(name));
	parcel_send(&parcels[0], &link->near, 1, 100000, NULL);
	parcel_send(&parcels[1], &link->far, 2, 100000, NULL);
	RUN_UNTIL(link, link->near.frames == near + 1 && link->far.frames == far + 1);
	assert_true(is_held(name));
	parcels_free(parcels, 2);
}

/* ---- slow calls ---- */

static void no_call_delays_another_lane(void **state)
{
	static const enum script_call_name names[] = {
		SCRIPT_region_create, SCRIPT_pair_create, SCRIPT_pair_init};
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_open(&halves, link);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
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

/* The other end of the lane that is made later answers at once, as a worker does. */
static void joining_delays_no_other_lane(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct end answering = {.base = link->base, .room = malloc(ROOM)};
	struct half answer;
	struct parcel parcel;

	halves_open(&halves, link);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	half_begin(&answer, link, &answering);
	assert_int_equal(half_offer(&answer, link, &later.half.offer, &error), 0);
	assert_int_equal(half_join(&answer, &later.half, &error), 0);
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

/* ---- closing ---- */

static void closing_waits_for_no_call(void **state)
{
	static const enum script_call_name names[] = {
		SCRIPT_region_create, SCRIPT_pair_create, SCRIPT_pair_init};
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		slow_begin(names[i]);
		assert_int_equal(later_offer(link, &error), 0);
		RUN_UNTIL(link, is_held(names[i]));
		end_close(&later.end);
		assert_true(is_held(names[i]));
		chunks_cross(link, names[i]);
		slow_end(names[i]);
		RUN_UNTIL(link, LIST_EMPTY(&halves.first.lane->loop->drains));
		assert_int_equal(script.live, live);
		assert_int_equal(later.offered + later.end.closed, 0);
		later_close(link);
	}
	halves_close(&halves);
}

static void a_carrier_that_ends_while_it_is_joined_ends_the_lane(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	carrier_end(&later.half);
	end_assert_closed(&later.end, -ECONNRESET, "the other end closed the connection");
	end_close(&later.end);
	assert_true(later.half.carrier.closed);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, script.live == live);
	assert_int_equal(later.end.opened, 0);
	later_close(link);
	halves_close(&halves);
}

/* Who frees the loop waits, as nobody would take back later what is made. */
static void the_loops_end_takes_all_back(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};

	forget_loop(link);
	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	end_close(&later.end);
	slow_end(SCRIPT_pair_create);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
	free(later.end.room);
}

static void nobody_waits_for_ever(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};

	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	event_active(later.half.lane->patience, EV_TIMEOUT, 1);
	RUN_UNTIL(link, later.end.closed);
	assert_int_equal(later.end.err, -ETIMEDOUT);
	slow_end(SCRIPT_pair_create);
	RUN_UNTIL(link, !later.half.lane->making.under_way);
	assert_int_equal(later.end.closed, 1);
	end_close(&later.end);
	stage_turn(link);
	free(later.end.room);
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
		end_close(&later.end);
		stage_turn(link);
		free(later.end.room);
	}
}

static void what_cannot_be_joined_is_told_later(void **state)
{
	struct script_call *call = &script.calls[SCRIPT_pair_join];
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	halves_open(&halves, link);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, later.offered == 1);
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

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(no_call_delays_another_lane),
		STAGE(joining_delays_no_other_lane),
		STAGE(closing_waits_for_no_call),
		STAGE(a_carrier_that_ends_while_it_is_joined_ends_the_lane),
		STAGE(the_loops_end_takes_all_back),
		STAGE(nobody_waits_for_ever),
		STAGE(what_cannot_be_made_is_told_later),
		STAGE(what_cannot_be_joined_is_told_later),
	};

	return cmocka_run_group_tests_name("rdma making", tests, NULL, NULL);
}
