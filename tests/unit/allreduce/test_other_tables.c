/*
 * Other weights, shards and chunks in mid-run: rank 0 wants some before every third operation, and
 * every result is what it would have been (specs/design/epochs.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/random.h"
#include "tests/unit/allreduce/fixture.h"
#include "worker/libsummand/comm.h"
#include "worker/libsummand/tuning.h"

enum { RANKS = 3, LARGE = 200000, AT_ONCE = 3, EVERY = 3 };

#ifdef __SANITIZE_THREAD__
enum { OPERATIONS = 60 }; /* each takes ten times as long */
#else
enum { OPERATIONS = 150 };
#endif

/* Instead of what rank 0 has measured. */
bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns);

bool __wrap_smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	static _Thread_local uint64_t state = 1;

	(void)now_ns;
	if (smd_random_next(&state) % EVERY) {
		return false;
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	tuning->scale = (int)(smd_random_next(&state) % 7) + SMD_CHUNK_SCALE_LEAST;
	tuning->search.wanted = tuning->scale;
	for (unsigned s = 0; s < tuning->nshards; s++) {
		bool spare = s > 0 && tuning->shards[s].server == tuning->shards[s - 1].server;

		tuning->weights[s] = 1 + (uint32_t)(smd_random_next(&state) % 50);
		if (spare && smd_random_next(&state) % 2) {
			tuning->weights[s] = 0;
		}
	}
	return true;
}

static size_t size_of(int operation)
{
	static const size_t sizes[] = {1, 3000, LARGE, 0, 70000};

	return sizes[operation % 5];
}

static void run_operations(struct pool_rank *rank)
{
	unsigned *epochs = rank->argument;
	float *buffers[AT_ONCE];
	smd_request *requests[AT_ONCE];

	for (int i = 0; i < AT_ONCE; i++) {
		buffers[i] = malloc(LARGE * sizeof(float));
	}
	for (int k = 0; k < OPERATIONS + AT_ONCE; k++) {
		int at = k % AT_ONCE;

		if (k >= AT_ONCE) {
			CHECK(smd_request_wait(requests[at]) == 0);
			pool_check_sum(buffers[at], RANKS, k - AT_ONCE, size_of(k - AT_ONCE));
		}
		if (k < OPERATIONS) {
			pool_fill(buffers[at], rank->rank, k, size_of(k));
			CHECK(smd_allreduce_start(rank->comm, buffers[at], buffers[at], size_of(k),
				      SMD_FLOAT32, SMD_SUM, &requests[at]) == 0);
		}
	}
	CHECK(smd_barrier(rank->comm) == 0);
	if (rank->rank == 0) {
		struct smd_stats stats;

		smd_context_stats(rank->comm->context, &stats); /* a table may come even now */
		*epochs = (unsigned)stats.epochs;
	}
	for (int i = 0; i < AT_ONCE; i++) {
		free(buffers[i]);
	}
}

static void run(const char *transport, unsigned nservers)
{
	const struct smd_server_config enough = {.memory_bytes = 512u << 20};
	const struct smd_server_config configs[] = {enough, enough, enough};
	struct pool pool;
	unsigned epochs = 0;

	pool_start(&pool, transport, nservers, configs);
	pool_run(&pool, RANKS, "tables", run_operations, &epochs);
	pool_stop(&pool);
	assert_true(epochs > 3);
}

static void results_are_the_same(void **state)
{
	(void)state;
	run("tcp", 3);
	run("loopback", 2);
	run("tcp", 1);
}

/* What is kept of operations of the table before leaves too, once all ranks have it. */
static void run_small_operations(struct pool_rank *rank)
{
	enum { SMALL = 2000, MANY = 400 };
	static _Thread_local float buffer[SMALL];

	run_operations(rank);
	for (int k = 0; k < MANY; k++) {
		memset(buffer, 0, sizeof(buffer));
		CHECK(smd_allreduce(rank->comm, buffer, buffer, SMALL, SMD_FLOAT32, SMD_SUM) == 0);
	}
	CHECK(rank->comm->history.next - rank->comm->history.first < MANY / 4);
}

static void the_history_goes_on(void **state)
{
	const struct smd_server_config config = {.memory_bytes = 512u << 20};
	struct pool pool;
	unsigned epochs = 0;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	pool_run(&pool, RANKS, "tables", run_small_operations, &epochs);
	pool_stop(&pool);
	assert_true(epochs > 3);
}

/* Streams that are only for other tables may be refused: nothing else is. */
static void without_memory_the_table_stays(void **state)
{
	struct smd_server_config config = {
		.shards = 1, .memory_bytes = 10 << 16, .chunk_bytes = 1 << 16};
	struct pool pool;
	unsigned epochs = 0;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	pool_run(&pool, RANKS, "tables", run_operations, &epochs);
	pool_stop(&pool);
	assert_int_equal(epochs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_are_the_same),
		cmocka_unit_test(the_history_goes_on),
		cmocka_unit_test(without_memory_the_table_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
