/*
 * The same inputs give the same bits, whatever else differs: chunk sizes, windows, servers, shards,
 * bandwidths, transports, the order in which parts arrive, the kernels, and whether ranks sum for
 * each other.
 *
 * The inputs are such that the order of ranks, and every rounding, shows in the bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/hash.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/transport/testing/fault.h"
#include "tests/unit/allreduce/fixture.h"

enum { RANKS = 5, COUNT = 40001, CASES_MAX = 64, SERVERS_MAX = 4 };

static const char *program;

/* ---- what is computed ---- */

struct operation {
	unsigned dtype;
	unsigned op;
};

static struct operation cases[CASES_MAX];
static unsigned ncases;

/* Where rounding, and so the order, can show; and those that this build has a kernel for. */
static void find_cases(void)
{
	static const unsigned dtypes[] = {
		SMD_FLOAT32,
#ifndef __SANITIZE_THREAD__ /* to threads all types are the same */
		SMD_FLOAT64,
		SMD_FLOAT16,
		SMD_BFLOAT16,
		SMD_FLOAT8E4M3,
		SMD_FLOAT8E5M2,
		SMD_INT32,
#endif
	};

	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		for (unsigned op = 0; op < SMD_OP_COUNT; op++) {
			if (smd_kernel_find(dtypes[i], op)) {
				cases[ncases++] = (struct operation){dtypes[i], op};
			}
		}
	}
}

static uint64_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 16;
}

/* A finite number of 1 sign bit, `exponent` bits and `mantissa` bits, in the middle of the range.
 */
static uint64_t draw_float(uint64_t *state, unsigned exponent, unsigned mantissa)
{
	unsigned spread = exponent > 5 ? 24 : 1u << (exponent - 1);
	uint64_t middle = (1u << (exponent - 1)) - spread / 2;
	uint64_t sign = draw(state) & 1;
	uint64_t power = middle + draw(state) % spread;
	uint64_t fraction = (draw(state) << 32 ^ draw(state)) & ((1ull << mantissa) - 1);

	return sign << (exponent + mantissa) | power << mantissa | fraction;
}

static void fill(void *buffer, unsigned dtype, int rank)
{
	static const struct {
		unsigned exponent;
		unsigned mantissa;
	} formats[SMD_DTYPE_COUNT] = {
		[SMD_FLOAT32] = {8, 23},
		[SMD_FLOAT64] = {11, 52},
		[SMD_FLOAT16] = {5, 10},
		[SMD_BFLOAT16] = {8, 7},
		[SMD_FLOAT8E4M3] = {4, 3},
		[SMD_FLOAT8E5M2] = {5, 2},
	};
	uint64_t state = 1000003u * (unsigned)(rank + 1) + dtype;
	size_t size = smd_dtype_bytes(dtype);

	for (size_t i = 0; i < COUNT; i++) {
		uint64_t bits = formats[dtype].exponent
					? draw_float(&state, formats[dtype].exponent,
						  formats[dtype].mantissa)
					: draw(&state);

		memcpy((char *)buffer + i * size, &bits,
			size); /* little endian, as all we run on */
	}
}

static uint64_t digest(const void *bytes, size_t length)
{
	return smd_hash(SMD_HASH_SEED, bytes, length);
}

/* What one rank has got: of each case, all-reduced, and reduced to one rank in turn. */
struct outcome {
	uint64_t allreduced[CASES_MAX];
	uint64_t reduced[CASES_MAX];
};

