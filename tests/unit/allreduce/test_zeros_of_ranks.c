/*
 * Sparse buffers, whose blocks of zeros are not sent: the bits of results are those that a kernel
 * makes of the whole inputs, of every type and reduction, in place and not, when a server is lost
 * on the way too; and the bytes that cross are fewer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/kernels.h"
#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"

enum { RANKS = 3, SERVERS = 2, BYTES = 400000, SPAN = 9000 };

#ifdef __SANITIZE_THREAD__
enum { STEP = 7 }; /* to threads all types and reductions are the same */
#else
enum { STEP = 1 };
#endif

/* Chunks of some blocks, and of none that is whole. */
static const struct smd_server_config configs[POOL_SERVERS_MAX] = {
	{.shards = 2, .chunk_bytes = 32768, .window = 4},
	{.shards = 1, .chunk_bytes = 20480, .window = 4},
	{.shards = 1, .chunk_bytes = 20480, .window = 4},
};

/* ---- inputs ---- */

/* Negative zeros, where the type has any; where not, the smallest numbers. */
static void fill_signs(uint8_t *bytes, size_t n, size_t size)
{
	for (size_t i = 0; i + size <= n; i += size) {
		bytes[i + size - 1] = 0x80;
	}
}

/*
 * Spans of zeros, of all ranks or of some; of negative zeros; of zeros with one byte that is none;
 * and of any bits at all.
 */
static void fill(uint8_t *bytes, size_t n, size_t size, int rank, unsigned number)
{
	uint64_t state = (uint64_t)rank * 7919 + number;

	memset(bytes, 0, n);
	for (size_t at = 0, span = number; at < n; at += SPAN, span++) {
		size_t length = n - at < SPAN ? n - at : SPAN;

		length -= length % size;
		switch (span % 6) {
		case 0:
			break;
		case 1:
			fill_signs(bytes + at, length, size);
			break;
		case 2:
			if (length && rank == 1) {
				bytes[at + length / 2] = 1;
			}
			break;
		case 3:
			if (rank == 0) {
				break;
			}
			/* fall through */
		default:
			for (size_t i = 0; i < length; i++) {
				state = state * 6364136223846793005u + 1442695040888963407u;
				bytes[at + i] = (uint8_t)(state >> 40);
			}
		}
	}
}

/* Any number of spans is whole elements of any type. */
_Static_assert(SPAN % 8 == 0, "a span must be whole elements");

struct sparse_inputs {
	uint8_t *inputs[RANKS]; /* of all ranks */
	uint8_t *expected;
	uint8_t *recv;
};

static struct sparse_inputs make_buffers(void)
{
	struct sparse_inputs buffers = {.expected = malloc(BYTES), .recv = malloc(BYTES)};

	CHECK(buffers.expected && buffers.recv);
	for (int r = 0; r < RANKS; r++) {
		buffers.inputs[r] = malloc(BYTES);
		CHECK(buffers.inputs[r]);
	}
	return buffers;
}

static void free_buffers(struct sparse_inputs *buffers)
{
	for (int r = 0; r < RANKS; r++) {
		free(buffers->inputs[r]);
	}
	free(buffers->expected);
	free(buffers->recv);
}

static void compute(
	struct sparse_inputs *buffers, unsigned dtype, unsigned op, size_t count, unsigned number)
{
	size_t size = smd_dtype_bytes(dtype);
	const void *inputs[RANKS];

	for (int r = 0; r < RANKS; r++) {
		fill(buffers->inputs[r], count * size, size, r, number);
		inputs[r] = buffers->inputs[r];
	}
	smd_kernel_find(dtype, op)(buffers->expected, inputs, RANKS, count);
}

/* ---- results ---- */

