/* Inputs whose sums are exact, and the check of the sums. */
#include <string.h>

#include "worker/perf/perf.h"
#include "worker/summand.h"

static int value(int rank, size_t i)
{
	return (int)((i * 7 + (size_t)rank * 13) % 32) - 16;
}

void perf_input_fill(void *buffer, size_t count, unsigned dtype, int rank)
{
	for (size_t i = 0; i < count; i++) {
		int whole = value(rank, i);
		float real = (float)whole;

		memcpy((char *)buffer + 4 * i,
			dtype == SMD_FLOAT32 ? (void *)&real : (void *)&whole, 4);
	}
}

uint64_t perf_input_check(const void *buffer, size_t count, unsigned dtype, int nranks)
{
	uint64_t wrong = 0;
	int sums[32]; /* value() repeats */

	for (size_t i = 0; i < 32; i++) {
		sums[i] = 0;
		for (int r = 0; r < nranks; r++) {
			sums[i] += value(r, i);
		}
	}
	for (size_t i = 0; i < count; i++) {
		int whole = sums[i % 32];
		float real = (float)whole;

		wrong += memcmp((const char *)buffer + 4 * i,
				 dtype == SMD_FLOAT32 ? (void *)&real : (void *)&whole, 4) != 0;
	}
	return wrong;
}
