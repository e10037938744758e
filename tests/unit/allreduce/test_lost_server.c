/*
 * Servers are lost while operations run: the others take over, and every result is what it would
 * have been (specs/design/epochs.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/context.h"
#include "worker/libsummand/tuning.h"

enum { RANKS = 3, OPERATIONS = 60, AT_ONCE = 4 };

#ifdef __SANITIZE_THREAD__
enum { STEP = 27, LARGE = 100000 }; /* that takes five times as long */
#else
enum { STEP = 9, LARGE = 300000 };
#endif

/* Which servers end when rank 0 has begun which operation, after so many microseconds. */
struct ending {
	unsigned server;
	int operation;
	unsigned delay_us;
};

struct history {
	struct pool *pool;
	const struct ending *losses;
	unsigned nlosses;
	atomic_int begun;
};

static void *end_servers(void *arg)
{
	struct history *history = arg;

	for (unsigned i = 0; i < history->nlosses; i++) {
		const struct ending *loss = &history->losses[i];

		while (atomic_load(&history->begun) < loss->operation) {
			usleep(50);
		}
		usleep(loss->delay_us);
		pool_end_server(history->pool, loss->server, 1);
	}
	return NULL;
}

static size_t size_of(int operation)
{
	static const size_t sizes[] = {1, 1000, LARGE, 0, 70000, 20000};

	return pool_count(sizes[operation % 6]);
}

static size_t large(void)
{
	return size_of(2);
}

static void fill(float *buffer, int rank, int operation)
{
	pool_fill(buffer, rank, operation, size_of(operation));
}

static void check_sum(const float *buffer, int operation)
{
	pool_check_sum(buffer, RANKS, operation, size_of(operation));
}

static void note_begun(const struct pool_rank *rank, int operation)
{
	struct history *history = rank->argument;

	if (rank->rank == 0) {
		atomic_store(&history->begun, operation + 1);
	}
}

/* One after the other, each into the buffers of the one before: what was returned is overwritten.
 */
static void run_blocking(struct pool_rank *rank)
{
	float *send = malloc(large() * sizeof(*send));
	float *recv = malloc(large() * sizeof(*recv));

	for (int k = 0; k < OPERATIONS; k++) {
		size_t count = size_of(k);
		int root = k % RANKS;

		note_begun(rank, k);
		fill(send, rank->rank, k);
		switch (k / 6 % 4) {
		case 0:
			CHECK(smd_allreduce(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM) ==
				0);
			check_sum(recv, k);
			break;
		case 1:
			CHECK(smd_allreduce(rank->comm, send, send, count, SMD_FLOAT32, SMD_SUM) ==
				0);
			check_sum(send, k);
			break;
		case 2:
			CHECK(smd_reduce(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM,
				      root) == 0);
			if (rank->rank == root) {
				check_sum(recv, k);
			}
			break;
		default:
			CHECK(smd_broadcast(rank->comm, send, count, SMD_FLOAT32, root) == 0);
			for (size_t i = 0; i < count; i++) {
				CHECK(send[i] == pool_element(root, k, i));
			}
			break;
		}
		memset(send, 0xee, count * sizeof(*send));
		memset(recv, 0xee, count * sizeof(*recv));
	}
	free(send);
	free(recv);
}

/* Several at once; rank 2 waits for each before it begins the next. */
static void run_at_once(struct pool_rank *rank)
{
	float *buffers[AT_ONCE];
	smd_request *requests[AT_ONCE];
	uint64_t generation = rank->context->generation;

	for (int i = 0; i < AT_ONCE; i++) {
		buffers[i] = malloc(large() * sizeof(float));
	}
	for (int k = 0; k < OPERATIONS; k++) {
		int i = k % AT_ONCE;

		note_begun(rank, k);
		if (k >= AT_ONCE && rank->rank != 2) {
			CHECK(smd_request_wait(requests[i]) == 0);
			check_sum(buffers[i], k - AT_ONCE);
		}
		fill(buffers[i], rank->rank, k);
		CHECK(smd_allreduce_start(rank->comm, buffers[i], buffers[i], size_of(k),
			      SMD_FLOAT32, SMD_SUM, &requests[i]) == 0);
		if (rank->rank == 2) {
			CHECK(smd_request_wait(requests[i]) == 0);
			check_sum(buffers[i], k);
		}
	}
	for (int k = OPERATIONS - AT_ONCE; k < OPERATIONS && rank->rank != 2; k++) {
		CHECK(smd_request_wait(requests[k % AT_ONCE]) == 0);
		check_sum(buffers[k % AT_ONCE], k);
	}
	/* What was in flight when all that rank 0 measures began anew does not count (tuning.h). */
	CHECK(rank->rank || rank->comm->tuning->open == 0);
	/* Each asks what was unmapped before its buffers are used: those too that were kept back.
	 */
	CHECK(rank->context->generation == generation + OPERATIONS);
	for (int i = 0; i < AT_ONCE; i++) {
		free(buffers[i]);
	}
}

