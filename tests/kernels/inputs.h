/*
 * Values that kernels are checked with: all there are of the narrow types, those at the edges of
 * the wide ones, rounding ties, and random ones of many ranks.
 */
#ifndef TESTS_KERNELS_INPUTS_H
#define TESTS_KERNELS_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_RANKS 17

enum input_set {
	INPUTS_ALONE,   /* n = 1: every value; special and random ones of a wide type */
	INPUTS_PAIRS,   /* every one of these with every special one; of 8 bits every pair */
	INPUTS_TRIPLES, /* the special ones, all with all */
	INPUTS_TIES,    /* a number, half its quantum, and next to nothing; floating-point types */
	INPUTS_RANKS,   /* random and special ones of MOST_RANKS ranks */
	INPUTS_SETS
};

struct inputs {
	unsigned dtype;
	size_t width; /* bytes of an element */
	unsigned n;
	size_t count;
	unsigned char *src[MOST_RANKS]; /* count elements each */
};

const char *inputs_name(enum input_set set);

/* False when the type has no such set. `brief` leaves most of a large set out. */
bool inputs_make(struct inputs *in, unsigned dtype, enum input_set set, bool brief);
void inputs_free(struct inputs *in);

/* An element's pattern, in the low bits. */
uint64_t inputs_get(const void *elements, size_t width, size_t i);

/* Fills elements with random and special values, which the seed decides. */
void inputs_fill(void *elements, unsigned dtype, size_t count, uint64_t seed);

#endif
