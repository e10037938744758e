/*
 * What a reduction must give, from definitions of its own (specs/design/numerics.md): integers are exact
 * in 128 bits and wrapped at the end; floating-point numbers are read from their fields, computed
 * with more than twice the precision, and rounded to a whole number of quanta.
 *
 * Values are bit patterns of the type in the low bits.
 */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* A binary floating-point type: a sign, exponent bits, and the precision's bits but the first one.
 */
struct float_format {
	int exponent_bits;
	int precision;
	bool infinity;  /* the largest exponent is kept for infinity and NaN */
	bool saturates; /* what is too large becomes the largest finite number */
	uint64_t nan;   /* the one that results have */
};

/* NULL for an integer type. */
const struct float_format *reference_format(unsigned dtype);

/* Of floating-point types. decode is exact; encode rounds to nearest, ties to even. */
double reference_decode(unsigned dtype, uint64_t bits);
uint64_t reference_encode(unsigned dtype, double value);
bool reference_is_nan(unsigned dtype, uint64_t bits);

/* The binary exponent of a finite number, at least that of the smallest normal one. */
int reference_exponent(unsigned dtype, uint64_t bits);

/* The reduction of values[0] to values[n - 1], in this order. */
uint64_t reference_reduce(unsigned dtype, unsigned op, const uint64_t *values, unsigned n);

#endif
