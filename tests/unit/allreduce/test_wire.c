/*
 * All-reduces of float32 that send two bytes an element (SUMMAND_WIRE, smd_comm_set_wire()): what
 * their results are to the bit, in place and not, whatever the chunks and servers; and that nothing
 * else is touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/kernels/convert.h"
#include "tests/unit/allreduce/fixture.h"

enum { RANKS = 3, MANY = 16, SERVERS = 2, LARGE = 30000 };

/* Small chunks, so that an operation has many. */
static const struct smd_server_config configs[POOL_SERVERS_MAX] = {
	{.shards = 2, .chunk_bytes = 4096, .window = 4},
	{.shards = 1, .chunk_bytes = 4096, .window = 4},
	{.shards = 1, .chunk_bytes = 4096, .window = 4},
};

/* Neither type has it exactly, mostly. */
static float element(int rank, size_t i)
{
	return (float)((double)((i * 2654435761u + (size_t)rank * 40503u) % 100003) / 1000.0 -
		       50.0);
}

static float rounded(enum smd_dtype wire, float value)
{
	uint16_t narrow;

	if (wire == SMD_FLOAT32) {
		return value;
	}
	smd_element_encode(&narrow, wire, (double)value);
	return (float)smd_element_decode(&narrow, wire);
}

/* Fewer are sent as they are (SMD_WIRE_LEAST). */
static enum smd_dtype wire_of(enum smd_dtype wire, size_t count)
{
	return count < 1024 ? SMD_FLOAT32 : wire;
}

/* Each rank's element is rounded, they are summed in rank order, and the sum is rounded. */
static float expected(enum smd_dtype wire, int nranks, size_t i)
{
	float sum = rounded(wire, element(0, i));

	for (int r = 1; r < nranks; r++) {
		sum += rounded(wire, element(r, i));
	}
	return rounded(wire, sum);
}

static float inputs[MANY][LARGE];
static float sums[SMD_DTYPE_COUNT][LARGE]; /* by what is sent */

/*
 * Computed once for all that is compared with them: that takes longer than all else with a
 * sanitizer, and where the processor is emulated (rdma.machine).
 */
static void compute_sums(int nranks)
{
	static const enum smd_dtype wires[] = {SMD_FLOAT32, SMD_FLOAT16, SMD_BFLOAT16};
	static int computed;

	if (computed == nranks) {
		return;
	}
	for (int r = 0; r < nranks; r++) {
		for (size_t i = 0; i < LARGE; i++) {
			inputs[r][i] = element(r, i);
		}
	}
	for (size_t k = 0; k < sizeof(wires) / sizeof(wires[0]); k++) {
		for (size_t i = 0; i < LARGE; i++) {
			sums[wires[k]][i] = expected(wires[k], nranks, i);
		}
	}
	computed = nranks;
}

static void run(struct pool *pool, int nranks, const char *group,
	void (*body)(struct pool_rank *rank), void *argument)
{
	compute_sums(nranks);
	pool_run(pool, nranks, group, body, argument);
}

static void fill(float *buffer, int rank, size_t count)
{
	memcpy(buffer, inputs[rank], count * sizeof(float));
}

static void check_sums(const float *buffer, enum smd_dtype wire, size_t count)
{
	CHECK(memcmp(buffer, sums[wire_of(wire, count)], count * sizeof(float)) == 0);
}

struct tensors {
	float *send;
	float *recv;
};

static struct tensors make_buffers(void)
{
	struct tensors buffers = {malloc(LARGE * sizeof(float)), malloc(LARGE * sizeof(float))};

	CHECK(buffers.send && buffers.recv);
	return buffers;
}

static void free_buffers(struct tensors *buffers)
{
	free(buffers->send);
	free(buffers->recv);
}

/* ---- the bits of results ---- */

static const size_t counts[] = {1, 1023, 1024, 1025, 2047, 2048, 2049, 4097, 10001, LARGE};

/* As blocking calls, and as requests that are tested until they are done. */
static void reduce(
	struct pool_rank *rank, const float *send, float *recv, size_t count, bool started)
{
	smd_request *request;
	int done;

	if (!started) {
		CHECK(smd_allreduce(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM) == 0);
		return;
	}
	CHECK(smd_allreduce_start(rank->comm, send, recv, count, SMD_FLOAT32, SMD_SUM, &request) ==
		0);
	do {
		done = smd_request_test(request);
	} while (done == 0);
	CHECK(done == 1);
	check_sums(recv, *(enum smd_dtype *)rank->argument, count); /* it is there now */
	CHECK(smd_request_wait(request) == 0);
}