static void reduce_every_type(struct pool_rank *rank)
{
	struct sparse_inputs buffers = make_buffers();
	unsigned number = 0;

	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op < SMD_OP_COUNT; op++, number++) {
			size_t bytes = number % 3 == 2 ? BYTES : number % 3 ? 70001 : 4096;
			size_t count =
				smd_kernel_find(dtype, op) ? bytes / smd_dtype_bytes(dtype) : 0;
			uint8_t *send = buffers.inputs[rank->rank];

			if (count == 0 || number % STEP) {
				continue;
			}
			bytes = count * smd_dtype_bytes(dtype);
			compute(&buffers, dtype, op, count, number);
			memset(buffers.recv, 0xaa, BYTES);
			CHECK(smd_allreduce(rank->comm, send, buffers.recv, count, dtype, op) == 0);
			CHECK(memcmp(buffers.recv, buffers.expected, bytes) == 0);
			CHECK(smd_allreduce(rank->comm, send, send, count, dtype, op) == 0);
			CHECK(memcmp(send, buffers.expected, bytes) == 0);
		}
	}
	CHECK(number == SMD_DTYPE_COUNT * SMD_OP_COUNT);
	free_buffers(&buffers);
}

static void run(const char *transport, void (*body)(struct pool_rank *rank))
{
	struct pool pool;

	pool_start(&pool, transport, SERVERS, configs);
	pool_run(&pool, RANKS, "zeros", body, NULL);
	pool_stop(&pool);
}

static void every_type_and_reduction_has_its_bits(void **state)
{
	(void)state;
	run("tcp", reduce_every_type);
	run("loopback", reduce_every_type);
	run("fault over tcp", reduce_every_type);
}

static void move(struct pool_rank *rank)
{
	struct sparse_inputs buffers = make_buffers();
	size_t count = BYTES / sizeof(float);

	for (unsigned number = 0; number < 6; number++) {
		uint8_t *send = buffers.inputs[rank->rank];

		compute(&buffers, SMD_FLOAT32, SMD_SUM, count, number);
		CHECK(smd_reduce(rank->comm, send, buffers.recv, count, SMD_FLOAT32, SMD_SUM, 1) ==
			0);
		CHECK(rank->rank != 1 || memcmp(buffers.recv, buffers.expected, BYTES) == 0);
		memcpy(buffers.expected, buffers.inputs[2], BYTES);
		CHECK(smd_broadcast(rank->comm, send, count, SMD_FLOAT32, 2) == 0);
		CHECK(memcmp(send, buffers.expected, BYTES) == 0);
	}
	free_buffers(&buffers);
}

static void reduce_and_broadcast_do_too(void **state)
{
	(void)state;
	run("tcp", move);
}

/* ---- what crosses ---- */

/* A tenth is not zero. */
static void fill_tenth(float *values, int rank)
{
	memset(values, 0, BYTES);
	for (size_t i = 0; i < BYTES / sizeof(float) / 10; i++) {
		values[i] = (float)(rank + 1);
	}
}

static uint64_t bytes_of_a_tenth(smd_context *context, smd_comm *comm, int rank)
{
	float *values = malloc(BYTES);
	struct smd_stats before;
	struct smd_stats after;
	uint64_t bytes;

	CHECK(values != NULL);
	fill_tenth(values, rank);
	smd_context_stats(context, &before);
	CHECK(smd_allreduce(comm, values, values, BYTES / sizeof(float), SMD_FLOAT32, SMD_SUM) ==
		0);
	smd_context_stats(context, &after);
	for (size_t i = 0; i < BYTES / sizeof(float); i++) {
		CHECK(values[i] == (i < BYTES / sizeof(float) / 10 ? 6.0f : 0.0f));
	}
	free(values);
	CHECK(after.bytes_received - before.bytes_received > 0);
	bytes = after.bytes_sent - before.bytes_sent + after.bytes_received - before.bytes_received;
	CHECK(bytes + after.bytes_skipped - before.bytes_skipped >= 2 * BYTES); /* or both */
	CHECK((after.bytes_skipped > before.bytes_skipped) == (bytes < 2 * BYTES));
	return bytes;
}