static void compute(struct pool_rank *rank)
{
	struct outcome *outcome = (struct outcome *)rank->argument + rank->rank;
	smd_request *requests[2 * CASES_MAX];
	void *inputs[CASES_MAX];
	void *outputs[2 * CASES_MAX];

	for (unsigned c = 0; c < ncases; c++) {
		size_t bytes = COUNT * smd_dtype_bytes(cases[c].dtype);

		inputs[c] = malloc(bytes);
		outputs[2 * c] = malloc(bytes);
		outputs[2 * c + 1] = malloc(bytes);
		fill(inputs[c], cases[c].dtype, rank->rank);
		CHECK(smd_allreduce_start(rank->comm, inputs[c], outputs[2 * c], COUNT,
			      cases[c].dtype, cases[c].op, &requests[2 * c]) == 0);
		CHECK(smd_reduce_start(rank->comm, inputs[c], outputs[2 * c + 1], COUNT,
			      cases[c].dtype, cases[c].op, (int)c % RANKS,
			      &requests[2 * c + 1]) == 0);
	}
	for (unsigned c = 0; c < ncases; c++) {
		size_t bytes = COUNT * smd_dtype_bytes(cases[c].dtype);

		CHECK(smd_request_wait(requests[2 * c]) == 0);
		CHECK(smd_request_wait(requests[2 * c + 1]) == 0);
		outcome->allreduced[c] = digest(outputs[2 * c], bytes);
		outcome->reduced[c] = digest(outputs[2 * c + 1], bytes);
		free(inputs[c]);
		free(outputs[2 * c]);
		free(outputs[2 * c + 1]);
	}
}

/* ---- pools ---- */

struct variant {
	const char *transport;
	unsigned nservers;
	const char *harm; /* to what is sent, in both directions */
	struct smd_server_config configs[SERVERS_MAX];
};

static void run_variant(const struct variant *variant, uint64_t digests[CASES_MAX])
{
	static struct outcome outcomes[RANKS];
	struct pool pool;

	assert_int_equal(smd_fault_configure(variant->harm ? variant->harm : "", NULL), 0);
	pool_start(&pool, variant->transport, variant->nservers, variant->configs);
	pool_run(&pool, RANKS, "bits", compute, outcomes);
	pool_stop(&pool);
	for (unsigned c = 0; c < ncases; c++) {
		digests[c] = outcomes[0].allreduced[c];
		for (int r = 0; r < RANKS; r++) {
			assert_true(outcomes[r].allreduced[c] == digests[c]);
		}
		assert_true(outcomes[c % RANKS].reduced[c] == digests[c]);
	}
}

static const struct variant plain = {"loopback", 1, NULL, {{.shards = 1}}};

/* For the streams of another table: with as little as a pool's servers have by default these chunks
 * leave no room for them until windows are given back. */
#define ENOUGH (256u << 20)

static const struct variant variants[] = {
	{"tcp", 1, NULL, {{.shards = 3, .chunk_bytes = 64 << 10, .window = 2}}},
	{"tcp", 2, NULL,
		{{.shards = 2, .chunk_bytes = 4 << 10, .window = 1},
			{.shards = 1, .chunk_bytes = 8 << 10, .window = 5}}},
	{"loopback", 2, NULL,
		{{.shards = 1, .chunk_bytes = 1 << 20, .window = 16},
			{.shards = 2, .chunk_bytes = 1 << 20, .window = 3}}},
	{"tcp", 4, NULL,
		{{.shards = 1, .memory_bytes = ENOUGH, .bandwidth_mbps = 1000},
			{.shards = 1, .memory_bytes = ENOUGH, .bandwidth_mbps = 250},
			{.shards = 2, .memory_bytes = ENOUGH, .bandwidth_mbps = 7000},
			{.shards = 1, .memory_bytes = ENOUGH, .bandwidth_mbps = 40000}}},
	{"fault", 1, "delay=0..3ms,seed=1", {{.shards = 2, .chunk_bytes = 32 << 10, .window = 4}}},
	{"fault", 2, "delay=0..3ms,seed=2",
		{{.shards = 1, .chunk_bytes = 16 << 10, .window = 8},
			{.shards = 2, .chunk_bytes = 16 << 10, .window = 2}}},
	{"fault over tcp", 1, "delay=0..3ms,short,seed=3",
		{{.shards = 2, .chunk_bytes = 32 << 10, .window = 4}}},
	{"fault over tcp", 3, "delay=0..2ms,short,seed=4",
		{{.shards = 1, .chunk_bytes = 48 << 10, .bandwidth_mbps = 3000},
			{.shards = 1, .chunk_bytes = 64 << 10, .bandwidth_mbps = 1000},
			{.shards = 2, .chunk_bytes = 32 << 10, .bandwidth_mbps = 500}}},
	{"fault over tcp", 2, "short,seed=5", {{.shards = 2}, {.shards = 2}}},
};

