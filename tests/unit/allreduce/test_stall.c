/* When a shard that answers is taken for one that does nothing, and what is never taken for it. */
#include "worker/libsummand/stall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LIMIT 100u
#define STEP  10u

static uint64_t now;

static enum smd_stall_state look(struct smd_stall *stall, bool owed)
{
	enum smd_stall_state state;

	now += STEP;
	state = smd_stall_poll(stall, owed, now, LIMIT);
	stall->asked += state == SMD_STALL_ASKED || state == SMD_STALL_LAST;
	return state;
}

/* Up to the last question, all others being answered. */
static void wait_for_the_last_question(struct smd_stall *stall)
{
	assert_int_equal(look(stall, true), SMD_STALL_ASKED);
	stall->answered++;
	assert_int_equal(look(stall, true), SMD_STALL_NONE);
	for (unsigned passed = STEP; passed < LIMIT; passed += STEP) {
		assert_int_equal(look(stall, true), SMD_STALL_NONE);
	}
	assert_int_equal(look(stall, true), SMD_STALL_LAST);
}

static void who_only_answers_is_given_up(void **state)
{
	struct smd_stall stall = {.looked_ns = now};

	(void)state;
	wait_for_the_last_question(&stall);
	assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	stall.answered++;
	assert_int_equal(look(&stall, true), SMD_STALL_OVER);
}

static void who_owes_nothing_may_be_quiet(void **state)
{
	struct smd_stall stall = {.looked_ns = now};

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(look(&stall, false), SMD_STALL_NONE);
	}
}

/* The part is still on its way there: no answer to what was asked behind it. */
static void a_slow_way_there_does_not_count(void **state)
{
	struct smd_stall stall = {.looked_ns = now, .asked = 3, .answered = 3};

	(void)state;
	assert_int_equal(look(&stall, true), SMD_STALL_ASKED);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	}
	stall.answered++;
	assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	assert_int_equal(stall.state, SMD_STALL_COUNTING);
}

/* What it said is still on its way here, before the answer. */
static void a_slow_way_back_does_not_count(void **state)
{
	struct smd_stall stall = {.looked_ns = now};

	(void)state;
	wait_for_the_last_question(&stall);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	}
	stall.frames++;
	stall.answered++;
	assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	assert_int_equal(stall.state, SMD_STALL_NONE);
}

static void a_frame_that_is_coming_in_is_work(void **state)
{
	struct smd_stall stall = {.looked_ns = now};

	(void)state;
	wait_for_the_last_question(&stall);
	stall.busy = true;
	stall.answered++;
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	}
}

/* Any frame: a result of another communicator, or who is late. */
static void who_says_something_now_and_then_is_kept(void **state)
{
	struct smd_stall stall = {.looked_ns = now};

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		wait_for_the_last_question(&stall);
		stall.frames++;
		stall.answered++;
		assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	}
}

/* A process that was stopped has not looked. */
static void our_own_pause_does_not_count(void **state)
{
	struct smd_stall stall = {.looked_ns = now};

	(void)state;
	assert_int_equal(look(&stall, true), SMD_STALL_ASKED);
	stall.answered++;
	assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	now += 1000 * LIMIT;
	assert_int_equal(look(&stall, true), SMD_STALL_NONE);
	assert_int_equal(stall.state, SMD_STALL_COUNTING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_only_answers_is_given_up),
		cmocka_unit_test(who_owes_nothing_may_be_quiet),
		cmocka_unit_test(a_slow_way_there_does_not_count),
		cmocka_unit_test(a_slow_way_back_does_not_count),
		cmocka_unit_test(a_frame_that_is_coming_in_is_work),
		cmocka_unit_test(who_says_something_now_and_then_is_kept),
		cmocka_unit_test(our_own_pause_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
