/*
 * Lanes that are closed while their queue pairs are with the maker, or are destroyed there: closing
 * waits for nothing, what is the owner's is the owner's again, and the loop's end takes all back.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/rdma/later.h"

#define LARGE 100000u

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

static void destroying_delays_no_other_lane(void **state)
{
	static const enum script_call_name names[] = {SCRIPT_pair_destroy, SCRIPT_region_destroy};
	struct link *link = *state;
	struct halves halves;
	struct end answering;
	struct half answer;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		later_open(link, &answer, &answering);
		slow_begin(names[i]);
		end_close(&later.end);
		assert_true(later.half.carrier.closed); /* which tells the other end */
		chunks_cross(link, names[i]);
		slow_end(names[i]);
		later_close(link);
		end_close(&answering);
		RUN_UNTIL(link, script.live == live);
		free(answering.room);
	}
	halves_close(&halves);
}

/* The other end may write there, */
static void lane_takes(struct later *one, struct parcel *parcel, uint8_t *remote)
{
	const struct smd_extent none = {NULL, 0};

	(void)parcel;
	(void)remote;
	assert_non_null(smd_lane_advertise(one->end.lane, one->end.room, LARGE, none));
}

/* or the card read from there. */
static void lane_gives(struct later *one, struct parcel *parcel, uint8_t *remote)
{
	const struct smd_remote_buffer there = {
		(uintptr_t)remote, script_expose(remote, LARGE), LARGE};

	script.carries = false;
	parcel_send_to(parcel, &one->end, 1, LARGE, there);
	smd_lane_poll(one->end.lane);
	script.carries = true;
	assert_int_equal(parcel->done, 0);
}

/* Its owner may use the memory for something else as soon as the lane is closed, so the queue pair
 * is gone by then. The lane's own buffers are nobody else's, and wait for the maker. */
static void what_is_the_owners_is_safe_when_closing_returns(void **state)
{
	static void (*const uses[])(struct later * one, struct parcel * parcel,
		uint8_t * remote) = {lane_takes, lane_gives};
	struct script_call *destroy = &script.calls[SCRIPT_pair_destroy];
	struct link *link = *state;
	struct halves halves;
	uint8_t *remote = calloc(1, LARGE);

	halves_open(&halves, link);
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		struct parcel parcel = {.payload = NULL};
		struct end answering;
		struct half answer;
		unsigned before;

		later_open(link, &answer, &answering);
		uses[i](&later, &parcel, remote);
		before = destroy->count;
		slow_begin(SCRIPT_region_destroy);
		end_close(&later.end);
		assert_int_equal(destroy->count, before + 1);
		assert_int_equal(parcel.done, i);
		chunks_cross(link, SCRIPT_region_destroy);
		slow_end(SCRIPT_region_destroy);
		later_close(link);
		end_close(&answering);
		parcels_free(&parcel, 1);
		free(answering.room);
	}
	halves_close(&halves);
	free(remote);
}

static void count_release(void *owner)
{
	++*(unsigned *)owner;
}

/* A shard's lane has others beside it, and its slots may come back when the card is through: until
 * then the other end may write there, and the card read. */
static void what_is_the_owners_comes_back_later_where_it_may(void **state)
{
	static void (*const uses[])(struct later * one, struct parcel * parcel,
		uint8_t * remote) = {lane_takes, lane_gives};
	struct link *link = *state;
	struct halves halves;
	uint8_t *remote = calloc(1, LARGE);

	halves_open(&halves, link);
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		struct parcel parcel = {.payload = NULL};
		struct end answering;
		struct half answer;
		unsigned released = 0;

		later_open(link, &answer, &answering);
		uses[i](&later, &parcel, remote);
		slow_begin(SCRIPT_pair_destroy);
		smd_lane_close_later(later.end.lane, count_release, &released);
		later.end.lane = NULL;
		assert_true(later.half.carrier.closed); /* which tells the other end */
		chunks_cross(link, SCRIPT_pair_destroy);
		assert_int_equal(parcel.done + (int)released, 0);
		slow_end(SCRIPT_pair_destroy);
		RUN_UNTIL(link, released);
		assert_int_equal(parcel.done, i);
		later_close(link);
		assert_int_equal(released, 1);
		end_close(&answering);
		parcels_free(&parcel, 1);
		free(answering.room);
	}
	halves_close(&halves);
	free(remote);
}

