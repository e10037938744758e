/* SplitMix64: pseudo-random numbers that are the same on every machine. Not for secrets. */
#ifndef SMD_BASE_RANDOM_H
#define SMD_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t smd_random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
