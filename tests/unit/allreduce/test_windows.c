/*
 * Windows follow those who work: a communicator that does nothing gives back what it was granted,
 * another one gets it, and the first grows again when it works again. And workers that give back
 * what they do not have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/engine/job.h"
#include "reduction_server/transport/heartbeat.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/flow.h"

/* A second of a limit: the shard looks once in it who is idle. */
#define SECOND_MS 60u

enum {
	CHUNK = 64 << 10,
	WINDOW = 8,
	BUFFERS = 2 * WINDOW + 8 /* one communicator's whole window fits, and not another's */
};

static struct pool pool;

static void start(const char *transport)
{
	const struct smd_server_config config = {
		.shards = 1,
		.chunk_bytes = CHUNK,
		.window = WINDOW,
		.heartbeat_ms = 3600000, /* nobody reads two sockets at once */
		.memory_bytes = BUFFERS * SMD_BUFFER_POOL_STRIDE(CHUNK),
	};

	pool_start(&pool, transport, 1, &config);
}

/* What may be sent before the next result. The engine belongs to this thread. */
static unsigned window_of(const smd_comm *comm)
{
	const struct smd_flow *flow = &comm->base.flows[0];

	return (unsigned)(flow->limit - flow->done);
}

static void work_once(smd_comm *comm)
{
	int32_t value = 7;

	assert_int_equal(smd_allreduce(comm, &value, &value, 1, SMD_INT32, SMD_SUM), 0);
	assert_int_equal(value, 7);
}

static void work_until(smd_comm *comm, unsigned window)
{
	uint64_t until = smd_clock_ns() + 20000000000ull;

	do {
		assert_true(smd_clock_ns() < until);
		work_once(comm);
		usleep(1000);
	} while (window_of(comm) != window);
}

static void windows_go_to_who_works(void **state)
{
	smd_context *context;
	smd_comm *one;
	smd_comm *two;

	start(*state);
	{
		const struct smd_context_options options = {.servers = pool.list,
			.replica = "alone",
			.job = "test",
			.transport = pool.transport,
			.connect_timeout_s = 60,
			.progress = SMD_PROGRESS_POLL};

		assert_int_equal(smd_context_create(&options, &context), 0);
	}
	assert_int_equal(smd_comm_create(context, "one", 1, 0, &one), 0);
	assert_int_equal(smd_comm_create(context, "two", 1, 0, &two), 0);
	work_until(one, WINDOW);
	work_once(two);
	assert_int_equal(window_of(two), 1);
	for (unsigned round = 0; round < 3; round++) {
		work_until(two, WINDOW);
		assert_int_equal(window_of(one), 1);
		work_until(one, WINDOW);
		assert_int_equal(window_of(two), 1);
	}
	smd_comm_destroy(one);
	smd_comm_destroy(two);
	smd_context_destroy(context);
	pool_stop(&pool);
}

/* What has to be joined waits until they have given way, as for what is done again after a loss;
 * and not where none can. */
static void what_must_be_joined_gets_what_windows_have(void **state)
{
	struct smd_context_options here = {.replica = "alone",
		.job = "test",
		.connect_timeout_s = 60,
		.progress = SMD_PROGRESS_POLL};
	smd_comm *comms[SMD_JOB_MOST(BUFFERS) / 2]; /* a slot and its result for each */
	const size_t ncomms = sizeof(comms) / sizeof(*comms);
	smd_context *context;
	smd_comm *more;

	start(*state);
	here.servers = pool.list;
	here.transport = pool.transport;
	assert_int_equal(smd_context_create(&here, &context), 0);
	for (size_t i = 0; i < ncomms; i++) {
		char name[16];

		snprintf(name, sizeof(name), "group-%zu", i);
		assert_int_equal(smd_comm_create(context, name, 1, 0, &comms[i]), 0);
		if (i == 0) {
			work_until(comms[0], WINDOW);
		}
		work_once(comms[i]);
	}
	work_once(comms[0]);
	assert_int_equal(window_of(comms[0]), 1);
	assert_int_equal(smd_comm_create(context, "one-more", 1, 0, &more), -ENOSPC);
	for (size_t i = 0; i < ncomms; i++) {
		smd_comm_destroy(comms[i]);
	}
	smd_context_destroy(context);
	pool_stop(&pool);
}

/* ---- by hand ---- */

enum { NUMBER = 4096 + 7, OTHER = 4096 + 8 };

static void raw_work(struct raw *raw, uint32_t number, uint64_t ordinal)
{
	const int32_t value = 1;

	raw_send(raw, raw_input(number, 0, ordinal, 1), &value, sizeof(value));
	raw_expect(raw, SMD_FRAME_RESULT);
}

/* Its communicator is idle with the whole window, and somebody else wants it: SHRINK has come. */
static void raw_is_asked(struct raw *raw, struct raw *other, uint64_t *ordinal)
{
	raw_open(raw, &pool, 0);
	raw_greet(raw, "idle");
	raw_join(raw, NUMBER, "idle", 1, 0);
	raw_expect(raw, SMD_FRAME_JOINED);
	raw_work(raw, NUMBER, 0);
	assert_int_equal(raw->frame.window, WINDOW);
	raw_open(other, &pool, 0);
	raw_greet(other, "busy");
	raw_join(other, OTHER, "busy", 1, 0);
	raw_expect(other, SMD_FRAME_JOINED);
	raw_work(other, OTHER, (*ordinal)++);
	assert_int_equal(other->frame.window, 1);
	raw_expect(raw, SMD_FRAME_SHRINK);
	assert_int_equal(raw->frame.comm, NUMBER);
}

