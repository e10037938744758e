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
