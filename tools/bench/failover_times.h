/*
 * What the programs that tools/bench-failover runs beside summand-perf say of their operations'
 * times, as that says it.
 */
#ifndef SMD_TOOLS_BENCH_FAILOVER_TIMES_H
#define SMD_TOOLS_BENCH_FAILOVER_TIMES_H

#include <stdio.h>
#include <stdlib.h>

struct failover_times {
	double median_us;
	double max_us;
};

static inline int failover_times_compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them. */
static inline struct failover_times failover_times_of(double *us, size_t n)
{
	qsort(us, n, sizeof(*us), failover_times_compare);
	return (struct failover_times){us[n / 2], us[n - 1]};
}

static inline void failover_times_print(const struct failover_times *slowest)
{
	printf("{\"results\": [{\"time_us\": {\"median\": %.1f, \"max\": %.1f}}]}\n",
		slowest->median_us, slowest->max_us);
}

#endif
