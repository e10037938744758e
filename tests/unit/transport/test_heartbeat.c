/*
 * When a silent lane is asked, when it is given up, and that whatever comes keeps it alive. The
 * clock is the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/heartbeat.h"

#define LIMIT     (15 * SMD_SECOND_NS)
#define QUESTIONS 10 /* in 14 s of it, looked at once a second */

static struct smd_lane lane;
static struct smd_heartbeat heartbeat;
static uint64_t now;

static int set_up(void **state)
{
	(void)state;
	now = 1000 * SMD_SECOND_NS;
	lane.counts.bytes_received = 77;
	lane.heard_ns = 0;
	smd_heartbeat_begin(&heartbeat, &lane, now);
	return 0;
}

/* Looks once in every second until so many have passed; how often it was time to ask. */
static unsigned asked_in(unsigned seconds)
{
	unsigned asked = 0;

	for (unsigned i = 0; i < seconds; i++) {
		enum smd_heartbeat_state seen;

		now += SMD_SECOND_NS;
		seen = smd_heartbeat_poll(&heartbeat, &lane, now, LIMIT);
		assert_int_not_equal(seen, SMD_HEARTBEAT_SILENT);
		asked += seen == SMD_HEARTBEAT_ASK;
	}
	return asked;
}

static void assert_silent_after(unsigned seconds)
{
	asked_in(seconds - 1);
	now += SMD_SECOND_NS;
	assert_int_equal(smd_heartbeat_poll(&heartbeat, &lane, now, LIMIT), SMD_HEARTBEAT_SILENT);
}

/* It cannot answer what waits behind results that it is taking. */
static void who_takes_what_is_sent_is_alive(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		lane.counts.bytes_sent += 100000;
		assert_int_equal(asked_in(1), 0);
	}
	assert_silent_after(15);
}

/* On a slow link buffers empty in larger steps than we look. */
static void so_is_who_takes_it_in_steps(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		lane.counts.bytes_sent += 1 << 20;
		assert_in_range(asked_in(7), 0, 3);
	}
}

/* The kernel of a stopped process takes that: what is done again when another server was lost. */
static void a_burst_is_no_sign_of_life(void **state)
{
	(void)state;
	asked_in(1);
	lane.counts.bytes_sent += 1 << 20;
	asked_in(1);
	lane.counts.bytes_sent += 1 << 20; /* some of it is seen at the next look */
	asked_in(10);
	lane.counts.bytes_sent += 4 << 20;
	asked_in(1);
	assert_silent_after(2);
}

/* What we ask with must not count as its life. */
static void questions_and_notices_are_no_sign_of_life(void **state)
{
	(void)state;
	lane.counts.bytes_sent += 3 * SMD_FRAME_SIZE + 600;
	assert_silent_after(15);
}

/* The other end may have stopped just after it had taken nearly as much as shows that it is alive: with the
 * questions that was enough in the end, and it was given up after twice the limit. */
static void what_was_sent_before_does_not_count_with_them(void **state)
{
	(void)state;
	lane.counts.bytes_sent += 4000;
	asked_in(1);
	for (int i = 0; i < 13; i++) {
		lane.counts.bytes_sent += asked_in(1) * SMD_FRAME_SIZE;
	}
	assert_silent_after(1);
}

static void silence_is_asked_about_and_then_is_the_end(void **state)
{
	(void)state;
	assert_int_equal(asked_in(4), 0);
	assert_int_equal(asked_in(1), 1);
	assert_silent_after(10);
}

/* What was asked while the link was away is lost: so that the last question leaves time for an answer
 * whenever it is back, but at the very end. */
static void it_is_asked_about_again_and_again(void **state)
{
	(void)state;
	assert_int_equal(asked_in(5), 1);
	assert_int_equal(asked_in(9), 9); /* at each look */
	assert_silent_after(1);
}

/* Also one that is no whole frame. */
static void a_single_byte_is_a_sign_of_life(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(asked_in(14), QUESTIONS);
		lane.counts.bytes_received++;
		assert_int_equal(asked_in(1), 0);
	}
	assert_int_equal(asked_in(14), QUESTIONS);
}

static void an_answer_is_asked_for_again_and_again(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(asked_in(5), 1);
		lane.counts.bytes_received += SMD_FRAME_SIZE;
		assert_int_equal(asked_in(1), 0);
	}
}

