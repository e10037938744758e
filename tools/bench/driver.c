/* The measuring loop of the drivers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "driver.h"

#define ALIGNMENT    4096
#define PLACES       32        /* of the input's values */
#define VALUE_MAX    16        /* of their magnitudes */
#define EXACT_MAX    (1 << 24) /* whole numbers up to here are exact in float */
#define HIGH_PERCENT 95
#define ITERS_MIN    3
#define ITERS_MAX    2000

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Processor time of all of this process's threads so far. */
static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Which of the values element i has: such that what is summed at a wrong place shows. */
static size_t place_of(size_t i)
{
	return (size_t)((uint64_t)i * 0x9e3779b97f4a7c15u >> 59);
}

static int value(int rank, size_t place)
{
	return (int)((place * 7 + (size_t)rank * 13) % PLACES) - VALUE_MAX;
}

static void fill(const struct driver *driver, float *data, size_t count)
{
	float values[PLACES];

	for (size_t i = 0; i < PLACES; i++) {
		values[i] = (float)value(driver->rank, i);
	}
	for (size_t i = 0; i < count; i++) {
		data[i] = values[place_of(i)];
	}
}

/* Each operation in place after the first one multiplies the sum by the number of ranks. */
static uint64_t count_wrong(const struct driver *driver, const float *data, size_t count, int done)
{
	float sums[PLACES];
	uint64_t wrong = 0;

	for (size_t i = 0; i < PLACES; i++) {
		sums[i] = 0;
		for (int r = 0; r < driver->size; r++) {
			sums[i] += (float)value(r, i);
		}
		for (int d = 1; d < done; d++) {
			sums[i] *= (float)driver->size;
		}
	}
	for (size_t i = 0; i < count; i++) {
		wrong += data[i] != sums[place_of(i)];
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
 * checked, whenever one more operation would not be exact any more; this is not timed. *cpu_us is
 * the processor time of an operation; times are of one, too, of those that are together. */
static uint64_t operate(
	struct driver *driver, float *data, size_t count, int iters, double *times, double *cpu_us)
{
	int block = block_length(driver->size);
	uint64_t wrong = 0;

	*cpu_us = 0;
	for (int i = 0; i < iters; i += block) {
		int length = iters - i < block ? iters - i : block;
		double before;

		fill(driver, data, count);
		before = cpu_seconds();
		for (int k = 0; k < length; k++) {
			double start = seconds();

			driver->allreduce(driver);
			times[i + k] = (seconds() - start) * 1e6 / driver->together;
		}
		*cpu_us += (cpu_seconds() - before) * 1e6 / iters / driver->together;
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

/* The one that `percent` of all times do not exceed. */
static double percentile(double *times, int n, int percent)
{
	qsort(times, (size_t)n, sizeof(*times), compare_doubles);
	return times[percent == 50 ? n / 2 : (n - 1) * percent / 100];
}

/* So many, or what the budget affords when these are 0. */
static int affordable(int operations, double us, double budget_s)
{
	double iters = operations ? operations : budget_s * 1e6 / us;

	return iters < ITERS_MIN ? ITERS_MIN : iters > ITERS_MAX ? ITERS_MAX : (int)iters;
}

/* 0, or 1 when larger sizes are not worth trying. */
static int run_size(struct driver *driver, size_t bytes, int warmups, int operations, double limit,
	double budget_s)
{
	static double times[ITERS_MAX];
	size_t room = bytes * (size_t)driver->together;
	size_t count = room / sizeof(float);
	float *data = (float *)aligned_alloc(ALIGNMENT, (room / ALIGNMENT + 1) * ALIGNMENT);
	double us;
	double high = 0;
	double cpu;
	uint64_t wrong;
	int iters;

	if (!data) {
		fprintf(stderr, "%zu bytes: out of memory\n", bytes);
		exit(1);
	}
	driver->begin(driver, data, count);
	wrong = operate(driver, data, count, warmups, times, &cpu);
	us = driver->max(driver, percentile(times, warmups, 50));
	iters = affordable(operations, us * driver->together, budget_s);
	if (us <= limit) {
		wrong += operate(driver, data, count, iters, times, &cpu);
		us = driver->max(driver, percentile(times, iters, 50));
		high = driver->max(driver, percentile(times, iters, HIGH_PERCENT));
	}
	wrong = (uint64_t)driver->max(driver, (double)wrong);
	driver->end(driver);
	free(data);
	if (driver->rank == 0) {
		printf("{\"bytes\": %zu, \"%s\": %.2f, \"p95_us\": %.2f, \"cpu_us\": %.2f, "
		       "\"iters\": "
		       "%d, \"wrong\": %llu}\n",
			bytes, high > 0 ? "median_us" : "given_up_us", us, high, cpu,
			high > 0 ? iters : 0, (unsigned long long)wrong);
		fflush(stdout);
	}
	return us > 2 * limit;
}

void driver_run(struct driver *driver, const char *plan, double budget_s)
{
	size_t bytes;
	int warmups;
	int operations;
	int used;
	double limit;

	driver->together = driver->together ? driver->together : 1;
	while (sscanf(plan, "%zu:%d:%d:%lf%n", &bytes, &warmups, &operations, &limit, &used) == 4) {
		if (run_size(driver, bytes, warmups, operations, limit, budget_s)) {
			break;
		}
		plan += used;
		plan += *plan == ',';
	}
}
