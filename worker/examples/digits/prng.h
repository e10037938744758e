/*
 * Pseudo-random numbers that are the same on every machine: SplitMix64.
 *
 * Every rank draws the same initial weights and knows its own shuffles, because the C library's
 * generators differ between systems and this one does not.
 */
#ifndef DIGITS_PRNG_H
#define DIGITS_PRNG_H

#include <stdint.h>

#include "reduction_server/base/random.h"

struct digits_prng {
	uint64_t state;
};

/* A stream of its own for every pair: the seed of the run, and what the numbers are for. */
static inline struct digits_prng digits_prng_create(uint64_t seed, uint64_t stream)
{
	return (struct digits_prng){.state = seed ^ (stream + 1) * 0xd1342543de82ef95u};
}

static inline uint64_t digits_prng_next(struct digits_prng *prng)
{
	return smd_random_next(&prng->state);
}

/* Evenly from 0 to bound - 1 (the bias is below bound / 2^32). */
static inline uint32_t digits_prng_below(struct digits_prng *prng, uint32_t bound)
{
	return (uint32_t)((digits_prng_next(prng) >> 32) * bound >> 32);
}

/* Evenly from -1 to 1, in steps of 2^-23: exact in a float. */
static inline float digits_prng_symmetric(struct digits_prng *prng)
{
	return (float)((int32_t)(digits_prng_next(prng) >> 40) - (1 << 23)) / (float)(1 << 23);
}

#endif
