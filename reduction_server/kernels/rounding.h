/*
 * One element: how the narrow floating-point types widen and round (specs/design/numerics.md).
 *
 * Everything here is integer arithmetic, exact floating-point arithmetic, and choices instead of
 * branches, so that a compiler turns loops of it into vector instructions of any width and the bits
 * stay the same.
 */
#ifndef SMD_KERNELS_ROUNDING_H
#define SMD_KERNELS_ROUNDING_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_float(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float float_of_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint64_t bits_of_double(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double double_of_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* ---- widening, which is exact ---- */

static inline float float_of_bfloat16(uint16_t x)
{
	return float_of_bits((uint32_t)x << 16);
}

/*
 * The narrow exponent and mantissa are put where float32 has them, `bias` higher: the difference of
 * the exponents' biases. Denormals (below `least`) are so many times `denormal`; infinities and NaN
 * (`special` and above) need the float's largest exponent.
 */
static inline float widen(uint32_t magnitude, unsigned shift, uint32_t bias, uint32_t least,
	float denormal, uint32_t special)
{
	uint32_t bits = (magnitude << shift) + (bias << 23);
	float small = (float)(int32_t)magnitude * denormal;
	float value = magnitude < least ? small : float_of_bits(bits);

	return magnitude >= special ? float_of_bits(bits | 0x7f800000u) : value;
}

static inline float with_sign(float magnitude, uint32_t sign)
{
	return float_of_bits(bits_of_float(magnitude) | sign);
}

static inline float float_of_float16(uint16_t x)
{
	return with_sign(widen(x & 0x7fffu, 13, 112, 0x400, 0x1p-24f, 0x7c00),
		(uint32_t)(x & 0x8000u) << 16);
}

static inline float float_of_float8e5m2(uint8_t x)
{
	return with_sign(widen(x & 0x7fu, 21, 112, 4, 0x1p-16f, 0x7c), (uint32_t)(x & 0x80u) << 24);
}

/* It has no infinity; all ones are NaN. */
static inline float float_of_float8e4m3(uint8_t x)
{
	return with_sign(widen(x & 0x7fu, 20, 120, 8, 0x1p-9f, 0x7f), (uint32_t)(x & 0x80u) << 24);
}

/* These need neither widening nor rounding. */
static inline float float_of_float(float value)
{
	return value;
}

static inline double double_of_double(double value)
{
	return value;
}

/* ---- rounding to nearest, ties to even ---- */

static inline uint16_t bfloat16_of_float(float value)
{
	uint32_t bits = bits_of_float(value);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (uint16_t)(value != value ? 0x7fc0u : rounded);
}

/*
 * To a type whose mantissa is `drop` bits shorter than float32's: `magnitude` are the bits of a
 * finite float without its sign, `least` those of the narrow type's smallest normal number.
 * Denormals: adding 2^k makes the sum's last bit worth that of the narrow denormals, so the
 * addition rounds.
 */
static inline uint32_t narrow(uint32_t magnitude, unsigned drop, uint32_t least, float denormal)
{
	uint32_t bias = (least >> 23) - 1; /* of the exponents, one against the other */
	uint32_t half = (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
	uint32_t normal = ((magnitude + half) >> drop) - (bias << (23 - drop));
	uint32_t small =
		bits_of_float(float_of_bits(magnitude) + denormal) - bits_of_float(denormal);

	return magnitude >= least ? normal : small;
}

static inline uint32_t least_of(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint16_t float16_of_float(float value)
{
	uint32_t magnitude = bits_of_float(value) & 0x7fffffffu;
	uint32_t sign = bits_of_float(value) >> 16 & 0x8000u;
	/* From 65520 on the nearest is infinity, and 2^16 rounds to its bits. */
	uint32_t rounded = narrow(least_of(magnitude, 0x47800000u), 13, 0x38800000u, 0x1p-1f);

	return (uint16_t)(value != value ? 0x7e00u : sign | rounded);
}

static inline uint8_t float8e5m2_of_float(float value)
{
	uint32_t magnitude = bits_of_float(value) & 0x7fffffffu;
	uint32_t sign = bits_of_float(value) >> 24 & 0x80u;
	uint32_t rounded = narrow(least_of(magnitude, 0x47600000u), 21, 0x38800000u, 0x1p7f);

	return (uint8_t)(value != value ? 0x7fu : sign | rounded); /* at most 57344 */
}

static inline uint8_t float8e4m3_of_float(float value)
{
	uint32_t magnitude = bits_of_float(value) & 0x7fffffffu;
	uint32_t sign = bits_of_float(value) >> 24 & 0x80u;
	uint32_t rounded = narrow(least_of(magnitude, 0x43e00000u), 20, 0x3c800000u, 0x1p14f);

	return (uint8_t)(value != value ? 0x7fu : sign | rounded); /* at most 448 */
}

#endif