static void bits_are_the_same_in_every_pool(void **state)
{
	uint64_t expected[CASES_MAX];
	uint64_t digests[CASES_MAX];

	(void)state;
	run_variant(&plain, expected);
	for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
		if (pool_is_exchange() && strcmp(variants[v].transport, "tcp") != 0) {
			continue; /* its ranks do not meet */
		}
		run_variant(&variants[v], digests);
		for (unsigned c = 0; c < ncases; c++) {
			if (digests[c] != expected[c]) {
				fail_msg("variant %zu, %s %s: other bits than in a plain pool", v,
					smd_dtype_name(cases[c].dtype), smd_op_name(cases[c].op));
			}
		}
	}
}

/* ---- kernels ---- */

static int print_digests(void)
{
	uint64_t digests[CASES_MAX];

	run_variant(&plain, digests);
	for (unsigned c = 0; c < ncases; c++) {
		printf("%016" PRIx64 "\n", digests[c]);
	}
	return EXIT_SUCCESS;
}

/* A kernel is chosen once in a process, so another one needs another process. */
static void bits_are_the_same_with_the_scalar_kernels(void **state)
{
	uint64_t expected[CASES_MAX];
	char command[4096 + 64];
	FILE *child;

	(void)state;
	run_variant(&plain, expected);
	snprintf(command, sizeof(command), "SUMMAND_CPU=scalar '%s' digests", program);
	child = popen(command, "r");
	assert_non_null(child);
	for (unsigned c = 0; c < ncases; c++) {
		uint64_t scalar = 0;

		assert_int_equal(fscanf(child, "%" SCNx64, &scalar), 1);
		if (scalar != expected[c]) {
			fail_msg("%s %s: the %s kernel gives other bits than the scalar one",
				smd_dtype_name(cases[c].dtype), smd_op_name(cases[c].op),
				smd_variant_name(smd_variant_chosen()));
		}
	}
	assert_int_equal(pclose(child), 0);
}

/* ---- that the bits are the right ones, and could have been others ---- */

static void sum_ranks(float *out, const int order[RANKS])
{
	float *input = malloc(COUNT * sizeof(*input));

	for (int n = 0; n < RANKS; n++) {
		fill(input, SMD_FLOAT32, order[n]);
		for (size_t i = 0; i < COUNT; i++) {
			out[i] = n ? out[i] + input[i] : input[i];
		}
	}
	free(input);
}

static void bits_are_those_of_the_order_of_ranks(void **state)
{
	static const int forwards[RANKS] = {0, 1, 2, 3, 4};
	static const int backwards[RANKS] = {4, 3, 2, 1, 0};
	float *sums[2] = {malloc(COUNT * sizeof(float)), malloc(COUNT * sizeof(float))};
	uint64_t digests[CASES_MAX];
	size_t differ = 0;

	(void)state;
	assert_int_equal(cases[0].dtype, SMD_FLOAT32);
	assert_int_equal(cases[0].op, SMD_SUM);
	sum_ranks(sums[0], forwards);
	sum_ranks(sums[1], backwards);
	for (size_t i = 0; i < COUNT; i++) {
		differ += memcmp(&sums[0][i], &sums[1][i], sizeof(float)) != 0;
	}
	assert_true(differ > COUNT / 10);
	run_variant(&plain, digests);
	assert_true(digests[0] == digest(sums[0], COUNT * sizeof(float)));
	assert_true(digests[0] != digest(sums[1], COUNT * sizeof(float)));
	free(sums[0]);
	free(sums[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_are_those_of_the_order_of_ranks),
		cmocka_unit_test(bits_are_the_same_in_every_pool),
		cmocka_unit_test(bits_are_the_same_with_the_scalar_kernels),
	};
	const struct CMUnitTest by_exchanges[] = {
		cmocka_unit_test(bits_are_the_same_in_every_pool),
	};

	program = argv[0];
	find_cases();
	if (argc == 2 && strcmp(argv[1], "digests") == 0) {
		return print_digests();
	}
	if (pool_is_exchange()) {
		return cmocka_run_group_tests(by_exchanges, NULL, pool_check_exchanged);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
