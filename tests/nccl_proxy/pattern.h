/*
 * What ranks send, and what must come of it, to the bit: random values with all special ones of the
 * type among them (NaN, infinities, denormals, numbers that overflow), as stale bytes of a bounce
 * buffer may be. The reference is that of the kernels (tests/kernels/reference.h).
 *
 * Elements repeat after a prime number of them, so that whatever lands in another place shows.
 */
#ifndef TESTS_NCCL_PROXY_PATTERN_H
#define TESTS_NCCL_PROXY_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Elements [first, first + count) of what the rank sends. */
void pattern_fill(void *to, unsigned dtype, size_t first, size_t count, int rank, uint64_t seed);

/* The elements [first, first + count) of a reduction of all ranks' patterns: how many are wrong.
 * `wire` is the type that they cross the network in, and are reduced in. */
size_t pattern_wrong(const void *got, unsigned dtype, unsigned wire, unsigned op, size_t first,
	size_t count, int nranks, uint64_t seed);

#endif