static void reduce_all_counts(struct pool_rank *rank)
{
	enum smd_dtype wire = *(enum smd_dtype *)rank->argument;
	struct tensors buffers = make_buffers();

	CHECK(smd_comm_set_wire(rank->comm, wire) == 0);
	for (size_t k = 0; k < 2 * sizeof(counts) / sizeof(counts[0]); k++) {
		size_t count = counts[k / 2];

		fill(buffers.send, rank->rank, count);
		memset(buffers.recv, 0x5a, LARGE * sizeof(float));
		reduce(rank, buffers.send, buffers.recv, count, k % 2);
		check_sums(buffers.recv, wire, count);
		/* The input is the caller's. */
		CHECK(memcmp(buffers.send, inputs[rank->rank], count * sizeof(float)) == 0);
		if (count < LARGE) {
			uint32_t beyond;

			memcpy(&beyond, &buffers.recv[count], sizeof(beyond));
			CHECK(beyond == 0x5a5a5a5a);
		}
		reduce(rank, buffers.send, buffers.send, count, k % 2);
		check_sums(buffers.send, wire, count);
	}
	free_buffers(&buffers);
}

static void run_all_counts(const char *transport, enum smd_dtype wire)
{
	struct pool pool;

	pool_start(&pool, transport, SERVERS, configs);
	run(&pool, RANKS, "wire", reduce_all_counts, &wire);
	pool_stop(&pool);
}

static void inputs_and_sums_are_rounded_once(void **state)
{
	(void)state;
	run_all_counts("tcp", SMD_BFLOAT16);
	if (pool_is_rdma()) { /* the bytes are all that lanes see */
		return;
	}
	run_all_counts("tcp", SMD_FLOAT16);
	run_all_counts("tcp", SMD_FLOAT32);
	run_all_counts("fault", SMD_BFLOAT16);
}

static void reduce_specials(struct pool_rank *rank)
{
	enum { COUNT = 1024 };
	float values[COUNT] = {INFINITY, rank->rank == 1 ? NAN : 1,
		rank->rank ? -INFINITY : INFINITY, 1e38f, rank->rank == 0 ? -0.0f : 0, 60000,
		1e-30f};

	CHECK(smd_comm_set_wire(rank->comm, SMD_FLOAT16) == 0);
	CHECK(smd_allreduce(rank->comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(isinf(values[0]) && isnan(values[1]) && isnan(values[2]));
	CHECK(isinf(values[3])); /* float16 ends at 65504 */
	CHECK(values[4] == 0);
	CHECK(isinf(values[5])); /* and the sum does not fit */
	CHECK(values[6] == 0);
}

static void what_float16_cannot_hold_becomes_infinite(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "loopback", 1, configs);
	run(&pool, RANKS, "specials", reduce_specials, NULL);
	pool_stop(&pool);
}

/* ---- several threads test one request ---- */

static void *test_until_done(void *arg)
{
	smd_request *request = *(smd_request **)arg;

	while (smd_request_test(request) == 0) {
	}
	return NULL;
}

static void test_together(struct pool_rank *rank)
{
	struct tensors buffers = make_buffers();
	pthread_t threads[3];

	CHECK(smd_comm_set_wire(rank->comm, SMD_BFLOAT16) == 0);
	for (int round = 0; round < 20; round++) {
		smd_request *request;

		fill(buffers.send, rank->rank, LARGE);
		CHECK(smd_allreduce_start(rank->comm, buffers.send, buffers.recv, LARGE,
			      SMD_FLOAT32, SMD_SUM, &request) == 0);
		for (int k = 0; k < 3; k++) {
			CHECK(pthread_create(&threads[k], NULL, test_until_done, &request) == 0);
		}
		for (int k = 0; k < 3; k++) {
			pthread_join(threads[k], NULL);
		}
		CHECK(smd_request_wait(request) == 0);
		check_sums(buffers.recv, SMD_BFLOAT16, LARGE);
	}
	free_buffers(&buffers);
}

static void several_threads_may_test_one_request(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, configs);
	run(&pool, 2, "together", test_together, NULL);
	pool_stop(&pool);
}

/* ---- the error, beside that of a hook that lets a ring add in bfloat16 ---- */

/* torch's bf16_compress_hook: the sum is rounded at each hop of the ring. */
static float hop_by_hop(int nranks, size_t i)
{
	float sum = rounded(SMD_BFLOAT16, element(0, i));

	for (int r = 1; r < nranks; r++) {
		sum = rounded(SMD_BFLOAT16, sum + rounded(SMD_BFLOAT16, element(r, i)));
	}
	return sum;
}