/* Who was stopped itself finds all its lanes silent, and must read before it judges. */
static void our_own_standstill_is_not_their_silence(void **state)
{
	(void)state;
	now += 3600 * SMD_SECOND_NS;
	assert_int_not_equal(
		smd_heartbeat_poll(&heartbeat, &lane, now, LIMIT), SMD_HEARTBEAT_SILENT);
	assert_int_equal(asked_in(5), 4); /* of which a part of the limit is gone */
	lane.counts.bytes_received++;
	assert_int_equal(asked_in(14), QUESTIONS - 1);
	assert_silent_after(2);
}

/* Not when it was looked at after that: so it is found out when the limit is over, by who looks then. */
static void silence_begins_with_the_last_byte(void **state)
{
	uint64_t heard = now + SMD_SECOND_NS / 10;

	(void)state;
	smd_lane_received(&lane, 1);
	assert_int_not_equal(lane.heard_ns, 0);
	lane.heard_ns = heard;
	asked_in(14);
	assert_int_equal(smd_heartbeat_left_ns(&heartbeat, LIMIT), heard + LIMIT - now);
	now = heard + LIMIT;
	assert_int_equal(smd_heartbeat_poll(&heartbeat, &lane, now, LIMIT), SMD_HEARTBEAT_SILENT);
	assert_int_equal(smd_heartbeat_left_ns(&heartbeat, LIMIT), 0);
}

/* The time in which we stood still counts no more than before. */
static void what_came_before_our_own_standstill_is_not_their_silence(void **state)
{
	(void)state;
	smd_lane_received(&lane, 1);
	lane.heard_ns = now;
	now += 3600 * SMD_SECOND_NS;
	assert_int_equal(smd_heartbeat_poll(&heartbeat, &lane, now, LIMIT), SMD_HEARTBEAT_ALIVE);
	assert_int_equal(smd_heartbeat_left_ns(&heartbeat, LIMIT), LIMIT - LIMIT / 4);
}

static void a_small_limit_is_looked_at_more_often(void **state)
{
	(void)state;
	assert_int_equal(smd_heartbeat_period_ms(500), 41);
	assert_int_equal(smd_heartbeat_period_ms(1000), 83);
	assert_int_equal(smd_heartbeat_period_ms(6000), 500);
	assert_int_equal(smd_heartbeat_period_ms(15000), 1000);
	assert_int_equal(smd_heartbeat_period_ms(SMD_HEARTBEAT_LIMIT_MOST_MS), 1000);
}

static void a_limit_is_told_in_seconds(void **state)
{
	char text[SMD_HEARTBEAT_TEXT_MAX];

	(void)state;
	assert_string_equal(smd_heartbeat_text(15000, text), "15 s");
	assert_string_equal(smd_heartbeat_text(500, text), "0.5 s");
	assert_string_equal(smd_heartbeat_text(1050, text), "1.05 s");
	assert_string_equal(smd_heartbeat_text(1001, text), "1.001 s");
	assert_string_equal(smd_heartbeat_text(SMD_HEARTBEAT_LIMIT_MOST_MS, text), "86400 s");
	assert_string_equal(smd_heartbeat_text(4294967295u, text), "4294967.295 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_takes_what_is_sent_is_alive, set_up),
		cmocka_unit_test_setup(so_is_who_takes_it_in_steps, set_up),
		cmocka_unit_test_setup(a_burst_is_no_sign_of_life, set_up),
		cmocka_unit_test_setup(questions_and_notices_are_no_sign_of_life, set_up),
		cmocka_unit_test_setup(what_was_sent_before_does_not_count_with_them, set_up),
		cmocka_unit_test_setup(silence_is_asked_about_and_then_is_the_end, set_up),
		cmocka_unit_test_setup(it_is_asked_about_again_and_again, set_up),
		cmocka_unit_test_setup(a_single_byte_is_a_sign_of_life, set_up),
		cmocka_unit_test_setup(an_answer_is_asked_for_again_and_again, set_up),
		cmocka_unit_test_setup(our_own_standstill_is_not_their_silence, set_up),
		cmocka_unit_test(silence_begins_with_the_last_byte),
		cmocka_unit_test(what_came_before_our_own_standstill_is_not_their_silence),
		cmocka_unit_test(a_small_limit_is_looked_at_more_often),
		cmocka_unit_test(a_limit_is_told_in_seconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
