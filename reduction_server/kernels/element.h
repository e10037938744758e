/*
 * One element: what the reductions of each kind of accumulator do, and how types widen to these and
 * round (rounding.h). As there, everything is exact and without branches.
 */
#ifndef SMD_KERNELS_ELEMENT_H
#define SMD_KERNELS_ELEMENT_H

#include "reduction_server/kernels/rounding.h"

#define REDUCE_SUM(a, b)       ((a) + (b))
#define REDUCE_PROD(a, b)      ((a) * (b))
#define REDUCE_MIN_WHOLE(a, b) ((b) < (a) ? (b) : (a))
#define REDUCE_MAX_WHOLE(a, b) ((b) > (a) ? (b) : (a))

/* A NaN gives way to a number. Of zeros the negative one is less: equal numbers have equal bits but
 * for that. */
static inline float min_float(float a, float b)
{
	float less = b < a || a != a ? b : a;

	return a == b ? float_of_bits(bits_of_float(a) | bits_of_float(b)) : less;
}

static inline float max_float(float a, float b)
{
	float more = b > a || a != a ? b : a;

	return a == b ? float_of_bits(bits_of_float(a) & bits_of_float(b)) : more;
}

static inline double min_double(double a, double b)
{
	double less = b < a || a != a ? b : a;

	return a == b ? double_of_bits(bits_of_double(a) | bits_of_double(b)) : less;
}

static inline double max_double(double a, double b)
{
	double more = b > a || a != a ? b : a;

	return a == b ? double_of_bits(bits_of_double(a) & bits_of_double(b)) : more;
}

/* Which NaN comes out of arithmetic depends on the processor: only one kind leaves a kernel. */
static inline float one_nan_float(float value)
{
	return value != value ? float_of_bits(0x7fc00000u) : value;
}

static inline double one_nan_double(double value)
{
	return value != value ? double_of_bits(0x7ff8000000000000ull) : value;
}

#endif