struct errors {
	double ours;
	double theirs;
};

static void add_errors(struct errors *errors, int nranks, size_t i, float result)
{
	double exact = 0;
	double magnitude = 0;
	double off;

	for (int r = 0; r < nranks; r++) {
		exact += (double)element(r, i);
		magnitude += fabs((double)element(r, i));
	}
	off = fabs((double)result - exact);
	/* 2^-8 of each input and of the sum; the sum in float32 adds next to nothing. */
	CHECK(off <= (magnitude + fabs(exact)) * 0x1p-8 + 1e-4);
	errors->ours += off;
	errors->theirs += fabs((double)hop_by_hop(nranks, i) - exact);
}

static void reduce_and_measure(struct pool_rank *rank)
{
	struct tensors buffers = make_buffers();

	CHECK(smd_comm_set_wire(rank->comm, SMD_BFLOAT16) == 0);
	fill(buffers.send, rank->rank, LARGE);
	CHECK(smd_allreduce(rank->comm, buffers.send, buffers.recv, LARGE, SMD_FLOAT32, SMD_SUM) ==
		0);
	check_sums(buffers.recv, SMD_BFLOAT16, LARGE); /* the same on all ranks */
	for (size_t i = 0; rank->rank == 0 && i < LARGE; i++) {
		add_errors(rank->argument, rank->nranks, i, buffers.recv[i]);
	}
	free_buffers(&buffers);
}

static void the_error_is_less_than_that_of_rounding_at_each_hop(void **state)
{
	struct errors errors = {0, 0};
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, &configs[1]);
	run(&pool, MANY, "errors", reduce_and_measure, &errors);
	pool_stop(&pool);
	print_message("mean error, %d ranks: %.4f; rounded at each hop: %.4f\n", MANY,
		errors.ours / LARGE, errors.theirs / LARGE);
	assert_true(errors.ours > 0); /* it was sent in two bytes */
	assert_true(errors.ours * 1.2 < errors.theirs);
}

/* ---- what is not touched ---- */

static void use_other_operations(struct pool_rank *rank)
{
	struct tensors buffers = make_buffers();
	double exact = 1.0 + 0x1p-40 * (rank->rank + 1);

	CHECK(smd_comm_set_wire(rank->comm, SMD_BFLOAT16) == 0);
	fill(buffers.send, rank->rank, LARGE);
	CHECK(smd_reduce(rank->comm, buffers.send, buffers.recv, LARGE, SMD_FLOAT32, SMD_SUM, 1) ==
		0);
	if (rank->rank == 1) {
		check_sums(buffers.recv, SMD_FLOAT32, LARGE);
	}
	CHECK(smd_broadcast(rank->comm, buffers.send, LARGE, SMD_FLOAT32, 2) == 0);
	CHECK(memcmp(buffers.send, inputs[2], LARGE * sizeof(float)) == 0);
	CHECK(smd_allreduce(rank->comm, &exact, &exact, 1, SMD_FLOAT64, SMD_MAX) == 0);
	CHECK(exact == 1.0 + 0x1p-40 * rank->nranks);
	CHECK(smd_allreduce(rank->comm, NULL, NULL, 0, SMD_FLOAT32, SMD_SUM) == 0);
	CHECK(smd_barrier(rank->comm) == 0);
	/* Sent as it is again: the same operation, whole. */
	CHECK(smd_comm_set_wire(rank->comm, SMD_FLOAT32) == 0);
	fill(buffers.send, rank->rank, LARGE);
	CHECK(smd_allreduce(rank->comm, buffers.send, buffers.recv, LARGE, SMD_FLOAT32, SMD_SUM) ==
		0);
	check_sums(buffers.recv, SMD_FLOAT32, LARGE);
	CHECK(smd_comm_set_wire(rank->comm, SMD_INT8) == -EINVAL);
	CHECK(strstr(smd_error_message(), "nothing may be sent as int8"));
	free_buffers(&buffers);
}

static void other_operations_and_types_are_as_before(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", SERVERS, configs);
	run(&pool, RANKS, "others", use_other_operations, NULL);
	pool_stop(&pool);
}

