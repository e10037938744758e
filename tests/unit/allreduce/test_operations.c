/* Reduce, broadcast and barrier, blocking and not, with a progress thread and without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"

#define NRANKS 3

static const size_t counts[] = {1, 1000, 300000};

static void fill(int32_t *buffer, size_t count, int rank)
{
	for (size_t i = 0; i < count; i++) {
		buffer[i] = (int32_t)i * (rank + 1);
	}
}

static void check_filled(const int32_t *buffer, size_t count, int factor)
{
	for (size_t i = 0; i < count; i++) {
		CHECK(buffer[i] == (int32_t)i * factor);
	}
}

static void reduce_to_each(struct pool_rank *rank)
{
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		size_t count = pool_count(counts[c]);
		int32_t *send = malloc(count * sizeof(*send));
		int32_t *recv = malloc(count * sizeof(*recv));

		for (int root = 0; root < NRANKS; root++) {
			bool mine = root == rank->rank;

			fill(send, count, rank->rank);
			memset(recv, 0xff, count * sizeof(*recv));
			CHECK(smd_reduce(rank->comm, send, mine ? recv : NULL, count, SMD_INT32,
				      SMD_SUM, root) == 0);
			check_filled(send, count, rank->rank + 1); /* untouched */
			if (mine) {
				check_filled(recv, count, 1 + 2 + 3);
			}
		}
		free(send);
		free(recv);
	}
}

static void only_the_root_of_a_reduce_gets_the_result(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, NRANKS, "reduce", reduce_to_each, NULL);
	pool_stop(&pool);
}

static void broadcast_from_each(struct pool_rank *rank)
{
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		size_t count = counts[c];
		int32_t *buffer = malloc(count * sizeof(*buffer));

		for (int root = 0; root < NRANKS; root++) {
			fill(buffer, count, rank->rank);
			CHECK(smd_broadcast(rank->comm, buffer, count, SMD_INT32, root) == 0);
			check_filled(buffer, count, root + 1);
		}
		free(buffer);
	}
}

static void every_rank_gets_what_the_root_broadcasts(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, NRANKS, "broadcast", broadcast_from_each, NULL);
	pool_stop(&pool);
}

static int test_first; /* its address tells mix() to test before it waits */

/* Started in the same order everywhere, waited for in another order on each rank. */
static void mix(struct pool_rank *rank)
{
	enum { ROUNDS = 4 };
	const size_t count = pool_count(50000);
	smd_request *requests[3 * ROUNDS];
	int32_t *buffers[3 * ROUNDS];

	for (int i = 0; i < 3 * ROUNDS; i++) {
		int root = i % NRANKS;

		buffers[i] = malloc(count * sizeof(int32_t));
		fill(buffers[i], count, rank->rank);
		if (i % 3 == 0) {
			CHECK(smd_broadcast_start(rank->comm, buffers[i], count, SMD_INT32, root,
				      &requests[i]) == 0);
		} else if (i % 3 == 1) {
			CHECK(smd_reduce_start(rank->comm, buffers[i], buffers[i], count, SMD_INT32,
				      SMD_SUM, root, &requests[i]) == 0);
		} else {
			CHECK(smd_allreduce_start(rank->comm, buffers[i], buffers[i], count,
				      SMD_INT32, SMD_SUM, &requests[i]) == 0);
		}
	}
	for (int k = 0; k < 3 * ROUNDS; k++) {
		int i = (k + 5 * rank->rank) % (3 * ROUNDS);
		int root = i % NRANKS;
		int reduced = i % 3 == 2 || root == rank->rank ? 6 : rank->rank + 1;

		while (rank->argument && !smd_request_test(requests[i])) {
		}
		CHECK(smd_request_wait(requests[i]) == 0);
		check_filled(buffers[i], count, i % 3 == 0 ? root + 1 : reduced);
		free(buffers[i]);
	}
	CHECK(smd_barrier(rank->comm) == 0);
}

static void operations_of_all_kinds_in_flight(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, NRANKS, "mix", mix, NULL);
	pool_run(&pool, NRANKS, "mix-tested", mix, &test_first);
	pool_stop(&pool);
}

