/* Inputs whose reductions are known, and the check of the results. */
#include <stdint.h>
#include <string.h>

#include "reduction_server/kernels/element.h"
#include "reduction_server/kernels/kernels.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define PERIOD      32 /* inputs repeat after so many elements */
#define ELEMENT_MAX 8

static bool is_unsigned(unsigned dtype)
{
	return dtype == SMD_UINT8 || dtype == SMD_UINT32 || dtype == SMD_UINT64;
}

/* Small whole numbers: sums are exact in float32 in any order. Factors are 1 or -1, and 2 from a
 * few ranks. */
static int64_t value(unsigned dtype, unsigned op, int rank, size_t i)
{
	int64_t number = (int64_t)((i * 7 + (size_t)rank * 13) % PERIOD) - PERIOD / 2;

	if (op == SMD_PROD) {
		number = rank % 100 == 1 ? 2 : number < 0 && !is_unsigned(dtype) ? -1 : 1;
	} else if (dtype == SMD_FLOAT8E5M2) {
		number /= 4; /* it has whole numbers up to 8 */
	} else if (is_unsigned(dtype)) {
		number += PERIOD / 2;
	}
	return number;
}

static int64_t reduce(unsigned dtype, unsigned op, size_t i, int nranks)
{
	int64_t result = value(dtype, op, 0, i);

	for (int r = 1; r < nranks; r++) {
		int64_t next = value(dtype, op, r, i);

		switch (op) {
		case SMD_PROD:
			result *= next;
			break;
		case SMD_MAX:
			result = next > result ? next : result;
			break;
		case SMD_MIN:
			result = next < result ? next : result;
			break;
		default:
			result += next;
		}
	}
	return result;
}

/* number / divisor as the type has it: whole numbers wrap first, and are cut. */
static void encode_whole(void *to, unsigned dtype, int64_t number, int divisor)
{
	if (dtype == SMD_INT8) {
		number = (int8_t)number;
	} else if (dtype == SMD_UINT8) {
		number = (uint8_t)number;
	}
	number /= divisor;
	memcpy(to, &number,
		smd_dtype_bytes(dtype)); /* little endian, and so are the wire's numbers */
}

static void encode(void *to, unsigned dtype, int64_t number, int divisor)
{
	float single = (float)number / (float)divisor;
	double twice = (double)number / divisor;
	uint16_t half = dtype == SMD_FLOAT16 ? float16_of_float(single) : bfloat16_of_float(single);
	uint8_t quarter =
		dtype == SMD_FLOAT8E4M3 ? float8e4m3_of_float(single) : float8e5m2_of_float(single);

	switch (dtype) {
	case SMD_FLOAT32:
		memcpy(to, &single, sizeof(single));
		break;
	case SMD_FLOAT64:
		memcpy(to, &twice, sizeof(twice));
		break;
	case SMD_FLOAT16:
	case SMD_BFLOAT16:
		memcpy(to, &half, sizeof(half));
		break;
	case SMD_FLOAT8E4M3:
	case SMD_FLOAT8E5M2:
		memcpy(to, &quarter, sizeof(quarter));
		break;
	default:
		encode_whole(to, dtype, number, divisor);
	}
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

/* Bits of a number's whole part that are exact; 0: the type has whole numbers only. */
static int significant_bits(unsigned dtype)
{
	switch (dtype) {
	case SMD_FLOAT64:
		return 53;
	case SMD_FLOAT32:
		return 24;
	case SMD_FLOAT16:
		return 11;
	case SMD_BFLOAT16:
		return 8;
	case SMD_FLOAT8E4M3:
		return 4;
	case SMD_FLOAT8E5M2:
		return 3;
	default:
		return 0;
	}
}

static double decode(const void *from, unsigned dtype)
{
	uint16_t half;
	uint8_t quarter;
	double twice;
	float single;

	switch (dtype) {
	case SMD_FLOAT64:
		memcpy(&twice, from, sizeof(twice));
		return twice;
	case SMD_FLOAT32:
		memcpy(&single, from, sizeof(single));
		return (double)single;
	case SMD_FLOAT16:
	case SMD_BFLOAT16:
		memcpy(&half, from, sizeof(half));
		return (double)(dtype == SMD_FLOAT16 ? float_of_float16(half)
						     : float_of_bfloat16(half));
	default:
		memcpy(&quarter, from, sizeof(quarter));
		return (double)(dtype == SMD_FLOAT8E4M3 ? float_of_float8e4m3(quarter)
							: float_of_float8e5m2(quarter));
	}
}

/*
 * n - 1 additions, each of which rounds by at most 2^-bits of a partial sum; an average may also
 * round 1/n and each input times that. Whole numbers below 2^bits are added without rounding.
 */
static double slack_of(unsigned dtype, unsigned op, size_t i, int nranks)
{
	int bits = significant_bits(dtype);
	double step = 1;
	int64_t magnitude = 0;

	for (int b = 0; b < bits; b++) {
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

	if (significant_bits(dtype) == 0) {
		return perf_input_check(buffer, count, dtype, op, nranks);
	}
	for (size_t i = 0; i < PERIOD; i++) {
		expected[i] = (double)reduce(dtype, op, i, nranks) / (op == SMD_AVG ? nranks : 1);
		slack[i] = slack_of(dtype, op, i, nranks);
	}
	for (size_t i = 0; i < count; i++) {
		double off = decode((const char *)buffer + i * size, dtype) - expected[i % PERIOD];

		wrong += !(off <= slack[i % PERIOD] && -off <= slack[i % PERIOD]); /* nor NaN */
	}
	return wrong;
}