static void disagree(struct pool_rank *rank)
{
	enum { COUNT = 1024 };
	float values[COUNT] = {0};

	CHECK(smd_comm_set_wire(rank->comm, rank->rank == 1 ? SMD_BFLOAT16 : SMD_FLOAT32) == 0);
	CHECK(smd_allreduce(rank->comm, values, values, COUNT, SMD_FLOAT32, SMD_SUM) == -EINVAL);
	CHECK(strstr(smd_error_message(), "bfloat16") && strstr(smd_error_message(), "float32"));
	CHECK(strstr(smd_error_message(), "rank-1"));
	CHECK(strstr(smd_error_message(), "(one may have another SUMMAND_WIRE)"));
}

static void ranks_that_do_not_choose_the_same_are_named(void **state)
{
	struct pool pool;

	(void)state;
	pool_start(&pool, "tcp", 1, configs);
	run(&pool, 2, "disagree", disagree, NULL);
	pool_stop(&pool);
}

static void the_environment_is_where_it_begins(void **state)
{
	const struct smd_context_options options = {
		.servers = "127.0.0.1:1", .connect_timeout_s = 1};
	enum smd_dtype wire = SMD_BFLOAT16;
	smd_context *context;
	struct pool pool;

	(void)state;
	setenv("SUMMAND_WIRE", "bf17", 1);
	assert_int_equal(smd_context_create(&options, &context), -EINVAL);
	assert_string_equal(
		smd_error_message(), "SUMMAND_WIRE: must be float32, bf16 or fp16, got \"bf17\"");
	setenv("SUMMAND_WIRE", "fp16", 1);
	pool_start(&pool, "tcp", 1, configs);
	run(&pool, RANKS, "environment", reduce_all_counts, &wire);
	pool_stop(&pool);
	unsetenv("SUMMAND_WIRE");
}

/* ---- a server is lost on the way ---- */

enum { OPERATIONS = 60, LOST_AFTER = 20 };

struct progress {
	atomic_int begun;
	bool in_place;
};

static void reduce_on(struct pool_rank *rank)
{
	struct progress *progress = rank->argument;
	struct tensors buffers = make_buffers();

	CHECK(smd_comm_set_wire(rank->comm, SMD_BFLOAT16) == 0);
	for (int k = 0; k < OPERATIONS; k++) {
		size_t count = counts[sizeof(counts) / sizeof(counts[0]) - 1 - (size_t)k % 4];
		float *recv = progress->in_place ? buffers.send : buffers.recv;

		if (rank->rank == 0) {
			atomic_store(&progress->begun, k + 1);
		}
		fill(buffers.send, rank->rank, count);
		CHECK(smd_allreduce(rank->comm, buffers.send, recv, count, SMD_FLOAT32, SMD_SUM) ==
			0);
		check_sums(recv, SMD_BFLOAT16, count);
	}
	free_buffers(&buffers);
}

struct killer {
	struct pool *pool;
	struct progress *progress;
};

static void *kill_one(void *arg)
{
	struct killer *killer = arg;

	while (atomic_load(&killer->progress->begun) < LOST_AFTER) {
		usleep(200);
	}
	pool_end_server(killer->pool, 1, 1);
	return NULL;
}

static void lose_a_server(bool in_place)
{
	struct progress progress = {.in_place = in_place};
	struct pool pool;
	struct killer killer = {&pool, &progress};
	pthread_t thread;

	pool_start(&pool, "tcp", 3, configs);
	assert_int_equal(pthread_create(&thread, NULL, kill_one, &killer), 0);
	run(&pool, RANKS, "lost", reduce_on, &progress);
	pthread_join(thread, NULL);
	pool_stop(&pool);
}

static void a_lost_server_changes_no_bit(void **state)
{
	(void)state;
	for (int k = 0; k < (pool_is_rdma() ? 2 : 4); k++) {
		lose_a_server(k % 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inputs_and_sums_are_rounded_once),
		cmocka_unit_test(what_float16_cannot_hold_becomes_infinite),
		cmocka_unit_test(several_threads_may_test_one_request),
		cmocka_unit_test(the_error_is_less_than_that_of_rounding_at_each_hop),
		cmocka_unit_test(other_operations_and_types_are_as_before),
		cmocka_unit_test(ranks_that_do_not_choose_the_same_are_named),
		cmocka_unit_test(the_environment_is_where_it_begins),
		cmocka_unit_test(a_lost_server_changes_no_bit),
	};
	/* What narrow sums have of lanes: that these write into memory which is widened meanwhile,
	 * and read again what is narrowed in place. */
	const struct CMUnitTest over_rdma[] = {
		cmocka_unit_test(inputs_and_sums_are_rounded_once),
		cmocka_unit_test(a_lost_server_changes_no_bit),
	};

	if (pool_is_rdma()) {
		return cmocka_run_group_tests(over_rdma, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
