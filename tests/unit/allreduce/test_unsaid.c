/*
 * What a server has to tell a worker, or a worker a server, and has no memory for: at its next look
 * it ends the lane, which would else be waited on for ever. Over lanes with cards
 * (tests/unit/cuda/card.c), since only there LEFT is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/card.h"

enum { RANKS = 2, COUNT = 100000, LARGE = 1 << 19, LOOK_MS = 400, HEARTBEAT_MS = 12 * LOOK_MS };

#define PATIENCE_NS (20 * SMD_SECOND_NS) /* it takes a look, and longer on a busy host */

static atomic_uint unsaid;     /* the kind of frame whose next one cannot be allocated; 0: none */
static atomic_int agrees = -1; /* or AGREE, after so many more of them; -1: none */

int __real_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);
int __wrap_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);

int __wrap_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length)
{
	unsigned kind = frame->kind;

	if (kind == SMD_FRAME_AGREE && atomic_load(&agrees) >= 0 &&
		atomic_fetch_sub(&agrees, 1) == 0) {
		return -ENOMEM;
	}
	if (kind == SMD_FRAME_HELD && frame->rank == 0 && atomic_load(&unsaid) == kind) {
		return -ENOMEM; /* each: there are questions and answers, and both would do */
	}
	return atomic_compare_exchange_strong(&unsaid, &kind, 0)
		       ? -ENOMEM
		       : __real_smd_lane_send_control(lane, frame, payload, length);
}

/* Ends only when each rank's call has; the ranks' own communicator has said its JOINED before. */
static void must_end(struct pool_rank *rank, unsigned kind, int (*call)(struct pool_rank *rank))
{
	uint64_t begin = smd_clock_ns();
	int ret;

	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		atomic_store(&unsaid, kind);
	}
	ret = call(rank);
	CHECK(ret < 0 ||
		kind == SMD_FRAME_HELD); /* who has all results, and nobody to ask, is done */
	CHECK(smd_error_message()[0] != '\0');
	CHECK(smd_clock_ns() - begin < PATIENCE_NS);
	CHECK(atomic_load(&unsaid) == 0 || kind == SMD_FRAME_HELD);
}

/* Who hears ABORT says LEAVE and waits for LEFT: until then its buffer may be written to. */
static int disagree(struct pool_rank *rank)
{
	float *buffer = calloc(COUNT + RANKS, sizeof(*buffer));
	int ret = smd_allreduce(
		rank->comm, buffer, buffer, (size_t)(COUNT + rank->rank), SMD_FLOAT32, SMD_SUM);

	free(buffer);
	return ret;
}

/* Who has heard JOINED waits for the other one. */
static int join(struct pool_rank *rank)
{
	smd_comm *another;
	int ret = smd_comm_create(rank->context, "another", RANKS, rank->rank, &another);

	if (ret == 0) {
		ret = smd_barrier(another);
		smd_comm_destroy(another);
	}
	return ret;
}

static void hears_no_abort(struct pool_rank *rank)
{
	must_end(rank, SMD_FRAME_ABORT, disagree);
}

static void hears_no_left(struct pool_rank *rank)
{
	must_end(rank, SMD_FRAME_LEFT, disagree);
}

static void hears_no_joined(struct pool_rank *rank)
{
	must_end(rank, SMD_FRAME_JOINED, join);
}

/* Who has all results of an operation that leaves no copies says so, and waits until all have. */
static int reduce_much(struct pool_rank *rank)
{
	float *buffer = calloc(LARGE, sizeof(*buffer));
	int ret = smd_allreduce(rank->comm, buffer, buffer, LARGE, SMD_FLOAT32, SMD_SUM);

	free(buffer);
	return ret;
}

static void says_no_held(struct pool_rank *rank)
{
	must_end(rank, SMD_FRAME_HELD, reduce_much);
}

static void play(void (*body)(struct pool_rank *rank), unsigned heartbeat_ms)
{
	const struct smd_server_config config = {.shards = 1, .heartbeat_ms = heartbeat_ms};
	struct pool pool;

	atomic_store(&unsaid, 0);
	card_reset((struct card_plan){.refuse = 0});
	pool_start(&pool, "fault", 1, &config);
	pool_run(&pool, RANKS, "unsaid", body, NULL);
	pool_stop(&pool);
}

static void abort_that_is_not_said_ends_the_lane(void **state)
{
	(void)state;
	play(hears_no_abort, HEARTBEAT_MS);
}

static void left_that_is_not_said_ends_the_lane(void **state)
{
	(void)state;
	play(hears_no_left, HEARTBEAT_MS);
}

static void joined_that_is_not_said_ends_the_lane(void **state)
{
	(void)state;
	play(hears_no_joined, HEARTBEAT_MS);
}

static void held_that_is_not_said_ends_the_lane(void **state)
{
	(void)state;
	setenv("SUMMAND_HEARTBEAT_LIMIT", "4.8", 1); /* so ranks look soon, */
	play(says_no_held, 12 * 60000);              /* and the server too late */
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
}

/* ---- other tables ---- */

enum { SERVERS = 3, TABLE_WORDS = 6 };

static atomic_uint begun; /* ranks that have */

static void *drain(void *arg)
{
	while (atomic_load(&begun) < RANKS) {
		usleep(1000);
	}
	pool_end_server(arg, 0, 0);
	return NULL;
}

/* Until it, or another rank, has failed, or what a shard could not pass on has cost that shard. */
static void work(struct pool_rank *rank)
{
	uint64_t end = smd_clock_ns() + 4 * LOOK_MS * 1000000ull;
	float value = 0;
	int ret = 0;

	atomic_fetch_add(&begun, 1);
	while (ret == 0 && smd_clock_ns() < end) {
		ret = smd_allreduce(rank->comm, &value, &value, 1, SMD_FLOAT32, SMD_SUM);
	}
	CHECK(ret == 0 || smd_error_message()[0] != '\0');
}

/* Whatever word of another table it is, at rank 0 or another one: the lane ends, and who was about
 * to go on with the table has it still. */
static void a_word_of_a_table_that_is_not_said_ends_the_lane(void **state)
{
	const struct smd_server_config one = {
		.shards = 1, .heartbeat_ms = HEARTBEAT_MS, .drain_s = 3};
	const struct smd_server_config configs[SERVERS] = {one, one, one};

	(void)state;
	setenv("SUMMAND_HEARTBEAT_LIMIT", "4.8", 1);
	for (int n = 0; n < TABLE_WORDS; n++) {
		struct pool pool;
		pthread_t thread;

		pool_start(&pool, "loopback", SERVERS, configs);
		atomic_store(&begun, 0);
		atomic_store(&agrees, n);
		CHECK(pthread_create(&thread, NULL, drain, &pool) == 0);
		pool_run(&pool, RANKS, "unsaid", work, NULL);
		pthread_join(thread, NULL);
		assert_true(atomic_load(&agrees) < 0); /* that word was to be said */
		atomic_store(&agrees, -1);
		pool_stop(&pool);
	}
	unsetenv("SUMMAND_HEARTBEAT_LIMIT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(abort_that_is_not_said_ends_the_lane),
		cmocka_unit_test(left_that_is_not_said_ends_the_lane),
		cmocka_unit_test(joined_that_is_not_said_ends_the_lane),
		cmocka_unit_test(held_that_is_not_said_ends_the_lane),
		cmocka_unit_test(a_word_of_a_table_that_is_not_said_ends_the_lane),
	};

	return cmocka_run_group_tests_name("unsaid", tests, NULL, NULL);
}
