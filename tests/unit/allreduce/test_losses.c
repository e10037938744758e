/*
 * A rank that has lost its whole table joins at a server that is in none: the server tells workers
 * of the job what that rank has lost, each once (reduction_server/engine/losses.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { NUMBER = 3, RANKS = 3, TABLE = 0x6, EPOCH = 2, ID = 77 };

static struct pool pool;

static int set_up(void **state)
{
	const struct smd_server_config config = {.shards = 1};

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_stop(&pool);
	return 0;
}

static void open_worker(struct raw *raw, const char *replica)
{
	raw_open(raw, &pool, 0);
	raw_greet(raw, replica);
}

/* lost: none: it says nothing of it. */
static void join_rescue(struct raw *raw, unsigned rank, uint64_t lost)
{
	const struct smd_frame frame = {
		.kind = SMD_FRAME_JOIN, .comm = NUMBER, .rank = (uint16_t)rank};
	const struct smd_frame said = {.kind = SMD_FRAME_LOST,
		.comm = NUMBER,
		.rank = (uint16_t)rank,
		.operation = lost,
		.ordinal = EPOCH};
	const struct smd_join join = {.nranks = RANKS, .group = "rescue", .attempt = 1, .id = ID};
	uint8_t payload[SMD_CONTROL_MAX];

	raw_send(raw, frame, payload, smd_join_encode(&join, payload));
	if (lost) {
		raw_send(raw, said, NULL, 0);
	}
}

/* Of what a worker is told nothing is about LOST: it is answered before that. */
static void expect_nothing(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	raw_expect(raw, SMD_FRAME_PONG);
}

static void expect_lost(struct raw *raw, uint64_t lost)
{
	raw_expect(raw, SMD_FRAME_LOST);
	assert_int_equal(raw->frame.operation, lost);
	assert_int_equal(raw->frame.ordinal, EPOCH);
	assert_int_equal(raw->frame.chunk, ID);
	expect_nothing(raw);
}

static void others_of_the_job_are_told_once(void **state)
{
	struct raw workers[RANKS];
	struct raw stranger;

	(void)state;
	open_worker(&workers[0], "one");
	open_worker(&workers[1], "another");
	raw_open(&stranger, &pool, 0);
	raw_greet_job(&stranger, "one", "another job");

	join_rescue(&workers[0], 0, TABLE);
	expect_lost(&workers[1], TABLE);
	expect_nothing(&workers[0]);
	expect_nothing(&stranger);

	open_worker(&workers[2], "one that connects later");
	expect_lost(&workers[2], TABLE);

	join_rescue(&workers[1], 1, TABLE);
	expect_nothing(&workers[2]); /* it says nothing new */
	join_rescue(&workers[2], 2, TABLE);
	for (unsigned r = 0; r < RANKS; r++) {
		raw_expect(&workers[r], SMD_FRAME_JOINED);
		raw_close(&workers[r]);
	}
	raw_close(&stranger);
}

/* Who does so because another rank is gone has lost nothing. */
static void who_has_lost_nothing_has_nothing_told(void **state)
{
	struct raw workers[RANKS];

	(void)state;
	for (unsigned r = 0; r < RANKS; r++) {
		open_worker(&workers[r], "worker");
	}
	join_rescue(&workers[0], 0, 0);
	expect_nothing(&workers[1]);
	join_rescue(&workers[1], 1, TABLE);
	expect_lost(&workers[2], TABLE);
	for (unsigned r = 0; r < RANKS; r++) {
		raw_close(&workers[r]);
	}
}

static void what_names_nobody_ends_the_lane(void **state)
{
	const struct smd_frame wrong[] = {
		{.kind = SMD_FRAME_LOST, .comm = NUMBER},
		{.kind = SMD_FRAME_LOST, .comm = NUMBER, .operation = 1, .ordinal = 1ull << 32},
		{.kind = SMD_FRAME_LOST, .comm = NUMBER + 1, .operation = 1},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct raw raw;

		open_worker(&raw, "worker");
		join_rescue(&raw, 0, 0);
		raw_send(&raw, wrong[i], NULL, 0);
		raw_expect_end(&raw);
		raw_close(&raw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(others_of_the_job_are_told_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_has_lost_nothing_has_nothing_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_names_nobody_ends_the_lane, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
