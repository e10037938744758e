/*
 * A server that is asked to end: for how long it waits, for whom it does not, and what those hear
 * who had not ended in time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

#define OVER                                                                                       \
	"the reduction server was asked to end, and the group did not within 1 s "                 \
	"(--drain-timeout)"

static void who_does_not_end_in_time_is_told(void **state)
{
	const struct smd_server_config config = {.shards = 1, .drain_s = 1};
	struct pool pool;
	struct raw pair[2];

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&pair[r], &pool, 0);
		raw_greet(&pair[r], "worker");
		raw_join(&pair[r], 1, "long", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
	}
	pool_end_server(&pool, 0, 0);
	for (unsigned r = 0; r < 2; r++) {
		raw_expect_text(&pair[r], SMD_FRAME_ABORT, "group raw/long: " OVER);
		assert_int_equal(pair[r].payload[0], ESHUTDOWN);
		raw_expect_end(&pair[r]);
		raw_close(&pair[r]);
	}
	pool_stop(&pool);
}

/* A lane that says nothing, one in no group, and half a group. */
static void strangers_do_not_count(void **state)
{
	const struct smd_server_config config = {.shards = 1, .drain_s = 600, .greeting_s = 600};
	struct pool pool;
	struct raw mute;
	struct raw idle;
	struct raw half;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	raw_open(&mute, &pool, 0);
	raw_open(&idle, &pool, 0);
	raw_greet(&idle, "idle");
	raw_open(&half, &pool, 0);
	raw_greet(&half, "half");
	raw_join(&half, 1, "half", 2, 0);
	raw_send(&half, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	raw_expect(&half, SMD_FRAME_PONG);
	pool_end_server(&pool, 0, 0); /* or this takes ten minutes */
	raw_expect_text(&half, SMD_FRAME_ABORT, "the reduction server is being drained");
	raw_expect_end(&mute);
	raw_expect_end(&idle);
	raw_expect_end(&half);
	raw_close(&mute);
	raw_close(&idle);
	raw_close(&half);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_end_in_time_is_told),
		cmocka_unit_test(strangers_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
