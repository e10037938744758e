/*
 * Strangers: connections that do nothing, or ask for much and never come to an operation. They
 * take neither the memory, the descriptors nor the log from jobs that do, and hold no drain up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/engine/join.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { CHUNK = 64 << 10 };

/* Memory for one communicator of two ranks, with a window of one. */
static const struct smd_server_config small = {.shards = 1,
	.chunk_bytes = CHUNK,
	.window = 1,
	.memory_bytes = 3 * SMD_BUFFER_POOL_STRIDE(CHUNK)};

static void operate(struct pool_rank *rank)
{
	int32_t value = rank->rank + 1;

	CHECK(smd_allreduce(rank->comm, &value, &value, 1, SMD_INT32, SMD_SUM) == 0);
	CHECK(value == rank->nranks * (rank->nranks + 1) / 2);
}

/* The first group has what a small one has. */
static void ask_for_a_second_group(struct pool_rank *rank)
{
	smd_comm *second;

	operate(rank);
	CHECK(smd_comm_create(rank->context, "second", (uint16_t)rank->nranks, (uint16_t)rank->rank,
		      &second) == -ENOSPC);
	CHECK(strstr(smd_error_message(), rank->pool->servers[1].address));
	operate(rank);
}

/* The server has read all that was said before. */
static void await_server(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	raw_expect(raw, SMD_FRAME_PONG);
}

static void join_many(struct raw *raw, unsigned n)
{
	char group[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(group, sizeof(group), "half-%u", i);
		raw_join(raw, i, group, 2, 0);
	}
}

/* ---- groups that are not complete ---- */

static void groups_that_form_take_no_memory(void **state)
{
	struct pool pool;
	struct raw raw;

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "stranger");
	join_many(&raw, 50);
	await_server(&raw);
	pool_run(&pool, 2, "good", operate, NULL);
	raw_close(&raw);
	pool_stop(&pool);
}

static void a_group_that_gets_no_slot_is_told_so_when_it_is_complete(void **state)
{
	const char *text = "group raw/second: the reduction server's memory has no slot left for 2 "
			   "ranks (3 of 3 buffers of 65536 bytes are promised); give it a larger "
			   "--memory-limit";
	struct pool pool;
	struct raw raws[2];

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	for (unsigned r = 0; r < 2; r++) {
		raw_open(&raws[r], &pool, 0);
		raw_greet(&raws[r], "rank");
		raw_join(&raws[r], 0, "first", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&raws[r], SMD_FRAME_JOINED);
		raw_join(&raws[r], 1, "second", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect_text(&raws[r], SMD_FRAME_ABORT, text);
		raw_leave(&raws[r], 1, r);
	}
	/* What can never be complete is not waited for. */
	raw_join(&raws[0], 2, "large", 3, 0);
	raw_expect_text(&raws[0], SMD_FRAME_ABORT, "has no slot left for 3 ranks");
	raw_leave(&raws[0], 2, 0);
	for (unsigned r = 0; r < 2; r++) { /* the first is as it was, and its slot is given back */
		raw_leave(&raws[r], 0, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_join(&raws[r], 3, "second", 2, r);
	}
	for (unsigned r = 0; r < 2; r++) {
		raw_expect(&raws[r], SMD_FRAME_JOINED);
		raw_close(&raws[r]);
	}
	pool_stop(&pool);
}

static void the_server_that_has_no_slot_is_named(void **state)
{
	const struct smd_server_config large = {.chunk_bytes = CHUNK};
	const struct smd_server_config configs[] = {large, small, large};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 3, configs);
	pool_run(&pool, 2, "good", ask_for_a_second_group, NULL);
	pool_stop(&pool);
}

static void a_group_that_is_not_complete_in_time_is_over(void **state)
{
	struct smd_server_config config = small;
	struct pool pool;
	struct raw raw;

	(void)state;
	config.forming_s = 1;
	pool_start(&pool, "tcp", 1, &config);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "patient");
	raw_join(&raw, 0, "half", 2, 1);
	raw_expect_text(&raw, SMD_FRAME_ABORT, "group raw/half: rank 0 of 2 not joined within 1 s");
	raw_close(&raw);
	pool_stop(&pool);
}

