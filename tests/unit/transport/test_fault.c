/*
 * The harm that the fault transport does: late and halved frames still arrive whole and in order,
 * lanes are cut where they shall be, and those that stall stay open.
 */
#include "tests/unit/transport/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/transport/testing/fault.h"

enum { FRAMES = 40 };

static const uint32_t lengths[] = {0, 1, 63, 64, 65, 127, 4096, 65536, 100000};
#define NLENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void harm(const char *items)
{
	struct smd_error error = {""};

	assert_int_equal(smd_fault_configure(items, &error), 0);
}

static int tear_down(void **state)
{
	harm("");
	return link_tear_down(state);
}

static void check_next(struct end *end)
{
	assert_int_equal(end->frame.ordinal, end->frames - 1);
	end_assert_payload(end);
}

static void send_all(struct link *link, struct parcel parcels[FRAMES])
{
	link->far.then = check_next;
	for (unsigned i = 0; i < FRAMES; i++) {
		parcel_send(&parcels[i], &link->near, i, lengths[i % NLENGTHS], NULL);
	}
}

static void assert_done_once(const struct parcel parcels[FRAMES])
{
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].done, 1);
	}
}

static void frames_arrive(struct link *link, const char *items)
{
	struct parcel parcels[FRAMES];

	harm(items);
	link_open(link);
	send_all(link, parcels);
	RUN_UNTIL(link, link->far.frames == FRAMES && parcels_done == FRAMES);
	assert_done_once(parcels);
	for (unsigned i = 0; i < FRAMES; i++) {
		assert_int_equal(parcels[i].err, 0);
	}
	assert_int_equal(link->near.lane->counts.bytes_sent, link->far.lane->counts.bytes_received);
	parcels_free(parcels, FRAMES);
}

static void late_frames_arrive_in_order(void **state)
{
	frames_arrive(*state, "delay=0..5ms,seed=42");
}

static void frames_in_two_parts_arrive_whole(void **state)
{
	frames_arrive(*state, "short,seed=1");
}

static void late_frames_in_two_parts_arrive_too(void **state)
{
	frames_arrive(*state, "delay=1..3ms,short,seed=2");
}

/* Behind each other: ten frames of 1000 bytes take some 85 ms at 1 Mbit/s. */
static void a_lane_carries_what_its_rate_lets_it(void **state)
{
	enum { BYTES = 1000, SOME = 10 };
	struct link *link = *state;
	struct parcel parcels[SOME];
	uint64_t wire_ns = (uint64_t)SOME * (BYTES + SMD_FRAME_SIZE) * 8000;
	uint64_t began_ns;

	harm("rate=1..1mbit");
	link_open(link);
	link->far.then = check_next;
	began_ns = smd_clock_ns();
	for (unsigned i = 0; i < SOME; i++) {
		parcel_send(&parcels[i], &link->near, i, BYTES, NULL);
	}
	RUN_UNTIL(link, link->far.frames == SOME && parcels_done == SOME);
	assert_true(smd_clock_ns() - began_ns >= wire_ns);
	parcels_free(parcels, SOME);
}

/* Each lane has a delay of its own, so what was sent first need not come first. */
static void check_overtaking(struct link *link, const char *transport)
{
	enum { ROUNDS = 200 };
	void *other_state = (void *)transport;
	struct link *other;
	unsigned overtaken = 0;

	assert_int_equal(link_set_up(&other_state), 0);
	other = other_state;
	harm("delay=0..4ms,seed=7");
	link_open(link);
	link_open(other);
	for (unsigned i = 0; i < ROUNDS && !overtaken; i++) {
		struct parcel parcels[2];
		unsigned done = parcels_done;

		parcel_send(&parcels[0], &link->near, i, 10, NULL);
		parcel_send(&parcels[1], &other->near, i, 10, NULL);
		while (parcels_done < done + 2) {
			event_base_loop(link->base, EVLOOP_NONBLOCK);
			event_base_loop(other->base, EVLOOP_NONBLOCK);
		}
		overtaken += parcels[1].place < parcels[0].place;
		parcels_free(parcels, 2);
	}
	assert_true(overtaken > 0);
	link_tear_down(&other_state);
}