static void run_with(const struct smd_server_config *configs, const char *transport,
	unsigned nservers, const struct ending *losses, unsigned nlosses,
	void (*body)(struct pool_rank *rank))
{
	struct pool pool;
	struct history history = {.pool = &pool, .losses = losses, .nlosses = nlosses};
	pthread_t thread;

	pool_start(&pool, transport, nservers, configs);
	CHECK(pthread_create(&thread, NULL, end_servers, &history) == 0);
	pool_run(&pool, RANKS, "lost", body, &history);
	pthread_join(thread, NULL);
	pool_stop(&pool);
}

static void run(const char *transport, unsigned nservers, const struct ending *losses,
	unsigned nlosses, void (*body)(struct pool_rank *rank))
{
	run_with(NULL, transport, nservers, losses, nlosses, body);
}

static const char *const transports[] = {"tcp", "loopback"};

/* Over RDMA, on an emulated processor, one way to lose it must do: in the midst of broadcasts,
 * which are the operations from 18 to 23. In loopback ranks do not meet. */
static unsigned transports_used(void)
{
	return pool_is_rdma() || pool_is_exchange() ? 1 : 2;
}

static int first_loss(void)
{
	return pool_is_rdma() ? 19 : 1;
}

static int step(int step)
{
	return pool_is_rdma() ? OPERATIONS : step;
}

static void one_is_lost_at_any_operation(void **state)
{
	(void)state;
	for (unsigned t = 0; t < transports_used(); t++) {
		for (int k = first_loss(); k < OPERATIONS; k += step(STEP)) {
			const struct ending loss = {(unsigned)k % 3, k, (unsigned)k * 37 % 1500};

			run(transports[t], 3, &loss, 1, run_blocking);
			run(transports[t], 3, &loss, 1, run_at_once);
		}
	}
}

static void two_are_lost(void **state)
{
	(void)state;
	for (unsigned t = 0; t < transports_used(); t++) {
		for (int k = first_loss(); k < OPERATIONS; k += step(STEP + 4)) {
			const struct ending losses[] = {
				{0, k, (unsigned)k * 29 % 900}, {2, k, (unsigned)k * 13 % 300}};

			if (!pool_is_rdma()) {
				run(transports[t], 3, losses, 2, run_blocking);
			}
			run(transports[t], 4, losses, 2, run_at_once);
		}
	}
}

enum { MANY = 100 }; /* communicators of a process: more than groups that may form at once */

/* Each has an operation in flight when the server ends; then another. */
static void run_many(struct pool_rank *rank)
{
	smd_comm *comms[MANY];
	smd_request *requests[MANY];
	float values[MANY];

	for (int i = 0; i < MANY; i++) {
		char group[32];

		snprintf(group, sizeof(group), "many-%d", i);
		CHECK(smd_comm_create(rank->context, group, RANKS, rank->rank, &comms[i]) == 0);
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			note_begun(rank, round * MANY + i);
			values[i] = pool_element(rank->rank, round, (size_t)i);
			CHECK(smd_allreduce_start(comms[i], &values[i], &values[i], 1, SMD_FLOAT32,
				      SMD_SUM, &requests[i]) == 0);
		}
		for (int i = 0; i < MANY; i++) {
			CHECK(smd_request_wait(requests[i]) == 0);
			CHECK(values[i] == pool_sum(RANKS, round, (size_t)i));
		}
	}
	for (int i = 0; i < MANY; i++) {
		smd_comm_destroy(comms[i]);
	}
}

static void many_communicators_go_on_at_once(void **state)
{
	/* A stream has a slot of its own. */
	const struct smd_server_config small = {
		.shards = 1, .chunk_bytes = 4096, .memory_bytes = 32 << 20};
	const struct smd_server_config configs[] = {small, small};
	const struct ending loss = {1, MANY - 1, 0};

	(void)state;
	run_with(configs, "tcp", 2, &loss, 1, run_many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_lost_at_any_operation),
		cmocka_unit_test(two_are_lost),
		cmocka_unit_test(many_communicators_go_on_at_once),
	};
	const struct CMUnitTest over_rdma[] = {
		cmocka_unit_test(one_is_lost_at_any_operation),
		cmocka_unit_test(two_are_lost),
	};

	if (pool_is_rdma()) {
		return cmocka_run_group_tests(over_rdma, NULL, NULL);
	}

	return cmocka_run_group_tests(tests, NULL, pool_check_exchanged);
}