/* Each process says for itself: rank 1's lanes carry all, in both directions; rank 2 says nothing.
 */
static void choose(struct pool_rank *rank)
{
	smd_context *context = NULL;
	smd_comm *comm;
	uint64_t bytes;

	for (int r = 0; r < rank->nranks; r++) {
		CHECK(smd_barrier(rank->comm) == 0);
		if (rank->rank == r) {
			if (r == 2) {
				unsetenv("SUMMAND_ZERO_BLOCKS");
			} else {
				setenv("SUMMAND_ZERO_BLOCKS", r == 1 ? "off" : "on", 1);
			}
			context = pool_context(rank->pool, r);
		}
	}
	CHECK(smd_comm_create(context, "chosen", rank->nranks, rank->rank, &comm) == 0);
	bytes = bytes_of_a_tenth(context, comm, rank->rank);
	CHECK(rank->rank == 1 ? bytes > 2 * BYTES : bytes < 2 * BYTES / 5);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
}

static void zeros_do_not_cross_where_a_process_wants_it(void **state)
{
	(void)state;
	run("tcp", choose);
	setenv("SUMMAND_ZERO_BLOCKS", "on", 1);
}

#ifdef SMD_TLS
/* How much was left out would show there: it must be asked for. */
static void measure_encrypted(struct pool_rank *rank)
{
	uint64_t bytes = bytes_of_a_tenth(rank->context, rank->comm, rank->rank);
	bool asked = getenv("SUMMAND_ZERO_BLOCKS") != NULL;

	CHECK(asked ? bytes < 2 * BYTES / 5 : bytes > 2 * BYTES);
}

static void over_tls_they_cross_unless_asked_for(void **state)
{
	static char every[] = "token";
	static struct smd_tokens tokens = {.every = every};
	const struct smd_server_config config = {.shards = 1, .tokens = &tokens, .encrypt = true};
	char path[] = "/tmp/summand-token-XXXXXX";
	int fd = mkstemp(path);
	struct pool pool;

	(void)state;
	assert_int_equal(write(fd, every, strlen(every)), strlen(every));
	close(fd);
	setenv("SUMMAND_TOKEN_FILE", path, 1);
	setenv("SUMMAND_TLS", "1", 1);
	pool_start(&pool, "tcp", 1, &config);
	pool_run(&pool, RANKS, "asked", measure_encrypted, NULL);
	unsetenv("SUMMAND_ZERO_BLOCKS");
	pool_run(&pool, RANKS, "not asked", measure_encrypted, NULL);
	setenv("SUMMAND_ZERO_BLOCKS", "on", 1);
	pool_stop(&pool);
	unsetenv("SUMMAND_TLS");
	unsetenv("SUMMAND_TOKEN_FILE");
	unlink(path);
}
#endif

static void do_nothing(struct pool_rank *rank)
{
	CHECK(smd_barrier(rank->comm) == 0);
}

/* Each process says it once, however many lanes it has. */
static void where_it_has_no_effect_is_said(void **state)
{
	const char *says = "SUMMAND_ZERO_BLOCKS has no effect on lanes over shm";

	capture_begin();
	run("shm", do_nothing);
	assert_int_equal(capture_count(says), RANKS);
	capture_end();
	capture_begin();
	run("tcp", do_nothing);
	setenv("SUMMAND_ZERO_BLOCKS", "off", 1);
	run("shm", do_nothing);
	setenv("SUMMAND_ZERO_BLOCKS", "on", 1);
	assert_int_equal(capture_count("SUMMAND_ZERO_BLOCKS"), 0);
	capture_end();
	(void)state;
}