/* One that drains needs nothing of it, nor does one that was never there. */
static void what_no_card_uses_is_the_owners_at_once(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct parcel parcel;
	struct end answering;
	struct half answer;
	unsigned released = 0;

	halves_open(&halves, link);
	later_open(link, &answer, &answering);
	script.carries = false;
	parcel_send(&parcel, &later.end, 1, 100, NULL);
	smd_lane_close_later(later.end.lane, count_release, &released);
	later.end.lane = NULL;
	assert_int_equal(released, 1);
	script.carries = true;
	later_close(link);
	end_close(&answering);
	free(answering.room);
	slow_begin(SCRIPT_pair_create);
	assert_int_equal(later_offer(link, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_create));
	smd_lane_close_later(later.end.lane, count_release, &released);
	later.end.lane = NULL;
	slow_end(SCRIPT_pair_create);
	later_close(link);
	assert_int_equal(released, 2);
	parcels_free(&parcel, 1);
	halves_close(&halves);
}

/* Both are closed while somebody is in that call, and nothing is left of the loop. */
static void loop_ends_while(struct link *link, enum script_call_name name, struct halves *there)
{
	RUN_UNTIL(link, is_held(name));
	if (later.end.lane) {
		end_close(&later.end);
	}
	if (there) {
		halves_close(there);
	}
	slow_end(name);
	smd_transport_end_loop(link->base);
	assert_int_equal(script.live, 0);
	free(later.end.room);
}

static void the_loops_end_waits_for_what_is_destroyed(void **state)
{
	struct link *link = *state;

	forget_loop(link);
	later_make(link);
	slow_begin(SCRIPT_pair_destroy);
	end_close(&later.end);
	loop_ends_while(link, SCRIPT_pair_destroy, NULL);
}

static void a_carrier_that_ends_while_it_is_joined_ends_the_lane(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	unsigned live;

	halves_open(&halves, link);
	live = script.live;
	later_make(link);
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	carrier_end(&later.half, -ECONNRESET, "it has ended");
	end_assert_closed(&later.end, -ECONNRESET, "it has ended");
	end_close(&later.end);
	assert_true(later.half.carrier.closed);
	slow_end(SCRIPT_pair_join);
	RUN_UNTIL(link, script.live == live);
	assert_int_equal(later.end.opened, 0);
	later_close(link);
	halves_close(&halves);
}

/* Who is let in may write before the server has joined, and to a lane that is closed by then. */
static void who_closes_while_it_is_joined_hears_nothing_more(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;
	struct peer early;

	halves_open(&halves, link);
	later_make(link);
	early = (struct peer){.id = script_id_of_pair(later.half.lane->pair.qp),
		.theirs = smd_rdma_lane_greeting(later.half.lane)};
	slow_begin(SCRIPT_pair_join);
	assert_int_equal(half_join(&later.half, &halves.second, &error), 0);
	RUN_UNTIL(link, is_held(SCRIPT_pair_join));
	end_close(&later.end);
	peer_frame(&early, 1, 10);
	chunks_cross(link, SCRIPT_pair_join);
	assert_int_equal(later.end.headers + later.end.frames + later.end.closed, 0);
	slow_end(SCRIPT_pair_join);
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
	loop_ends_while(link, SCRIPT_pair_create, NULL);
}

static void the_loops_end_waits_for_ports_that_are_read(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct halves halves;

	forget_loop(link);
	halves_open(&halves, link);
	loop_age(&halves);
	slow_begin(SCRIPT_ports);
	assert_int_equal(later_offer(link, &error), 0);
	loop_ends_while(link, SCRIPT_ports, &halves);
}