static void frames_of_two_lanes_overtake_each_other(void **state)
{
	check_overtaking(*state, "fault over tcp");
}

/* ---- cuts ---- */

static void a_lane_is_cut_between_frames(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];

	harm("kill-after=7");
	link_open(link);
	send_all(link, parcels);
	RUN_UNTIL(link, link->near.closed && link->far.closed && parcels_done == FRAMES);
	assert_int_equal(link->near.closed, 1);
	assert_int_equal(link->near.err, -ECONNRESET);
	assert_string_equal(link->near.reason, "the lane was cut between frames");
	assert_int_equal(link->far.frames, 7);
	assert_int_equal(link->far.headers, 7);
	assert_int_equal(link->far.err, -ECONNRESET);
	assert_done_once(parcels);
	assert_int_equal(parcels[7].err, -ECANCELED);
	parcels_free(parcels, FRAMES);
}

/* Every byte of the second frame is a place where a lane may be cut. */
static void a_lane_is_cut_after_so_many_bytes(void **state)
{
	enum { LENGTH = 100, SIZE = SMD_FRAME_SIZE + LENGTH };
	struct link *link = *state;
	char items[32];
	struct parcel parcels[3];

	for (unsigned at = SIZE; at <= 2 * SIZE; at += 4) {
		memset(parcels, 0, sizeof(parcels));
		parcels_done = 0;
		link->near = (struct end){
			.base = link->base, .room = link->near.room, .close_at = ON_CLOSED};
		link->far = (struct end){
			.base = link->base, .room = link->far.room, .close_at = ON_CLOSED};
		snprintf(items, sizeof(items), "lane=0,drop-after=%u", at);
		harm(items);
		link_open(link);
		for (unsigned i = 0; i < 3; i++) {
			parcel_send(&parcels[i], &link->near, i, LENGTH, NULL);
		}
		RUN_UNTIL(link, link->near.closed && link->far.closed && parcels_done == 3);
		assert_int_equal(link->far.frames, at == 2 * SIZE ? 2 : 1);
		assert_int_equal(link->far.headers, at < SIZE + SMD_FRAME_SIZE ? 1 : 2);
		assert_int_equal(parcels[0].err, 0);
		assert_int_equal(parcels[1].err, at == 2 * SIZE ? 0 : -ECANCELED);
		assert_int_equal(parcels[2].err, -ECANCELED);
		parcels_free(parcels, 3);
	}
}

static void a_lane_that_stalls_stays_open(void **state)
{
	struct link *link = *state;
	struct parcel parcels[FRAMES];
	struct parcel answer;

	harm("lane=0,stall-after=5");
	link_open(link);
	send_all(link, parcels);
	RUN_UNTIL(link, link->far.frames == 5);
	link_run_on(link);
	assert_int_equal(link->far.frames, 5);
	assert_int_equal(parcels_done, 5);
	parcel_send(&answer, &link->far, 0, 100, NULL); /* it still hears */
	RUN_UNTIL(link, link->near.frames == 1);
	assert_int_equal(link->near.closed + link->far.closed, 0);
	end_close(&link->near);
	assert_done_once(parcels);
	assert_int_equal(parcels[5].err, -ECANCELED);
	parcels_free(parcels, FRAMES);
	parcels_free(&answer, 1);
}

/* ---- what it is told ---- */

static void another_lane_is_left_alone(void **state)
{
	frames_arrive(*state, "lane=2,kill-after=1");
}

static void late_frames_can_be_cancelled(void **state)
{
	struct link *link = *state;
	struct parcel parcels[4];
	int one;
	int other;

	harm("delay=50..50ms");
	link_open(link);
	for (unsigned i = 0; i < 4; i++) {
		parcel_send(&parcels[i], &link->near, i, 100, i % 2 ? &one : &other);
	}
	smd_lane_cancel(link->near.lane, &one);
	assert_int_equal(parcels_done, 2);
	assert_int_equal(parcels[1].err, -ECANCELED);
	assert_int_equal(parcels[3].err, -ECANCELED);
	RUN_UNTIL(link, link->far.frames == 2 && parcels_done == 4);
	assert_int_equal(parcels[2].err, 0);
	parcels_free(parcels, 4);
}

