/* What summand-nccl-perf takes for a right result: whatever order and rounding of steps, and no
 * more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/element.h"
#include "reduction_server/kernels/kernels.h"
#include "worker/nccl_perf/rounding.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define COUNT      100
#define RANKS_MOST 9

struct numbers {
	uint8_t bytes[COUNT * 8];
};

/* As a ring does it: the inputs from `first` on, one after another, each sum rounded to the type.
 */
static void reduce_in_steps(struct numbers *out, unsigned dtype, unsigned op, int nranks, int first)
{
	smd_kernel *kernel = smd_kernel_find(dtype, op);
	struct numbers next;
	const void *both[] = {out->bytes, next.bytes};

	perf_input_fill(out->bytes, COUNT, dtype, op, first);
	for (int i = 1; i < nranks; i++) {
		perf_input_fill(next.bytes, COUNT, dtype, op, (first + i) % nranks);
		kernel(out->bytes, both, 2, COUNT);
	}
}

static void every_order_of_steps_is_right(void **state)
{
	(void)state;
	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op < SMD_AVG; op++) {
			for (int nranks = 1; nranks <= RANKS_MOST; nranks++) {
				for (int first = 0; first < nranks; first++) {
					struct numbers result;

					reduce_in_steps(&result, dtype, op, nranks, first);
					assert_int_equal(perf_input_check_near(result.bytes, COUNT,
								 dtype, op, nranks),
						0);
				}
			}
		}
	}
}

/* NCCL multiplies each input by 1/n, both rounded, before it adds. */
static void averages_may_round_at_every_step(void **state)
{
	struct numbers input, result;

	(void)state;
	for (int nranks = 1; nranks <= RANKS_MOST; nranks++) {
		float factor = 1 / (float)nranks;

		for (size_t i = 0; i < COUNT; i++) {
			float sum = 0;

			for (int r = 0; r < nranks; r++) {
				float number;

				perf_input_fill(input.bytes, COUNT, SMD_FLOAT32, SMD_AVG, r);
				memcpy(&number, input.bytes + i * sizeof(number), sizeof(number));
				sum += number * factor;
			}
			memcpy(result.bytes + i * sizeof(sum), &sum, sizeof(sum));
		}
		assert_int_equal(
			perf_input_check_near(result.bytes, COUNT, SMD_FLOAT32, SMD_AVG, nranks),
			0);
	}
}

/* The neighbour of an exact result is wrong, in each type that holds such sums exactly. */
static void a_bit_is_noticed_where_results_are_exact(void **state)
{
	static const unsigned exact[] = {SMD_INT8, SMD_UINT8, SMD_INT32, SMD_UINT32, SMD_INT64,
		SMD_UINT64, SMD_FLOAT16, SMD_FLOAT32, SMD_FLOAT64, SMD_BFLOAT16};

	(void)state;
	for (size_t t = 0; t < sizeof(exact) / sizeof(exact[0]); t++) {
		size_t size = smd_dtype_bytes(exact[t]);
		struct numbers result;

		reduce_in_steps(&result, exact[t], SMD_SUM, 4, 0);
		result.bytes[7 * size] ^= 1;
		result.bytes[(COUNT - 1) * size] ^= 1;
		assert_int_equal(
			perf_input_check_near(result.bytes, COUNT, exact[t], SMD_SUM, 4), 2);
	}
}

static void what_is_far_off_is_noticed_in_every_type(void **state)
{
	static const float odd[] = {1000, -1000};

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		struct numbers result;

		reduce_in_steps(&result, SMD_FLOAT8E4M3, SMD_SUM, 4, 0);
		result.bytes[5] = float8e4m3_of_float(odd[i]);
		assert_int_equal(
			perf_input_check_near(result.bytes, COUNT, SMD_FLOAT8E4M3, SMD_SUM, 4), 1);
	}
}

static void what_is_no_number_is_wrong(void **state)
{
	struct numbers result;

	(void)state;
	memset(&result, 0xff, sizeof(result)); /* NaN in each of them */
	for (unsigned dtype = SMD_FLOAT16; dtype < SMD_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op <= SMD_AVG; op++) {
			assert_int_equal(
				perf_input_check_near(result.bytes, COUNT, dtype, op, 4), COUNT);
		}
	}
}

/* The inputs of these ranks, added one after another. */
static void add_rounding(double sums[COUNT], const int *ranks, int nranks)
{
	double next[COUNT];

	nccl_perf_rounding_fill(sums, COUNT, ranks[0]);
	for (int r = 1; r < nranks; r++) {
		nccl_perf_rounding_fill(next, COUNT, ranks[r]);
		for (size_t i = 0; i < COUNT; i++) {
			sums[i] += next[i];
		}
	}
}

/* As through reduction servers. A ring begins with another rank, and a tree adds sums. */
static void sums_that_round_tell_their_order(void **state)
{
	static const int in_order[] = {0, 1, 2, 3};
	static const int as_a_ring[] = {1, 2, 3, 0};
	static const int swapped[] = {1, 0};
	double sums[COUNT], others[COUNT];

	(void)state;
	add_rounding(sums, in_order, 4);
	assert_int_equal(nccl_perf_rounding_check(sums, COUNT, 4), 0);
	sums[COUNT - 1] *= 1 + 0x1p-52; /* by one bit, or two */
	assert_int_equal(nccl_perf_rounding_check(sums, COUNT, 4), 1);
	add_rounding(sums, as_a_ring, 4);
	assert_true(nccl_perf_rounding_check(sums, COUNT, 4) > COUNT / 8);
	add_rounding(sums, in_order, 2);
	add_rounding(others, in_order + 2, 2);
	for (size_t i = 0; i < COUNT; i++) {
		others[i] += sums[i];
	}
	assert_true(nccl_perf_rounding_check(others, COUNT, 4) > COUNT / 8);
	add_rounding(sums, swapped, 2);
	assert_int_equal(nccl_perf_rounding_check(sums, COUNT, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_order_of_steps_is_right),
		cmocka_unit_test(averages_may_round_at_every_step),
		cmocka_unit_test(a_bit_is_noticed_where_results_are_exact),
		cmocka_unit_test(what_is_far_off_is_noticed_in_every_type),
		cmocka_unit_test(what_is_no_number_is_wrong),
		cmocka_unit_test(sums_that_round_tell_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
