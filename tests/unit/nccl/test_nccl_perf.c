/*
 * What is taken for a right result: by summand-nccl-perf whatever order and rounding of steps, and
 * no more; by summand-perf, and with --rounding, the order of ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/element.h"
#include "reduction_server/kernels/kernels.h"
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

	perf_input_fill_whole(out->bytes, COUNT, dtype, op, first);
	for (int i = 1; i < nranks; i++) {
		perf_input_fill_whole(next.bytes, COUNT, dtype, op, (first + i) % nranks);
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

				perf_input_fill_whole(input.bytes, COUNT, SMD_FLOAT32, SMD_AVG, r);
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

/* Where the order of ranks shows: in sums of whole-width numbers, and in their averages. */
static const unsigned telling[] = {SMD_FLOAT32, SMD_FLOAT64};

/* As a server does it, but for the order: of all ranks from `first` on, in one pass. */
static void reduce_at_once(struct numbers *out, unsigned dtype, unsigned op, int nranks, int first)
{
	struct numbers inputs[RANKS_MOST];
	const void *all[RANKS_MOST];

	for (int i = 0; i < nranks; i++) {
		perf_input_fill(inputs[i].bytes, COUNT, dtype, dtype, op, (first + i) % nranks);
		all[i] = inputs[i].bytes;
	}
	smd_kernel_find(dtype, op)(out->bytes, all, (unsigned)nranks, COUNT);
}

static uint64_t wrong_in_order(
	const struct numbers *numbers, unsigned dtype, unsigned op, int nranks)
{
	return perf_input_check(numbers->bytes, COUNT, dtype, dtype, op, nranks, 0);
}

static void the_order_of_ranks_is_right_in_every_type(void **state)
{
	struct numbers result;

	(void)state;
	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op < SMD_OP_COUNT; op++) {
			for (int nranks = 1; nranks <= RANKS_MOST; nranks++) {
				reduce_at_once(&result, dtype, op, nranks, 0);
				assert_int_equal(wrong_in_order(&result, dtype, op, nranks), 0);
			}
		}
	}
}

/* A ring begins with another rank. */
static void another_first_rank_is_noticed(void **state)
{
	static const unsigned ops[] = {SMD_SUM, SMD_AVG};
	struct numbers result;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		unsigned dtype = telling[i / 2], op = ops[i % 2];

		for (int nranks = 3; nranks <= RANKS_MOST; nranks++) {
			for (int first = 2; first < nranks; first++) {
				reduce_at_once(&result, dtype, op, nranks, first);
				assert_true(wrong_in_order(&result, dtype, op, nranks) > COUNT / 8);
			}
		}
		reduce_at_once(&result, dtype, op, 2, 1);
		assert_int_equal(wrong_in_order(&result, dtype, op, 2), 0);
	}
}

/* A tree adds sums. */
static void sums_of_sums_are_noticed(void **state)
{
	struct numbers halves[2], inputs[4], result;

	(void)state;
	for (size_t t = 0; t < 2; t++) {
		smd_kernel *add = smd_kernel_find(telling[t], SMD_SUM);

		for (int r = 0; r < 4; r++) {
			perf_input_fill(inputs[r].bytes, COUNT, telling[t], telling[t], SMD_SUM, r);
		}
		for (int half = 0; half < 2; half++) {
			add(halves[half].bytes,
				(const void *[]){&inputs[2 * half], &inputs[2 * half + 1]}, 2,
				COUNT);
		}
		add(result.bytes, (const void *[]){&halves[0], &halves[1]}, 2, COUNT);
		assert_true(wrong_in_order(&result, telling[t], SMD_SUM, 4) > COUNT / 8);
	}
}

static void one_bit_is_noticed(void **state)
{
	struct numbers result;

	(void)state;
	for (size_t t = 0; t < 2; t++) {
		reduce_at_once(&result, telling[t], SMD_SUM, 4, 0);
		result.bytes[(COUNT - 1) * smd_dtype_bytes(telling[t])] ^= 1;
		assert_int_equal(wrong_in_order(&result, telling[t], SMD_SUM, 4), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_order_of_steps_is_right),
		cmocka_unit_test(averages_may_round_at_every_step),
		cmocka_unit_test(a_bit_is_noticed_where_results_are_exact),
		cmocka_unit_test(what_is_far_off_is_noticed_in_every_type),
		cmocka_unit_test(what_is_no_number_is_wrong),
		cmocka_unit_test(the_order_of_ranks_is_right_in_every_type),
		cmocka_unit_test(another_first_rank_is_noticed),
		cmocka_unit_test(sums_of_sums_are_noticed),
		cmocka_unit_test(one_bit_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
