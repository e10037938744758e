/* Inputs whose reductions are known, and the check of the results. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/convert.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define PLACES      32 /* different inputs of a rank */
#define ELEMENT_MAX 8
#define SPAN        (64u << 10) /* bytes that are zeros together */

/*
 * Which of these element i has. Neighbours differ, and so do elements at any distance, mostly (a
 * Weyl sequence): what is summed or written at a wrong place is wrong.
 */
static size_t place_of(size_t i)
{
	return (size_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 59);
}

/* Small whole numbers: sums are exact in float32 in any order. Factors are 1 or -1, and 2 from a
 * few ranks. */
static int64_t value(unsigned dtype, unsigned op, int rank, size_t place)
{
	int64_t number = (int64_t)((place * 7 + (size_t)rank * 13) % PLACES) - PLACES / 2;
	unsigned bits = smd_dtype_bits(dtype) < 32 ? smd_dtype_bits(dtype) : 31;

	if (op == SMD_PROD) {
		number = rank % 100 == 1 ? 2 : number < 0 && !smd_dtype_is_unsigned(dtype) ? -1 : 1;
	} else if (bits && 1u << bits < PLACES / 2) {
		number /= 4; /* few bits: not all whole numbers of so many digits are exact */
	} else if (smd_dtype_is_unsigned(dtype)) {
		number += PLACES / 2;
	}
	return number;
}

static int64_t reduce(unsigned dtype, unsigned op, size_t place, int nranks)
{
	int64_t result = value(dtype, op, 0, place);

	for (int r = 1; r < nranks; r++) {
		int64_t next = value(dtype, op, r, place);

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
	uint8_t first[PLACES * ELEMENT_MAX];

	for (size_t i = 0; i < PLACES; i++) {
		encode(first + i * size, dtype, value(dtype, op, rank, i), 1);
	}
	for (size_t i = 0; i < count; i++) {
		memcpy((char *)buffer + i * size, first + place_of(i) * size, size);
	}
}

/* The inputs are exact in each of these types, so only the result is rounded. */
static void round_to_wire(void *one, unsigned wire)
{
	uint16_t narrow;

	smd_element_encode(&narrow, (enum smd_dtype)wire, smd_element_decode(one, SMD_FLOAT32));
	smd_element_encode(one, SMD_FLOAT32, smd_element_decode(&narrow, (enum smd_dtype)wire));
}

/* Whether byte i is in a span that is zeros, of all ranks: so much of each hundred spans, spread.
 */
static bool is_zero(size_t i, int percent)
{
	uint32_t fraction = (uint32_t)(i / SPAN) * 0x9e3779b9u;

	return (uint64_t)fraction * 100 < (uint64_t)percent << 32;
}

void perf_input_zero(void *buffer, size_t bytes, int percent)
{
	for (size_t i = 0; i < bytes; i += SPAN) {
		if (is_zero(i, percent)) {
			memset((char *)buffer + i, 0, bytes - i < SPAN ? bytes - i : SPAN);
		}
	}
}

uint64_t perf_input_check(const void *buffer, size_t count, unsigned dtype, unsigned wire,
	unsigned op, int nranks, int zeros)
{
	static const uint8_t zero[ELEMENT_MAX];
	size_t size = smd_dtype_bytes(dtype);
	uint8_t expected[PLACES * ELEMENT_MAX];
	uint64_t wrong = 0;

	for (size_t i = 0; i < PLACES; i++) {
		encode(expected + i * size, dtype, reduce(dtype, op, i, nranks),
			op == SMD_AVG ? nranks : 1);
		if (wire != dtype && count >= SMD_WIRE_LEAST) {
			round_to_wire(expected + i * size, wire);
		}
	}
	for (size_t i = 0; i < count; i++) {
		const uint8_t *must =
			is_zero(i * size, zeros) ? zero : expected + place_of(i) * size;

		wrong += memcmp((const char *)buffer + i * size, must, size) != 0;
	}
	return wrong;
}

/*
 * n - 1 additions, each of which rounds by at most 2^-bits of a partial sum; an average may also
 * round 1/n and each input times that. Whole numbers below 2^bits are added without rounding.
 */
static double slack_of(unsigned dtype, unsigned op, size_t place, int nranks)
{
	unsigned bits = smd_dtype_bits(dtype);
	double step = 1;
	int64_t magnitude = 0;

	for (unsigned b = 0; b < bits; b++) {
		step /= 2;
	}
	for (int r = 0; r < nranks; r++) {
		int64_t number = value(dtype, op, r, place);

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
	double expected[PLACES], slack[PLACES];
	uint64_t wrong = 0;

	if (smd_dtype_bits(dtype) == 0) {
		return perf_input_check(buffer, count, dtype, dtype, op, nranks, 0);
	}
	for (size_t i = 0; i < PLACES; i++) {
		expected[i] = (double)reduce(dtype, op, i, nranks) / (op == SMD_AVG ? nranks : 1);
		slack[i] = slack_of(dtype, op, i, nranks);
	}
	for (size_t i = 0; i < count; i++) {
		double off =
			smd_element_decode((const char *)buffer + i * size, (enum smd_dtype)dtype) -
			expected[place_of(i)];

		wrong += !(off <= slack[place_of(i)] && -off <= slack[place_of(i)]); /* nor NaN */
	}
	return wrong;
}
