/* All-reduce through a pool in one process: right sums, in rank order, many at once, over each
 * transport. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"

static void sum_sizes(struct pool_rank *rank)
{
	static const size_t counts[] = {0, 1, 2, 15, 1000, 4096, 4097, 65536, 100003, 1 << 20};

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		size_t count = counts[c] > 4097 ? pool_count(counts[c]) : counts[c];
		float *in = malloc((count + 1) * sizeof(*in));
		float *out = malloc((count + 1) * sizeof(*out));

		pool_fill(in, rank->rank, (int)c, count);
		CHECK(smd_allreduce(rank->comm, in, out, count, SMD_FLOAT32, SMD_SUM) == 0);
		pool_check_sum(out, rank->nranks, (int)c, count);
		CHECK(smd_allreduce(rank->comm, in, in, count, SMD_FLOAT32, SMD_SUM) == 0);
		pool_check_sum(in, rank->nranks, (int)c, count);
		free(in);
		free(out);
	}
}

static void sums_are_right(const char *transport, unsigned nservers, int nranks,
	const struct smd_server_config *configs)
{
	struct pool pool;

	pool_start(&pool, transport, nservers, configs);
	pool_run(&pool, nranks, "sum", sum_sizes, NULL);
	pool_stop(&pool);
	for (unsigned i = 0; i < nservers; i++) {
		assert_true(pool.servers[i].stats.chunks > 0);
		assert_true(pool.servers[i].stats.moved.bytes_received > 0);
	}
}

static void sums_over_loopback(void **state)
{
	(void)state;
	if (pool_is_shm()) {
		skip(); /* they would go over that, as those of the next test do */
	}
	sums_are_right("loopback", 1, 1, NULL);
	sums_are_right("loopback", 2, 3, NULL);
}

static void sums_over_tcp(void **state)
{
	(void)state;
	sums_are_right("tcp", 1, 2, NULL);
	sums_are_right("tcp", 3, 4, NULL);
}

/* The workers' side of it is in the environment. */
static void sums_over_tls(void **state)
{
	char every[] = "token";
	const struct smd_tokens tokens = {.every = every};
	struct smd_server_config configs[3];
	char path[] = "/tmp/summand-token-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	if (pool_is_shm() || !smd_transport_can_encrypt(smd_transport_find("tcp"))) {
		skip();
	}
	assert_int_equal(write(fd, "token", 5), 5);
	close(fd);
	for (int i = 0; i < 3; i++) {
		configs[i] = (struct smd_server_config){.tokens = &tokens, .encrypt = true};
	}
	setenv("SUMMAND_TOKEN_FILE", path, 1);
	setenv("SUMMAND_TLS", "1", 1);
	sums_are_right("tcp", 1, 2, configs);
	sums_are_right("tcp", 3, 4, configs);
	unsetenv("SUMMAND_TLS");
	unsetenv("SUMMAND_TOKEN_FILE");
	unlink(path);
}

/* Many operations in flight, of two communicators, started in different orders on different ranks.
 */
static void interleave(struct pool_rank *rank)
{
	enum { OPERATIONS = 20 };
	const size_t count = pool_count(30000);
	smd_comm *second;
	smd_comm *comms[2];
	smd_request *requests[2][OPERATIONS];
	float *buffers[2][OPERATIONS];

	CHECK(smd_comm_create(rank->context, "second", rank->nranks, rank->rank, &second) == 0);
	comms[0] = rank->comm;
	comms[1] = second;
	for (int k = 0; k < 2 * OPERATIONS; k++) {
		int c = rank->rank % 2 ? k % 2 : k / OPERATIONS;
		int o = rank->rank % 2 ? k / 2 : k % OPERATIONS;
		float *buffer = malloc(count * sizeof(*buffer));

		pool_fill(buffer, rank->rank, o, count);
		buffers[c][o] = buffer;
		CHECK(smd_allreduce_start(comms[c], buffer, buffer, count, SMD_FLOAT32, SMD_SUM,
			      &requests[c][o]) == 0);
	}
	for (int c = 1; c >= 0; c--) {
		for (int o = OPERATIONS - 1; o >= 0; o--) {
			CHECK(smd_request_wait(requests[c][o]) == 0);
			pool_check_sum(buffers[c][o], rank->nranks, o, count);
			free(buffers[c][o]);
		}
	}
	smd_comm_destroy(second);
}

static void communicators_interleave(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 2, NULL);
	pool_run(&pool, 4, "first", interleave, NULL);
	pool_stop(&pool);
}

static void wrap(struct pool_rank *rank)
{
	int32_t values[3] = {INT32_MAX, rank->rank, -rank->rank};

	CHECK(smd_allreduce(rank->comm, values, values, 3, SMD_INT32, SMD_SUM) == 0);
	CHECK(values[0] == (int32_t)(3u * (uint32_t)INT32_MAX));
	CHECK(values[1] == 3);
	CHECK(values[2] == -3);
}

static void integers_wrap(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "loopback", 1, NULL);
	pool_run(&pool, 3, "wrap", wrap, NULL);
	pool_stop(&pool);
}

static void barrier(struct pool_rank *rank)
{
	for (int i = 0; i < 50; i++) {
		CHECK(smd_barrier(rank->comm) == 0);
	}
}

/* A pool so small that no communicator gets more than its sure slot, and more communicators than
 * windows fit. */
static void small_memory_is_enough(void **state)
{
	struct smd_server_config config = {.shards = 1,
		.chunk_bytes = 64 << 10,
		.memory_bytes = 9 * SMD_BUFFER_POOL_STRIDE(64 << 10)};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, &config);
	pool_run(&pool, 3, "small", sum_sizes, NULL);
	pool_run(&pool, 2, "again", barrier, NULL);
	pool_stop(&pool);
}

