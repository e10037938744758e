/* Inputs whose reductions are known, and the check of the results. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/random.h"
#include "reduction_server/kernels/convert.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define PLACES      32 /* different inputs of a rank */
#define ELEMENT_MAX 8
#define SPAN        (64u << 10) /* bytes that are zeros together */
#define EXPONENTS   4           /* different ones: what is added first then loses other bits */
#define SINGLE_BITS 24

unsigned perf_sent_as(unsigned dtype, unsigned wire, size_t count)
{
	return count < SMD_WIRE_LEAST ? dtype : wire;
}

/*
 * Which of these element i has. Neighbours differ, and so do elements at any distance, mostly (a
 * Weyl sequence): what is summed or written at a wrong place is wrong.
 */
static size_t place_of(size_t i)
{
	return (size_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 59);
}

/* Small whole numbers: sums are exact in any order. Factors are 1 or -1, and 2 from a
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

/* Whether the order of ranks shall show in the result: a narrower type's has too few of its bits.
 */
static bool tells_order(unsigned dtype, unsigned wire, unsigned op)
{
	return wire == dtype && smd_dtype_bits(dtype) >= SINGLE_BITS &&
	       (op == SMD_SUM || op == SMD_AVG);
}

/* As many random bits as the type has, at one of some exponents, and a sign. */
static double rounding(unsigned dtype, int rank, size_t place)
{
	uint64_t state = (uint64_t)rank << 16 | place;
	uint64_t bits = smd_random_next(&state);
	double number =
		(double)(bits >> (64 - smd_dtype_bits(dtype))) * (double)(1u << bits % EXPONENTS);

	return bits & EXPONENTS ? -number : number;
}

/* Each step is rounded to the type. (A sum and a quotient of two floats, rounded to double before,
 * are what they would be at once.) */
static void reduce_in_order(void *to, unsigned dtype, unsigned op, size_t place, int nranks)
{
	double sum = rounding(dtype, 0, place);

	for (int r = 1; r < nranks; r++) {
		smd_element_encode(to, (enum smd_dtype)dtype, sum + rounding(dtype, r, place));
		sum = smd_element_decode(to, (enum smd_dtype)dtype);
	}
	smd_element_encode(to, (enum smd_dtype)dtype, op == SMD_AVG ? sum / nranks : sum);
}

/* Elements from the first one on. The usual sizes are known to the compiler: it is most of a check.
 */
static void repeat(void *to, size_t first, size_t count, size_t size, const uint8_t *places)
{
	uint8_t *out = to;

	switch (size) {
	case sizeof(uint32_t):
		for (size_t i = 0; i < count; i++) {
			memcpy(out + i * sizeof(uint32_t),
				places + place_of(first + i) * sizeof(uint32_t), sizeof(uint32_t));
		}
		break;
	case sizeof(uint16_t):
		for (size_t i = 0; i < count; i++) {
			memcpy(out + i * sizeof(uint16_t),
				places + place_of(first + i) * sizeof(uint16_t), sizeof(uint16_t));
		}
		break;
	default:
		for (size_t i = 0; i < count; i++) {
			memcpy(out + i * size, places + place_of(first + i) * size, size);
		}
	}
}

void perf_input_fill_whole(void *buffer, size_t count, unsigned dtype, unsigned op, int rank)
{
	size_t size = smd_dtype_bytes(dtype);
	uint8_t places[PLACES * ELEMENT_MAX];

	for (size_t i = 0; i < PLACES; i++) {
		encode(places + i * size, dtype, value(dtype, op, rank, i), 1);
	}
	repeat(buffer, 0, count, size, places);
}

void perf_input_fill(
	void *buffer, size_t count, unsigned dtype, unsigned wire, unsigned op, int rank)
{
	size_t size = smd_dtype_bytes(dtype);
	uint8_t places[PLACES * ELEMENT_MAX];

	if (!tells_order(dtype, perf_sent_as(dtype, wire, count), op)) {
		perf_input_fill_whole(buffer, count, dtype, op, rank);
		return;
	}
	for (size_t i = 0; i < PLACES; i++) {
		smd_element_encode(
			places + i * size, (enum smd_dtype)dtype, rounding(dtype, rank, i));
	}
	repeat(buffer, 0, count, size, places);
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

static void expect(uint8_t *places, unsigned dtype, unsigned sent, unsigned op, int nranks)
{
	size_t size = smd_dtype_bytes(dtype);

	for (size_t i = 0; i < PLACES; i++) {
		if (tells_order(dtype, sent, op)) {
			reduce_in_order(places + i * size, dtype, op, i, nranks);
			continue;
		}
		encode(places + i * size, dtype, reduce(dtype, op, i, nranks),
			op == SMD_AVG ? nranks : 1);
		if (sent != dtype) {
			round_to_wire(places + i * size, sent);
		}
	}
}

/* A span at a time: nearly always it is all right, and then compared at once. */
uint64_t perf_input_check(const void *buffer, size_t count, unsigned dtype, unsigned wire,
	unsigned op, int nranks, int zeros)
{
	size_t size = smd_dtype_bytes(dtype);
	uint8_t places[PLACES * ELEMENT_MAX];
	uint8_t must[SPAN];
	uint64_t wrong = 0;

	expect(places, dtype, perf_sent_as(dtype, wire, count), op, nranks);
	for (size_t i = 0; i < count; i += SPAN / size) {
		const uint8_t *is = (const uint8_t *)buffer + i * size;
		size_t n = count - i < SPAN / size ? count - i : SPAN / size;

		if (is_zero(i * size, zeros)) {
			memset(must, 0, n * size);
		} else {
			repeat(must, i, n, size, places);
		}
		if (memcmp(is, must, n * size) == 0) {
			continue;
		}
		for (size_t k = 0; k < n; k++) {
			wrong += memcmp(is + k * size, must + k * size, size) != 0;
		}
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
