/* Makes doubles of bits that look random, and adds them. */
#include "worker/nccl_perf/rounding.h"

#include <math.h>
#include <string.h>

#include "reduction_server/base/random.h"

#define EXPONENTS 4 /* different ones: what is added first then loses other bits */

/* 53 random bits at one of these exponents, and a sign. */
static double number_of(size_t i, int rank)
{
	uint64_t state = (uint64_t)i << 16 | (unsigned)rank;
	uint64_t bits = smd_random_next(&state);
	double number;

	number = ldexp((double)(bits >> 11), (int)(bits % EXPONENTS));
	return bits & EXPONENTS ? -number : number;
}

void nccl_perf_rounding_fill(void *buffer, size_t count, int rank)
{
	for (size_t i = 0; i < count; i++) {
		double number = number_of(i, rank);

		memcpy((char *)buffer + i * sizeof(number), &number, sizeof(number));
	}
}

uint64_t nccl_perf_rounding_check(const void *buffer, size_t count, int nranks)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < count; i++) {
		double sum = number_of(i, 0);

		for (int r = 1; r < nranks; r++) {
			sum += number_of(i, r);
		}
		wrong += memcmp((const char *)buffer + i * sizeof(sum), &sum, sizeof(sum)) != 0;
	}
	return wrong;
}