static void shares_follow_bandwidth(void **state)
{
	struct smd_server_config configs[2] = {
		{.shards = 1, .chunk_bytes = 16 << 10, .bandwidth_mbps = 750},
		{.shards = 1, .chunk_bytes = 16 << 10, .bandwidth_mbps = 250},
	};
	struct pool pool;
	double share;

	(void)state;
	pool_start(&pool, "loopback", 2, configs);
	pool_run(&pool, 2, "shares", sum_sizes, NULL);
	pool_stop(&pool);
	share = (double)pool.servers[0].stats.moved.bytes_received /
		(double)(pool.servers[0].stats.moved.bytes_received +
			 pool.servers[1].stats.moved.bytes_received);
	assert_true(share > 0.73 && share < 0.77);
}

static void stats(struct pool_rank *rank)
{
	struct smd_stats stats;
	float values[1000] = {0};

	CHECK(smd_allreduce(rank->comm, values, values, 1000, SMD_FLOAT32, SMD_SUM) == 0);
	smd_context_stats(rank->context, &stats);
	CHECK(stats.operations == 1);
	CHECK(stats.bytes_reduced == 4000);
	CHECK(stats.bytes_sent > 4000);
	CHECK(stats.bytes_received > 4000);
	CHECK(stats.busy_seconds > 0);
	CHECK(stats.epochs == 0);
	CHECK(stats.history_bytes == 4000); /* until others are known to have it */
	CHECK(stats.history_limit == 4 << 20);
}

/* What is printed is the process's: of both communicators. */
static void two_histories(struct pool_rank *rank)
{
	struct smd_stats stats;
	float values[1000] = {0};
	smd_comm *other;

	CHECK(smd_comm_create(rank->context, "other", 2, rank->rank, &other) == 0);
	CHECK(smd_allreduce(rank->comm, values, values, 1000, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(smd_allreduce(other, values, values, 500, SMD_FLOAT32, SMD_SUM) == 0);
	smd_context_stats(rank->context, &stats);
	CHECK(stats.history_bytes == 4000 + 2000);
	CHECK(stats.history_limit == 8 << 20);
	smd_comm_destroy(other);
	smd_context_stats(rank->context, &stats);
	CHECK(stats.history_bytes == 4000 + 2000);
}

static void histories_add_up(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "loopback", 1, NULL);
	pool_run(&pool, 2, "histories", two_histories, NULL);
	pool_stop(&pool);
}

/* A chunk each, of one server after another: what one says of all operations frees the others'. */
static void one_after_another(struct pool_rank *rank)
{
	struct smd_stats stats;
	float values[1000] = {0};

	for (int i = 0; i < 20; i++) {
		CHECK(smd_allreduce(rank->comm, values, values, 1000, SMD_FLOAT32, SMD_SUM) == 0);
	}
	smd_context_stats(rank->context, &stats);
	CHECK(stats.history_bytes == 4000);
}

static void history_is_of_the_last_operation(void **state)
{
	const struct smd_server_config configs[3] = {{.shards = 1}, {.shards = 1}, {.shards = 1}};
	struct pool pool;

	(void)state;
	pool_start(&pool, "loopback", 3, configs);
	pool_run(&pool, 2, "history", one_after_another, NULL);
	pool_stop(&pool);
}

static void half_a_mib(struct pool_rank *rank)
{
	const bool *leaves = rank->argument;
	const size_t count = (512 << 10) / sizeof(float);
	float *values = calloc(count, sizeof(*values));
	struct smd_stats stats;

	CHECK(values && smd_allreduce(rank->comm, values, values, count, SMD_FLOAT32, SMD_SUM) == 0);
	smd_context_stats(rank->context, &stats);
	CHECK((stats.history_bytes > 0) == *leaves); /* of the chunks that are not stable yet */
	free(values);
}

/* A copy instead of a round trip, but where links are so fast that the copy would take longer. */
static void fast_links_leave_smaller_copies(void **state)
{
	static const struct {
		uint32_t mbps;
		bool leaves;
	} cases[] = {{50000, true}, {50001, false}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct smd_server_config config = {
			.shards = 1, .bandwidth_mbps = cases[i].mbps};
		struct pool pool;

		pool_start(&pool, "loopback", 1, &config);
		pool_run(&pool, 2, "copies", half_a_mib, (void *)&cases[i].leaves);
		pool_stop(&pool);
	}
}

static void statistics_count(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, NULL);
	pool_run(&pool, 2, "stats", stats, NULL);
	pool_stop(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_over_loopback),
		cmocka_unit_test(sums_over_tcp),
		cmocka_unit_test(sums_over_tls),
		cmocka_unit_test(communicators_interleave),
		cmocka_unit_test(integers_wrap),
		cmocka_unit_test(small_memory_is_enough),
		cmocka_unit_test(shares_follow_bandwidth),
		cmocka_unit_test(histories_add_up),
		cmocka_unit_test(history_is_of_the_last_operation),
		cmocka_unit_test(fast_links_leave_smaller_copies),
		cmocka_unit_test(statistics_count),
	};
	const struct CMUnitTest over_rdma[] = {
		cmocka_unit_test(sums_over_tcp),
		cmocka_unit_test(communicators_interleave),
		cmocka_unit_test(small_memory_is_enough),
	};

	if (pool_is_rdma()) {
		return cmocka_run_group_tests(over_rdma, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