static void poll_mode_needs_no_thread(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	setenv("SUMMAND_PROGRESS", "poll", 1);
	pool_run(&pool, NRANKS, "mix", mix, NULL);
	pool_run(&pool, NRANKS, "mix-tested", mix, &test_first);
	pool_run(&pool, NRANKS, "reduce", reduce_to_each, NULL);
	unsetenv("SUMMAND_PROGRESS");
	pool_stop(&pool);
}

/* Loopback is no card's: that is said, and it works all the same. */
static void a_thread_that_has_no_card_runs_anywhere(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	setenv("SUMMAND_AFFINITY", "card", 1);
	capture_begin();
	pool_run(&pool, NRANKS, "mix", mix, NULL);
	assert_true(capture_has("the progress thread runs anywhere: the NUMA node of the card", NULL));
	capture_end();
	unsetenv("SUMMAND_AFFINITY");
	pool_stop(&pool);
}

static void an_unknown_mode_is_refused(void **state)
{
	smd_context *context;

	(void)state;
	setenv("SUMMAND_PROGRESS", "magic", 1);
	assert_true(smd_context_create(NULL, &context) < 0);
	assert_non_null(strstr(smd_error_message(), "must be thread or poll, got \"magic\""));
	unsetenv("SUMMAND_PROGRESS");
	setenv("SUMMAND_AFFINITY", "magic", 1);
	assert_true(smd_context_create(NULL, &context) < 0);
	assert_non_null(strstr(smd_error_message(), "must be spread, card or any, got \"magic\""));
	unsetenv("SUMMAND_AFFINITY");
	setenv("SUMMAND_RATES", "magic", 1);
	assert_true(smd_context_create(NULL, &context) < 0);
	assert_non_null(strstr(smd_error_message(), "must be measured or declared, got \"magic\""));
	unsetenv("SUMMAND_RATES");
}

/* Two threads wait on one context, and a third only starts operations: the turn goes round. */
struct waiter {
	smd_comm *comm;
	int rounds;
};

static void *wait_much(void *arg)
{
	struct waiter *waiter = arg;

	for (int i = 0; i < waiter->rounds; i++) {
		int32_t one = 1;

		CHECK(smd_allreduce(waiter->comm, &one, &one, 1, SMD_INT32, SMD_SUM) == 0);
		CHECK(one == NRANKS);
	}
	return NULL;
}

static void share_the_progress(struct pool_rank *rank)
{
	struct waiter waiters[3];
	pthread_t threads[3];

	for (int t = 0; t < 3; t++) {
		char group[32];

		snprintf(group, sizeof(group), "turn-%d", t);
		waiters[t].rounds = 200;
		CHECK(smd_comm_create(rank->context, group, NRANKS, rank->rank, &waiters[t].comm) ==
			0);
	}
	for (int t = 0; t < 3; t++) {
		CHECK(pthread_create(&threads[t], NULL, wait_much, &waiters[t]) == 0);
	}
	mix(rank);
	for (int t = 0; t < 3; t++) {
		pthread_join(threads[t], NULL);
		smd_comm_destroy(waiters[t].comm);
	}
}

static void threads_share_a_context(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, NRANKS, "turns", share_the_progress, NULL);
	setenv("SUMMAND_PROGRESS", "poll", 1);
	pool_run(&pool, NRANKS, "turns", share_the_progress, NULL);
	unsetenv("SUMMAND_PROGRESS");
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_root_of_a_reduce_gets_the_result),
		cmocka_unit_test(every_rank_gets_what_the_root_broadcasts),
		cmocka_unit_test(operations_of_all_kinds_in_flight),
		cmocka_unit_test(poll_mode_needs_no_thread),
		cmocka_unit_test(a_thread_that_has_no_card_runs_anywhere),
		cmocka_unit_test(an_unknown_mode_is_refused),
		cmocka_unit_test(threads_share_a_context),
	};
	const struct CMUnitTest over_rdma[] = {
		cmocka_unit_test(poll_mode_needs_no_thread),
	};

	if (pool_is_rdma()) {
		return cmocka_run_group_tests(over_rdma, NULL, NULL);
	}

	return cmocka_run_group_tests(tests, NULL, pool_check_exchanged);
}