static void few_groups_form_at_once_on_a_lane(void **state)
{
	struct pool pool;
	struct raw raw;

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "eager");
	join_many(&raw, SMD_FORMING_LANE_MAX + 1);
	raw_expect_text(&raw, SMD_FRAME_ABORT,
		"group raw/half-64: at most 64 groups of a process may form at once, got one more "
		"from eager");
	raw_leave(&raw, SMD_FORMING_LANE_MAX, 0);
	raw_leave(&raw, 0, 0);
	raw_join(&raw, SMD_COMMS_MAX, "another", 1, 0); /* complete at once: it does not count */
	raw_expect(&raw, SMD_FRAME_JOINED);
	raw_close(&raw);
	pool_stop(&pool);
}

static void few_groups_form_at_once_on_a_shard(void **state)
{
	enum {
		LANES = SMD_FORMING_SHARD_MAX / SMD_FORMING_LANE_MAX,
		OF_ONE = SMD_FORMING_JOB_MAX / SMD_FORMING_LANE_MAX
	};
	static struct raw raws[LANES + 2];
	struct pool pool;
	char name[32];

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	for (unsigned i = 0; i < LANES; i++) {
		raw_open(&raws[i], &pool, 0);
		raw_greet_job(&raws[i], "one-of-many", i < OF_ONE ? "raw" : "other");
		for (unsigned k = 0; k < SMD_FORMING_LANE_MAX; k++) {
			snprintf(name, sizeof(name), "half-%u-%u", i, k);
			raw_join(&raws[i], k, name, 2, 0);
		}
		await_server(&raws[i]);
		if (i == OF_ONE - 1) { /* the others can still */
			raw_open(&raws[LANES + 1], &pool, 0);
			raw_greet(&raws[LANES + 1], "greedy");
			raw_join(&raws[LANES + 1], 0, "one-more", 2, 0);
			raw_expect_text(&raws[LANES + 1], SMD_FRAME_ABORT,
				"group raw/one-more: at most 3584 groups of a job may form at once "
				"on a shard");
		}
	}
	raw_open(&raws[LANES], &pool, 0);
	raw_greet_job(&raws[LANES], "last", "third");
	raw_join(&raws[LANES], 0, "one-more", 2, 0);
	raw_expect_text(&raws[LANES], SMD_FRAME_ABORT,
		"group third/one-more: at most 4096 groups may form at once on a shard");
	for (unsigned i = 0; i <= LANES + 1; i++) {
		raw_close(&raws[i]);
	}
	pool_stop(&pool);
}

static void a_drain_does_not_wait_for_groups_that_form(void **state)
{
	struct pool pool;
	struct raw raw;

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "stranger");
	raw_join(&raw, 0, "half", 2, 0);
	await_server(&raw);
	pool_end_server(&pool, 0, 0);
	raw_expect_text(
		&raw, SMD_FRAME_ABORT, "group raw/half: the reduction server is being drained");
	raw_expect_end(&raw);
	raw_close(&raw);
	pool_stop(&pool);
}

/* ---- lanes that do nothing ---- */

/* It answers PING only when its program calls the library, so its silence says nothing. */
static void greet_called(struct raw *raw, const struct pool *pool)
{
	const struct smd_hello hello = {
		.flags = SMD_HELLO_CALLED, .replica = "quiet", .job = "raw"};
	uint8_t payload[SMD_CONTROL_MAX];

	raw_open(raw, pool, 0);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
		smd_hello_encode(&hello, payload));
	raw_expect(raw, SMD_FRAME_WELCOME);
}

static void a_lane_that_is_in_no_group_is_ended(void **state)
{
	struct smd_server_config config = small;
	struct pool pool;
	struct raw idle;
	struct raw busy;

	(void)state;
	config.idle_s = 1;
	pool_start(&pool, "tcp", 1, &config);
	greet_called(&idle, &pool);
	greet_called(&busy, &pool);
	raw_join(&busy, 0, "alone", 1, 0);
	raw_expect(&busy, SMD_FRAME_JOINED);
	raw_expect_end(&idle);
	capture_await("lane of quiet (127.0.0.1:", "ended: it has been in no group for ");
	await_server(&busy);
	raw_leave(&busy, 0, 0);
	raw_expect_end(&busy);
	raw_close(&idle);
	raw_close(&busy);
	pool_stop(&pool);
}

