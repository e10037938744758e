/* The measuring loop of the drivers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

#define ALIGNMENT 4096
#define PERIOD    32        /* of the input's values */
#define VALUE_MAX 16        /* of their magnitudes */
#define EXACT_MAX (1 << 24) /* whole numbers up to here are exact in float */
#define ITERS_MIN 3
#define ITERS_MAX 2000

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int value(int rank, size_t i)
{
	return (int)((i * 7 + (size_t)rank * 13) % PERIOD) - VALUE_MAX;
}

static void fill(const struct driver *driver, float *data, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		data[i] = (float)value(driver->rank, i);
	}
}

/* Each operation in place after the first one multiplies the sum by the number of ranks. */
static uint64_t count_wrong(const struct driver *driver, const float *data, size_t count, int done)
{
	float sums[PERIOD];
	uint64_t wrong = 0;

	for (size_t i = 0; i < PERIOD; i++) {
		sums[i] = 0;
		for (int r = 0; r < driver->size; r++) {
			sums[i] += (float)value(r, i);
		}
		for (int d = 1; d < done; d++) {
			sums[i] *= (float)driver->size;
		}
	}
	for (size_t i = 0; i < count; i++) {
		wrong += data[i] != sums[i % PERIOD];
	}
	return wrong;
}

/* How many operations in place stay exact. */
static int block_length(int size)
{
	int length = 0;

	for (double top = VALUE_MAX * (double)size; top <= EXACT_MAX; top *= size) {
		length++;
		if (size == 1) {
			break;
		}
	}
	return length;
}

/* Runs iters operations back to back, without a barrier. The inputs are renewed, and the sums
 * checked, whenever one more operation would not be exact any more; this is not timed. */
static uint64_t operate(struct driver *driver, float *data, size_t count, int iters, double *times)
{
	int block = block_length(driver->size);
	uint64_t wrong = 0;

	for (int i = 0; i < iters; i += block) {
		int length = iters - i < block ? iters - i : block;

		fill(driver, data, count);
		for (int k = 0; k < length; k++) {
			double start = seconds();

			driver->allreduce(driver);
			times[i + k] = (seconds() - start) * 1e6;
		}
		wrong += count_wrong(driver, data, count, length);
	}
	return wrong;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *times, int n)
{
	qsort(times, (size_t)n, sizeof(*times), compare_doubles);
	return times[n / 2];
}

static int affordable(double us, double budget_s)
{
	double iters = budget_s * 1e6 / us;

	return iters < ITERS_MIN ? ITERS_MIN : iters > ITERS_MAX ? ITERS_MAX : (int)iters;
}

/* 0, or 1 when larger sizes are not worth trying. */
static int run_size(struct driver *driver, size_t bytes, int warmups, double limit, double budget_s)
{
	static double times[ITERS_MAX];
	size_t count = bytes / sizeof(float);
	float *data = (float *)aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
	double us;
	uint64_t wrong;
	int iters;

	if (!data) {
		fprintf(stderr, "%zu bytes: out of memory\n", bytes);
		exit(1);
	}
	driver->begin(driver, data, count);
	wrong = operate(driver, data, count, warmups, times);
	us = driver->max(driver, median(times, warmups));
	iters = affordable(us, budget_s);
	if (us <= limit) {
		wrong += operate(driver, data, count, iters, times);
		us = driver->max(driver, median(times, iters));
	}
	wrong = (uint64_t)driver->max(driver, (double)wrong);
	driver->end(driver);
	free(data);
	if (driver->rank == 0) {
		printf("{\"bytes\": %zu, \"%s\": %.2f, \"iters\": %d, \"wrong\": %llu}\n", bytes,
			us <= limit ? "median_us" : "given_up_us", us, us <= limit ? iters : 0,
			(unsigned long long)wrong);
		fflush(stdout);
	}
	return us > 2 * limit;
}

void driver_run(struct driver *driver, const char *plan, double budget_s)
{
	size_t bytes;
	int warmups;
	int used;
	double limit;

	while (sscanf(plan, "%zu:%d:%lf%n", &bytes, &warmups, &limit, &used) == 3) {
		if (run_size(driver, bytes, warmups, limit, budget_s)) {
			break;
		}
		plan += used;
		plan += *plan == ',';
	}
}
