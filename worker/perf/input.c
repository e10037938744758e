/* Inputs whose reductions are known, and the check of the results. */
#include <stdint.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/convert.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define PERIOD      32 /* inputs repeat after so many elements */
#define ELEMENT_MAX 8

/* Small whole numbers: sums are exact in float32 in any order. Factors are 1 or -1, and 2 from a
 * few ranks. */
static int64_t value(unsigned dtype, unsigned op, int rank, size_t i)
{
	int64_t number = (int64_t)((i * 7 + (size_t)rank * 13) % PERIOD) - PERIOD / 2;
	unsigned bits = smd_dtype_bits(dtype) < 32 ? smd_dtype_bits(dtype) : 31;

	if (op == SMD_PROD) {
		number = rank % 100 == 1 ? 2 : number < 0 && !smd_dtype_is_unsigned(dtype) ? -1 : 1;
	} else if (bits && 1u << bits < PERIOD / 2) {
		number /= 4; /* few bits: not all whole numbers of so many digits are exact */
	} else if (smd_dtype_is_unsigned(dtype)) {
		number += PERIOD / 2;
	}
	return number;
}

static int64_t reduce(unsigned dtype, unsigned op, size_t i, int nranks)
{
	int64_t result = value(dtype, op, 0, i);

	for (int r = 1; r < nranks; r++) {
		int64_t next = value(dtype, op, r, i);

		switch ((enum smd_op)op) {
		case SMD_PROD:
			result *= next;
			break;
		case SMD_MAX:
			result = next > result ? next : result;
			break;
		case SMD_MIN:
			result = next < result ? next : result;
			break;
		case SMD_SUM:
		case SMD_AVG:
			result += next;
			break;
		case SMD_OP_COUNT:
			break;
		}
	}
	return result;
}

/* number / divisor as the type has it: integers wrap first, and are cut. */
static void encode(void *to, unsigned dtype, int64_t number, int divisor)
{
	unsigned unused = 64 - 8 * (unsigned)smd_dtype_bytes(dtype);

	if (smd_dtype_bits(dtype)) {
		smd_element_encode(to, (enum smd_dtype)dtype, (double)number / divisor);
		return;
	}
	number = (int64_t)((uint64_t)number << unused);
	number = smd_dtype_is_unsigned(dtype) ? (int64_t)((uint64_t)number >> unused)
					      : number >> unused;
	number /= divisor;
	memcpy(to, &number, smd_dtype_bytes(dtype)); /* little endian, as the wire's numbers */
}

void perf_input_fill(void *buffer, size_t count, unsigned dtype, unsigned op, int rank)
{
	size_t size = smd_dtype_bytes(dtype);
	uint8_t first[PERIOD * ELEMENT_MAX];

	for (size_t i = 0; i < PERIOD; i++) {
		encode(first + i * size, dtype, value(dtype, op, rank, i), 1);
	}
	for (size_t i = 0; i < count; i++) {
		memcpy((char *)buffer + i * size, first + i % PERIOD * size, size);
	}
}

uint64_t perf_input_check(const void *buffer, size_t count, unsigned dtype, unsigned op, int nranks)
{
	size_t size = smd_dtype_bytes(dtype);
	uint8_t expected[PERIOD * ELEMENT_MAX];
	uint64_t wrong = 0;

	for (size_t i = 0; i < PERIOD; i++) {
		encode(expected + i * size, dtype, reduce(dtype, op, i, nranks),
			op == SMD_AVG ? nranks : 1);
	}
	for (size_t i = 0; i < count; i++) {
		wrong += memcmp((const char *)buffer + i * size, expected + i % PERIOD * size,
				 size) != 0;
	}
	return wrong;
}

/*
 * n - 1 additions, each of which rounds by at most 2^-bits of a partial sum; an average may also
 * round 1/n and each input times that. Whole numbers below 2^bits are added without rounding.
 */
static double slack_of(unsigned dtype, unsigned op, size_t i, int nranks)
{
	unsigned bits = smd_dtype_bits(dtype);
	double step = 1;
	int64_t magnitude = 0;

	for (unsigned b = 0; b < bits; b++) {
		step /= 2;
	}
	for (int r = 0; r < nranks; r++) {
		int64_t number = value(dtype, op, r, i);

		magnitude += number < 0 ? -number : number;
	}
	if (bits == 0 || (op != SMD_SUM && op != SMD_AVG) ||
		(op == SMD_SUM && (double)magnitude * step <= 1)) {
		return 0;
	}
	return (nranks + 1) * step * (double)magnitude / (op == SMD_AVG ? nranks : 1);
}

uint64_t perf_input_check_near(
	const void *buffer, size_t count, unsigned dtype, unsigned op, int nranks)
{
	size_t size = smd_dtype_bytes(dtype);
	double expected[PERIOD], slack[PERIOD];
	uint64_t wrong = 0;

	if (smd_dtype_bits(dtype) == 0) {
		return perf_input_check(buffer, count, dtype, op, nranks);
	}
	for (size_t i = 0; i < PERIOD; i++) {
		expected[i] = (double)reduce(dtype, op, i, nranks) / (op == SMD_AVG ? nranks : 1);
		slack[i] = slack_of(dtype, op, i, nranks);
	}
	for (size_t i = 0; i < count; i++) {
		double off =
			smd_element_decode((const char *)buffer + i * size, (enum smd_dtype)dtype) -
			expected[i % PERIOD];

		wrong += !(off <= slack[i % PERIOD] && -off <= slack[i % PERIOD]); /* nor NaN */
	}
	return wrong;
}
