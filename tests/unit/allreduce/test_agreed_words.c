/*
 * How much ranks say until they agree that a server is lost: each says so once by itself and once
 * where rank 0 asks, through every server that is left, however often it hears the question.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "reduction_server/transport/transport.h"
#include "tests/unit/allreduce/fixture.h"

enum { RANKS = 4, SERVERS = 6, LEFT = SERVERS - 1 };

static atomic_uint said; /* by ranks but the first, of servers that are lost */

int __real_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);
int __wrap_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);

/* What a shard relays has the number of the rank that said it, too: only what is new counts. */
static _Thread_local bool is_rank;

int __wrap_smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length)
{
	if (frame->kind == SMD_FRAME_AGREE && frame->window == SMD_AGREE_BEGINS &&
		frame->rank != 0 && is_rank) {
		atomic_fetch_add(&said, 1);
	}
	return __real_smd_lane_send_control(lane, frame, payload, length);
}

static atomic_uint begun; /* ranks that have */

static void *kill_one(void *arg)
{
	while (atomic_load(&begun) < RANKS) {
		usleep(1000);
	}
	pool_end_server(arg, 0, 1);
	return NULL;
}

/* On the caller's own thread: who waits for an operation moves it. */
static void work(struct pool_rank *rank)
{
	float value = 1;

	is_rank = true;
	atomic_fetch_add(&begun, 1);
	for (unsigned k = 0; k < 2000; k++) {
		value = 1;
		CHECK(smd_allreduce(rank->comm, &value, &value, 1, SMD_FLOAT32, SMD_SUM) == 0);
		CHECK(value == RANKS);
	}
}

static void a_question_is_answered_once(void **state)
{
	struct pool pool;
	pthread_t thread;

	(void)state;
	setenv("SUMMAND_PROGRESS", "poll", 1);
	setenv("SUMMAND_HEARTBEAT_LIMIT", "600", 1);
	pool_start(&pool, "loopback", SERVERS, NULL);
	CHECK(pthread_create(&thread, NULL, kill_one, &pool) == 0);
	pool_run(&pool, RANKS, "words", work, NULL);
	pthread_join(thread, NULL);
	pool_stop(&pool);
	assert_in_range(atomic_load(&said), (RANKS - 1) * LEFT, (RANKS - 1) * LEFT * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_answered_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