/* A driver that does not return holds up no server's end: it is told, and what the driver still
 * uses stays, so that nothing happens when it does return. */
static void the_loops_end_does_not_wait_for_ever(void **state)
{
	static const struct {
		enum script_call_name name;
		const char *what;
	} calls[] = {
		{SCRIPT_pair_create, "make a queue pair"},
		{SCRIPT_pair_destroy, "destroy a queue pair"},
	};
	struct link *link = *state;

	forget_loop(link);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct smd_error error = {""};
		struct later other;

		capture_begin();
		later_make(link);
		slow_begin(calls[i].name);
		assert_int_equal(offer_one(&other, link, &error), 0);
		end_close(&later.end);
		RUN_UNTIL(link, is_held(calls[i].name));
		end_close(&other.end);
		later.loop->settings.connect_s = 0; /* which are over */
		smd_transport_end_loop(link->base);
		assert_true(is_held(calls[i].name));
		assert_true(script.live > 0);
		assert_int_equal(
			capture_count("error rdma: the driver has not returned within 0 s"), 1);
		assert_true(capture_has("when asked to", calls[i].what));
		capture_end();
		slow_end(calls[i].name);
		RUN_UNTIL(link, script.live == 0); /* the base is still there */
		free(later.end.room);
		free(other.end.room);
	}
}

static unsigned drains_stuck(const struct rdma_loop *loop)
{
	const struct rdma_drain *drain;
	unsigned n = 0;

	LIST_FOREACH (drain, &loop->stuck, link) {
		n++;
	}
	return n;
}

/* What the maker was through with before is handed back when it is given up, also the drain that
 * was just asked to end: only the ports that are read, and the lane behind them, stay. */
static void what_is_through_goes_though_the_maker_is_given_up(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct later first;
	struct later third;
	struct rdma_loop *loop;

	forget_loop(link);
	assert_int_equal(offer_one(&first, link, &error), 0);
	RUN_UNTIL(link, first.offered);
	later_make(link);
	loop = later.loop;
	slow_begin(SCRIPT_pair_destroy);
	end_close(&first.end);
	loop->ports_ns = 1; /* so they are read, */
	slow_begin(SCRIPT_ports);
	assert_int_equal(offer_one(&third, link, &error), 0);
	end_close(&third.end);
	end_close(&later.end); /* after both are destroyed */
	slow_end(SCRIPT_pair_destroy);
	while (!is_held(SCRIPT_ports)) { /* and nothing is handed back */
		sched_yield();
	}
	loop->settings.connect_s = 0;
	smd_transport_end_loop(link->base);
	assert_int_equal(drains_stuck(loop), 2);
	slow_end(SCRIPT_ports);
	RUN_UNTIL(link, script.live == 0); /* the base is still there */
	free(first.end.room);
	free(later.end.room);
	free(third.end.room);
}

#define STAGE(test) cmocka_unit_test_setup_teardown(test, stage_set_up, stage_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGE(closing_waits_for_no_call),
		STAGE(destroying_delays_no_other_lane),
		STAGE(what_is_the_owners_is_safe_when_closing_returns),
		STAGE(what_is_the_owners_comes_back_later_where_it_may),
		STAGE(what_no_card_uses_is_the_owners_at_once),
		STAGE(the_loops_end_waits_for_what_is_destroyed),
		STAGE(a_carrier_that_ends_while_it_is_joined_ends_the_lane),
		STAGE(who_closes_while_it_is_joined_hears_nothing_more),
		STAGE(the_loops_end_takes_all_back),
		STAGE(the_loops_end_waits_for_ports_that_are_read),
		STAGE(the_loops_end_does_not_wait_for_ever),
		STAGE(what_is_through_goes_though_the_maker_is_given_up),
	};

	return cmocka_run_group_tests_name("rdma unmaking", tests, NULL, NULL);
}