static void the_variable_is_on_or_off(void **state)
{
	const struct smd_context_options options = {
		.servers = "127.0.0.1:1", .connect_timeout_s = 1};
	smd_context *context;

	(void)state;
	setenv("SUMMAND_ZERO_BLOCKS", "yes", 1);
	assert_int_equal(smd_context_create(&options, &context), -EINVAL);
	assert_string_equal(
		smd_error_message(), "SUMMAND_ZERO_BLOCKS: must be on or off, got \"yes\"");
	setenv("SUMMAND_ZERO_BLOCKS", "on", 1);
}

/* ---- a server is lost on the way ---- */

enum { OPERATIONS = 40, LOST_AFTER = 15 };

struct progress {
	atomic_int begun;
	bool in_place;
	bool narrow;
};

static void reduce_on(struct pool_rank *rank)
{
	struct progress *progress = rank->argument;
	struct sparse_inputs buffers = make_buffers();
	size_t count = BYTES / sizeof(int32_t);

	for (unsigned k = 0; k < OPERATIONS; k++) {
		uint8_t *send = buffers.inputs[rank->rank];
		uint8_t *recv = progress->in_place ? send : buffers.recv;

		if (rank->rank == 0) {
			atomic_store(&progress->begun, (int)k + 1);
		}
		compute(&buffers, SMD_FLOAT32, k % 2 ? SMD_SUM : SMD_MIN, count, k);
		CHECK(smd_allreduce(rank->comm, send, recv, count, SMD_FLOAT32,
			      k % 2 ? SMD_SUM : SMD_MIN) == 0);
		CHECK(memcmp(recv, buffers.expected, BYTES) == 0);
	}
	free_buffers(&buffers);
}

/* The same with a narrow type: zeros of four bytes are zeros of two. */
static void reduce_narrow(struct pool_rank *rank)
{
	struct progress *progress = rank->argument;
	float *values = malloc(BYTES);

	CHECK(values && smd_comm_set_wire(rank->comm, SMD_BFLOAT16) == 0);
	for (int k = 0; k < OPERATIONS; k++) {
		if (rank->rank == 0) {
			atomic_store(&progress->begun, k + 1);
		}
		fill_tenth(values, rank->rank);
		values[BYTES / sizeof(float) - 1] = -0.0f;
		CHECK(smd_allreduce(rank->comm, values, values, BYTES / sizeof(float), SMD_FLOAT32,
			      SMD_SUM) == 0);
		for (size_t i = 0; i < BYTES / sizeof(float); i++) {
			float must = i < BYTES / sizeof(float) / 10   ? 6.0f
				     : i == BYTES / sizeof(float) - 1 ? -0.0f
								      : 0.0f;

			CHECK(memcmp(&values[i], &must, sizeof(must)) == 0);
		}
	}
	free(values);
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

static void lose_a_server(struct progress *progress)
{
	struct pool pool;
	struct killer killer = {&pool, progress};
	pthread_t thread;

	pool_start(&pool, "tcp", 3, configs);
	assert_int_equal(pthread_create(&thread, NULL, kill_one, &killer), 0);
	pool_run(&pool, RANKS, "lost", progress->narrow ? reduce_narrow : reduce_on, progress);
	pthread_join(thread, NULL);
	pool_stop(&pool);
}

static void a_lost_server_changes_no_bit(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k++) {
		struct progress progress = {.in_place = k % 2, .narrow = k == 3};

		lose_a_server(&progress);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_and_reduction_has_its_bits),
		cmocka_unit_test(reduce_and_broadcast_do_too),
		cmocka_unit_test(zeros_do_not_cross_where_a_process_wants_it),
#ifdef SMD_TLS
		cmocka_unit_test(over_tls_they_cross_unless_asked_for),
#endif
		cmocka_unit_test(the_variable_is_on_or_off),
		cmocka_unit_test(a_lost_server_changes_no_bit),
		cmocka_unit_test(where_it_has_no_effect_is_said),
	};

	if (pool_is_shm()) {
		puts("skipped: blocks of zeros are left out over TCP only");
		return 77;
	}
	setenv("SUMMAND_ZERO_BLOCKS", "on", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