/* Late is not lost. */
static void late_frames_leave_before_a_close(void **state)
{
	struct link *link = *state;
	struct parcel parcels[3];

	harm("lane=0,delay=5000..5000ms");
	link_open(link);
	link->far.then = check_next;
	for (unsigned i = 0; i < 3; i++) {
		parcel_send(&parcels[i], &link->near, i, 1000, NULL);
	}
	assert_int_equal(parcels_done, 0);
	end_close(&link->near);
	RUN_UNTIL(link, link->far.closed);
	assert_int_equal(link->far.frames, 3);
	assert_int_equal(parcels_done, 3);
	parcels_free(parcels, 3);
}

static void items_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {"fast", "delay=5ms", "delay=5..1ms", "delay=1..2s",
		"rate=5mbit", "rate=0..5mbit", "rate=5..1mbit", "rate=1..2gbit", "seed=", "seed=x",
		"kill-after=-1", "drop-after=1k", "lane=1 ", "short,slow"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct smd_error error = {""};

		assert_int_equal(smd_fault_configure(wrong[i], &error), -EINVAL);
		assert_non_null(
			strstr(error.text, "fault: must be delay=A..Bms, rate=A..Bmbit, short, "));
	}
	harm("delay=0..0ms,rate=1..1mbit,short,drop-after=0,kill-after=0,stall-after=0,lane=0,seed="
	     "0,");
	harm("");
}

static void the_environment_says_it_when_nobody_else_does(void **state)
{
	struct link *link = *state;
	struct smd_error error = {""};
	struct smd_lane *lane;

	harm(NULL);
	setenv("SUMMAND_FAULT", "nonsense", 1);
	assert_int_equal(link->transport->connect(link->base, link->address, NULL, 0,
				 &link_callbacks, &link->near, &lane, &error),
		-EINVAL);
	assert_non_null(strstr(error.text, "got \"nonsense\""));
	unsetenv("SUMMAND_FAULT");
	frames_arrive(link, NULL);
}

int main(void)
{
#define FAULT_TEST(name, transport)                                                                \
	{                                                                                          \
		transport ": " #name, name, link_set_up, tear_down, (void *)(transport)            \
	}
	const struct CMUnitTest tests[] = {
		FAULT_TEST(late_frames_arrive_in_order, "fault"),
		FAULT_TEST(late_frames_arrive_in_order, "fault over tcp"),
		FAULT_TEST(frames_in_two_parts_arrive_whole, "fault"),
		FAULT_TEST(frames_in_two_parts_arrive_whole, "fault over tcp"),
		FAULT_TEST(late_frames_in_two_parts_arrive_too, "fault over tcp"),
		FAULT_TEST(a_lane_carries_what_its_rate_lets_it, "fault"),
		FAULT_TEST(a_lane_carries_what_its_rate_lets_it, "fault over tcp"),
		FAULT_TEST(frames_of_two_lanes_overtake_each_other, "fault over tcp"),
		FAULT_TEST(a_lane_is_cut_between_frames, "fault"),
		FAULT_TEST(a_lane_is_cut_between_frames, "fault over tcp"),
		FAULT_TEST(a_lane_is_cut_after_so_many_bytes, "fault over tcp"),
		FAULT_TEST(a_lane_that_stalls_stays_open, "fault"),
		FAULT_TEST(a_lane_that_stalls_stays_open, "fault over tcp"),
		FAULT_TEST(another_lane_is_left_alone, "fault"),
		FAULT_TEST(late_frames_can_be_cancelled, "fault"),
		FAULT_TEST(late_frames_can_be_cancelled, "fault over tcp"),
		FAULT_TEST(late_frames_leave_before_a_close, "fault"),
		FAULT_TEST(late_frames_leave_before_a_close, "fault over tcp"),
		cmocka_unit_test(items_that_are_none_are_refused),
		FAULT_TEST(the_environment_says_it_when_nobody_else_does, "fault"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
