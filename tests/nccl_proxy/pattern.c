/* Makes one period and repeats it. */
#include "tests/nccl_proxy/pattern.h"

#include <string.h>

#include "reduction_server/base/dtype.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/reference.h"

#define PERIOD      1009
#define ELEMENT_MAX 8

static void make_period(void *period, unsigned dtype, int rank, uint64_t seed)
{
	inputs_fill(period, dtype, PERIOD, seed * 1000003 + (uint64_t)rank * 7919 + dtype);
}

void pattern_fill(void *to, unsigned dtype, size_t first, size_t count, int rank, uint64_t seed)
{
	size_t width = smd_dtype_bytes(dtype);
	char period[PERIOD * ELEMENT_MAX];

	make_period(period, dtype, rank, seed);
	for (size_t i = 0; i < count;) {
		size_t at = (first + i) % PERIOD;
		size_t run = PERIOD - at < count - i ? PERIOD - at : count - i;

		memcpy((char *)to + i * width, period + at * width, run * width);
		i += run;
	}
}

static uint64_t round_to(unsigned to, unsigned from, uint64_t bits)
{
	return to == from ? bits : reference_encode(to, reference_decode(from, bits));
}

static void reduce_period(
	void *period, unsigned dtype, unsigned wire, unsigned op, int nranks, uint64_t seed)
{
	size_t width = smd_dtype_bytes(dtype);
	char inputs[MOST_RANKS][PERIOD * ELEMENT_MAX];
	uint64_t values[MOST_RANKS];

	for (int r = 0; r < nranks; r++) {
		make_period(inputs[r], dtype, r, seed);
	}
	for (size_t i = 0; i < PERIOD; i++) {
		uint64_t bits;

		for (int r = 0; r < nranks; r++) {
			values[r] = round_to(wire, dtype, inputs_get(inputs[r], width, i));
		}
		bits = round_to(dtype, wire, reference_reduce(wire, op, values, (unsigned)nranks));
		memcpy((char *)period + i * width, &bits, width); /* little endian */
	}
}

static size_t count_wrong(const char *got, const char *wanted, size_t width, size_t count)
{
	size_t wrong = 0;

	if (memcmp(got, wanted, count * width) == 0) {
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		wrong += memcmp(got + i * width, wanted + i * width, width) != 0;
	}
	return wrong;
}

size_t pattern_wrong(const void *got, unsigned dtype, unsigned wire, unsigned op, size_t first,
	size_t count, int nranks, uint64_t seed)
{
	size_t width = smd_dtype_bytes(dtype);
	char period[PERIOD * ELEMENT_MAX];
	size_t wrong = 0;

	reduce_period(period, dtype, wire, op, nranks, seed);
	for (size_t i = 0; i < count;) {
		size_t at = (first + i) % PERIOD;
		size_t run = PERIOD - at < count - i ? PERIOD - at : count - i;

		wrong +=
			count_wrong((const char *)got + i * width, period + at * width, width, run);
		i += run;
	}
	return wrong;
}
