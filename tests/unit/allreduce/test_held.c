/* What all ranks have: who is asked for it, how often, and who hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { NUMBER = 3, RANKS = 3 };

/* All that it has said before has been taken; of what it is told, nothing but that answer comes. */
static void is_told_no_more(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	assert_true(raw_receive(raw));
	assert_int_equal(raw->frame.kind, SMD_FRAME_PONG);
}

static void say_held(struct raw *raw, unsigned rank, unsigned what)
{
	raw_send(raw,
		(struct smd_frame){.kind = SMD_FRAME_HELD,
			.comm = NUMBER,
			.rank = (uint16_t)rank,
			.window = (uint16_t)what,
			.ordinal = 1},
		NULL, 0);
}

static void expect_held(struct raw *raw, unsigned what)
{
	raw_expect(raw, SMD_FRAME_HELD);
	assert_int_equal(raw->frame.window, what);
	assert_int_equal(raw->frame.ordinal, 1);
}

/* Each of n ranks that leave asks what all have: that must not be n questions to each. */
static void who_is_silent_is_asked_once(void **state)
{
	static const int32_t one = 1;
	struct raw lanes[RANKS];
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	for (unsigned r = 0; r < RANKS; r++) {
		raw_open(&lanes[r], &pool, 0);
		raw_greet(&lanes[r], "some");
		raw_join(&lanes[r], NUMBER, "held", RANKS, r);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&lanes[r], SMD_FRAME_JOINED);
		raw_send(&lanes[r], raw_input(NUMBER, r, 0, 1), &one, sizeof(one));
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&lanes[r], SMD_FRAME_RESULT);
	}
	say_held(&lanes[0], 0, SMD_HELD_ASKS_ALONE);
	is_told_no_more(&lanes[0]);
	expect_held(&lanes[1], SMD_HELD_ASKS_ALONE);
	say_held(&lanes[1], 1, SMD_HELD_ASKS_ALONE);
	is_told_no_more(&lanes[1]);
	expect_held(&lanes[2], SMD_HELD_ASKS_ALONE);
	is_told_no_more(&lanes[2]);
	say_held(&lanes[2], 2, SMD_HELD_ANSWERS);
	expect_held(&lanes[0], SMD_HELD_ASKS);
	expect_held(&lanes[1], SMD_HELD_ASKS);
	for (unsigned r = 0; r < RANKS; r++) {
		is_told_no_more(&lanes[r]);
		raw_leave(&lanes[r], NUMBER, r);
		raw_close(&lanes[r]);
	}
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_silent_is_asked_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