static void raw_shrunk(struct raw *raw, uint64_t ordinal)
{
	raw_send(raw,
		(struct smd_frame){
			.kind = SMD_FRAME_SHRUNK, .comm = NUMBER, .ordinal = ordinal},
		NULL, 0);
}

/* Until then nobody else may have it. */
static void the_answer_is_waited_for(void **state)
{
	uint64_t ordinal = 0;
	struct raw raw;
	struct raw other;

	start(*state);
	raw_is_asked(&raw, &other, &ordinal);
	for (unsigned i = 0; i < 20; i++) {
		raw_work(&other, OTHER, ordinal++);
		assert_int_equal(other.frame.window, 1);
		usleep(SECOND_MS * 1000 / 4);
	}
	raw_work(&raw, NUMBER, 1); /* it was asked, and goes on to use what it has */
	assert_int_equal(raw.frame.window, 1);
	raw_shrunk(&raw, 3); /* and keeps one */
	do {
		raw_work(&other, OTHER, ordinal++);
	} while (other.frame.window != WINDOW && ordinal < 1000);
	assert_int_equal(other.frame.window, WINDOW);
	raw_work(&raw, NUMBER, 2);
	raw_close(&raw);
	raw_close(&other);
	pool_stop(&pool);
}

/* It has said what it keeps before it read the result, which grants one more. */
static void what_a_result_grants_meanwhile_stays(void **state)
{
	uint64_t ordinal = 0;
	struct raw raw;
	struct raw other;

	start(*state);
	raw_is_asked(&raw, &other, &ordinal);
	raw_work(&raw, NUMBER, 1);
	assert_int_equal(raw.frame.window, 1);
	raw_shrunk(&raw, 2);
	raw_work(&raw, NUMBER, 2);
	raw_close(&raw);
	raw_close(&other);
	pool_stop(&pool);
}

static void who_gives_nothing_back_keeps_it(void **state)
{
	uint64_t ordinal = 0;
	struct raw raw;
	struct raw other;

	start(*state);
	raw_is_asked(&raw, &other, &ordinal);
	raw_shrunk(&raw, 1 + WINDOW);
	for (unsigned i = 0; i < 10; i++) {
		raw_work(&other, OTHER, ordinal++);
		assert_int_equal(other.frame.window, 1);
	}
	for (unsigned i = 1; i <= WINDOW; i++) {
		raw_work(&raw, NUMBER, i);
	}
	raw_close(&raw);
	raw_close(&other);
	pool_stop(&pool);
}

static void what_was_given_back_is_not_used(void **state)
{
	const int32_t value = 1;
	uint64_t ordinal = 0;
	struct raw raw;
	struct raw other;

	start(*state);
	raw_is_asked(&raw, &other, &ordinal);
	raw_shrunk(&raw, 1); /* it keeps nothing, and nothing comes that could grant more */
	raw_send(&raw, raw_input(NUMBER, 0, 1, 1), &value, sizeof(value));
	raw_expect_end(&raw);
	raw_close(&raw);
	raw_close(&other);
	pool_stop(&pool);
}

static void false_answers_end_the_lane(void **state)
{
	static const uint64_t ordinals[] = {0, 2 + WINDOW, UINT64_MAX};
	struct raw raw;

	start(*state);
	for (size_t i = 0; i < sizeof(ordinals) / sizeof(ordinals[0]); i++) {
		struct raw other;
		uint64_t ordinal = 0;

		raw_is_asked(&raw, &other, &ordinal);
		raw_shrunk(&raw, ordinals[i]);
		raw_expect_end(&raw);
		raw_close(&raw);
		raw_leave(&other, OTHER, 0);
		raw_close(&other);
	}
	raw_open(&raw, &pool, 0); /* unasked */
	raw_greet(&raw, "unasked");
	raw_join(&raw, NUMBER, "unasked", 1, 0);
	raw_expect(&raw, SMD_FRAME_JOINED);
	raw_shrunk(&raw, 1);
	raw_expect_end(&raw);
	raw_close(&raw);
	pool_stop(&pool);
}

#define OVER(test, transport)                                                                      \
	{                                                                                          \
		#test " (" transport ")", test, NULL, NULL, (void *)(transport)                    \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OVER(windows_go_to_who_works, "loopback"),
		OVER(windows_go_to_who_works, "tcp"),
		OVER(what_must_be_joined_gets_what_windows_have, "loopback"),
		OVER(what_must_be_joined_gets_what_windows_have, "tcp"),
		OVER(the_answer_is_waited_for, "tcp"),
		OVER(what_a_result_grants_meanwhile_stays, "tcp"),
		OVER(who_gives_nothing_back_keeps_it, "tcp"),
		OVER(what_was_given_back_is_not_used, "tcp"),
		OVER(false_answers_end_the_lane, "tcp"),
	};

	smd_heartbeat_second_ms = SECOND_MS;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