static void the_eldest_idle_lane_makes_room(void **state)
{
	struct smd_server_config config = small;
	struct pool pool;
	struct raw raws[3];

	(void)state;
	config.idle_lanes = 2;
	pool_start(&pool, "tcp", 1, &config);
	greet_called(&raws[0], &pool);
	greet_called(&raws[1], &pool);
	sleep(SMD_PEER_IDLE_GRACE_S + 1);
	greet_called(&raws[2], &pool);
	raw_expect_end(&raws[0]);
	await_server(&raws[1]);
	await_server(&raws[2]);
	for (unsigned i = 0; i < 3; i++) {
		raw_close(&raws[i]);
	}
	pool_stop(&pool);
}

enum { LANES = 300 }; /* more than wait from one address */

static void the_eldest_without_hello_makes_room(void **state)
{
	static struct raw raws[LANES];
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	for (unsigned i = 0; i < LANES; i++) {
		raw_open(&raws[i], &pool, 0);
	}
	raw_expect_end(&raws[0]);
	capture_await("ended: it has not said HELLO, and 256 others of its address", NULL);
	pool_run(&pool, 2, "good", operate, NULL);
	for (unsigned i = 0; i < LANES; i++) {
		raw_close(&raws[i]);
	}
	pool_stop(&pool);
}

/* How far it has come is told as it is. */
static void the_eldest_without_proof_makes_room(void **state)
{
	static char token[] = "open-sesame";
	static const struct smd_tokens tokens = {.every = token};
	const struct smd_hello hello = {
		.flags = SMD_HELLO_TOKEN, .replica = "prover", .job = "raw"};
	const struct smd_hello without = {.replica = "poor", .job = "raw"};
	struct smd_server_config config = small;
	static struct raw raws[LANES];
	uint8_t payload[SMD_CONTROL_MAX];
	struct pool pool;

	(void)state;
	config.tokens = &tokens;
	config.greeting_s = 600;
	pool_start(&pool, "tcp", 1, &config);
	for (unsigned i = 0; i < LANES; i++) {
		const struct smd_hello *said = i % 2 ? &without : &hello;

		raw_open(&raws[i], &pool, 0);
		raw_send(&raws[i], (struct smd_frame){.kind = SMD_FRAME_HELLO}, payload,
			smd_hello_encode(said, payload));
		raw_expect(&raws[i], i % 2 ? SMD_FRAME_REFUSE : SMD_FRAME_CHALLENGE);
	}
	raw_expect_end(&raws[0]);
	raw_expect_end(&raws[1]);
	capture_await("ended: it has said HELLO and not proved that it has a token, and 256 others "
		      "of its address and 256 of all are not let in yet either",
		NULL);
	capture_await("ended: it was refused and has not gone, and 256 others", NULL);
	for (unsigned i = 0; i < LANES; i++) {
		raw_close(&raws[i]);
	}
	pool_stop(&pool);
}

/* ---- lines in the log ---- */

static void refused_joins_do_not_fill_the_log(void **state)
{
	struct pool pool;
	struct raw raw;

	(void)state;
	pool_start(&pool, "tcp", 1, &small);
	raw_open(&raw, &pool, 0);
	raw_greet(&raw, "insistent");
	for (unsigned i = 0; i < 3000; i++) {
		raw_join(&raw, 0, "flood", 1, 7);
		raw_leave(&raw, 0, 7);
		if (i % 10 == 0) {
			raw_expect(&raw, SMD_FRAME_ABORT);
		}
	}
	do {
		CHECK(raw_receive(&raw));
		raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_PING}, NULL, 0);
	} while (raw.frame.kind != SMD_FRAME_PONG);
	raw_close(&raw);
	pool_stop(&pool);
	capture_await("shard 0: ... and 2,", "more like this: group raw/flood: rank must be below");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_that_form_take_no_memory),
		cmocka_unit_test(a_group_that_gets_no_slot_is_told_so_when_it_is_complete),
		cmocka_unit_test(the_server_that_has_no_slot_is_named),
		cmocka_unit_test(a_group_that_is_not_complete_in_time_is_over),
		cmocka_unit_test(few_groups_form_at_once_on_a_lane),
		cmocka_unit_test(few_groups_form_at_once_on_a_shard),
		cmocka_unit_test(a_drain_does_not_wait_for_groups_that_form),
		cmocka_unit_test(a_lane_that_is_in_no_group_is_ended),
		cmocka_unit_test(the_eldest_idle_lane_makes_room),
		cmocka_unit_test(the_eldest_without_hello_makes_room),
		cmocka_unit_test(the_eldest_without_proof_makes_room),
		cmocka_unit_test(refused_joins_do_not_fill_the_log),
	};

	return cmocka_run_group_tests(tests, capture_set_up, capture_tear_down);
}
