/* Time since some fixed moment, unaffected by changes of the wall clock. */
#ifndef SMD_BASE_CLOCK_H
#define SMD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SMD_SECOND_NS 1000000000ull

static inline uint64_t smd_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SMD_SECOND_NS + (uint64_t)now.tv_nsec;
}

static inline double smd_clock_seconds(void)
{
	return (double)smd_clock_ns() * 1e-9;
}

#endif
