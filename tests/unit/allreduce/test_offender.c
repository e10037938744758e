/*
 * A worker that breaks a rule while megabytes of it are on their way: it gets the reason that the
 * others get, and what the server does for that has bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { RANKS = 2, BLOCK = 1 << 20, FLIGHT = 8 };

#define CAUSE "RESULT: must not be sent to a shard"

static void begin(struct pool *pool, struct raw pair[RANKS])
{
	static const struct smd_server_config config = {.shards = 1};

	pool_start(pool, "tcp", 1, &config);
	for (unsigned r = 0; r < RANKS; r++) {
		raw_open(&pair[r], pool, 0);
		raw_greet(&pair[r], "worker");
		raw_join(&pair[r], 1, "pair", RANKS, r);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&pair[r], SMD_FRAME_JOINED);
	}
}

/* A frame that only servers send, and much behind it. */
static void offend(struct raw *raw)
{
	struct smd_frame frame = raw_input(1, 0, 0, 1);
	uint8_t *block = calloc(1, BLOCK);

	assert_non_null(block);
	frame.kind = SMD_FRAME_RESULT;
	raw_send(raw, frame, block, 4);
	for (int i = 0; i < FLIGHT; i++) {
		raw_write(raw, block, BLOCK);
	}
	free(block);
}

static void finish(struct pool *pool, struct raw pair[RANKS])
{
	for (unsigned r = 0; r < RANKS; r++) {
		raw_close(&pair[r]);
	}
	pool_stop(pool);
}

static void an_offender_gets_the_reason(void **state)
{
	struct raw pair[RANKS];
	struct pool pool;

	(void)state;
	begin(&pool, pair);
	offend(&pair[0]);
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect_text(&pair[r], r ? SMD_FRAME_GONE : SMD_FRAME_ABORT,
			"group raw/pair: rank 0 (worker) was lost: " CAUSE);
	}
	raw_expect_end(&pair[0]);
	finish(&pool, pair);
}

/* It is told in the middle of a result that it has not read. */
static void an_offender_that_reads_late_gets_the_reason(void **state)
{
	const uint64_t count = BLOCK / 2 / sizeof(int32_t);
	const int small = 64 << 10;
	struct raw pair[RANKS];
	struct pool pool;
	uint8_t *block = calloc(1, BLOCK);

	(void)state;
	assert_non_null(block);
	begin(&pool, pair);
	assert_int_equal(setsockopt(pair[0].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	for (uint64_t i = 0; i < FLIGHT; i++) {
		for (unsigned r = 0; r < RANKS; r++) {
			raw_send(&pair[r], raw_input(1, r, i, count), block, BLOCK / 2);
		}
		raw_expect(&pair[1], SMD_FRAME_RESULT);
	}
	offend(&pair[0]);
	for (uint64_t i = 0; i < FLIGHT; i++) {
		CHECK(raw_receive(&pair[0]));
		if (pair[0].frame.kind == SMD_FRAME_ABORT) {
			break;
		}
	}
	if (pair[0].frame.kind != SMD_FRAME_ABORT) {
		raw_expect(&pair[0], SMD_FRAME_ABORT);
	}
	assert_non_null(strstr((const char *)pair[0].payload + 4, CAUSE));
	raw_expect_end(&pair[0]);
	free(block);
	finish(&pool, pair);
}

/* It neither goes nor stops. */
static void an_offender_is_listened_to_for_a_second(void **state)
{
	struct raw pair[RANKS];
	struct pool pool;
	uint64_t begin_ns;
	uint8_t byte = 0;

	(void)state;
	begin(&pool, pair);
	offend(&pair[0]);
	begin_ns = smd_clock_ns();
	while (send(pair[0].fd, &byte, 1, MSG_NOSIGNAL) == 1) {
		usleep(10000);
		assert_true(smd_clock_ns() - begin_ns < 20 * SMD_SECOND_NS);
	}
	finish(&pool, pair);
}

/* More of them than are let linger, and all at once: the others' lanes are closed at once. */
static void many_offenders_leave_nothing_behind(void **state)
{
	enum { MANY = 80 };
	static const struct smd_server_config config = {.shards = 1};
	struct smd_frame frame = {.kind = SMD_FRAME_RESULT};
	struct raw raws[MANY];
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned i = 0; i < MANY; i++) {
		raw_open(&raws[i], &pool, 0);
		raw_greet(&raws[i], "worker");
	}
	for (unsigned i = 0; i < MANY; i++) {
		raw_send(&raws[i], frame, NULL, 0);
	}
	for (unsigned i = 0; i < MANY; i++) {
		raw_expect_end(&raws[i]);
	}
	pool_stop(&pool); /* nobody has gone: it ends all the same */
	for (unsigned i = 0; i < MANY; i++) {
		raw_close(&raws[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_offender_gets_the_reason),
		cmocka_unit_test(an_offender_that_reads_late_gets_the_reason),
		cmocka_unit_test(an_offender_is_listened_to_for_a_second),
		cmocka_unit_test(many_offenders_leave_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
