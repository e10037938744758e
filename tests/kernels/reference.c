/* The definitions of reference.h. Nothing here is shared with the kernels. */
#include <math.h>
#include <stddef.h>

#include "reduction_server/base/dtype.h"
#include "tests/kernels/reference.h"
#include "worker/summand.h"

static const struct float_format formats[SMD_DTYPE_COUNT] = {
	[SMD_FLOAT16] = {5, 11, true, false, 0x7e00},
	[SMD_FLOAT32] = {8, 24, true, false, 0x7fc00000},
	[SMD_FLOAT64] = {11, 53, true, false, 0x7ff8000000000000},
	[SMD_BFLOAT16] = {8, 8, true, false, 0x7fc0},
	[SMD_FLOAT8E4M3] = {4, 4, false, true, 0x7f},
	[SMD_FLOAT8E5M2] = {5, 3, true, true, 0x7f},
};

const struct float_format *reference_format(unsigned dtype)
{
	return formats[dtype].precision ? &formats[dtype] : NULL;
}

/* ---- floating-point numbers and their fields ---- */

static int mantissa_bits(const struct float_format *format)
{
	return format->precision - 1;
}

static int bias(const struct float_format *format)
{
	return (1 << (format->exponent_bits - 1)) - 1;
}

static uint64_t sign_bit(const struct float_format *format)
{
	return 1ull << (format->exponent_bits + mantissa_bits(format));
}

/* The pattern of infinity, or where it would be. */
static uint64_t infinity_of(const struct float_format *format)
{
	return ((1ull << format->exponent_bits) - 1) << mantissa_bits(format);
}

static uint64_t largest_finite(const struct float_format *format)
{
	return format->infinity ? infinity_of(format) - 1 : sign_bit(format) - 2;
}

bool reference_is_nan(unsigned dtype, uint64_t bits)
{
	const struct float_format *format = &formats[dtype];
	uint64_t magnitude = bits & (sign_bit(format) - 1);

	return magnitude > largest_finite(format) &&
	       !(format->infinity && magnitude == infinity_of(format));
}

static int exponent_field(const struct float_format *format, uint64_t bits)
{
	return (int)(bits >> mantissa_bits(format)) & ((1 << format->exponent_bits) - 1);
}

int reference_exponent(unsigned dtype, uint64_t bits)
{
	const struct float_format *format = &formats[dtype];
	int field = exponent_field(format, bits);

	return (field > 0 ? field : 1) - bias(format);
}

double reference_decode(unsigned dtype, uint64_t bits)
{
	const struct float_format *format = &formats[dtype];
	uint64_t hidden = 1ull << mantissa_bits(format);
	uint64_t mantissa = bits & (hidden - 1);
	double magnitude;

	if (reference_is_nan(dtype, bits)) {
		return NAN;
	}
	if (exponent_field(format, bits) > 0) {
		mantissa += hidden;
	}
	magnitude =
		ldexp((double)mantissa, reference_exponent(dtype, bits) - mantissa_bits(format));
	if (format->infinity && (bits & (sign_bit(format) - 1)) == infinity_of(format)) {
		magnitude = INFINITY;
	}
	return bits & sign_bit(format) ? -magnitude : magnitude;
}

/*
 * The value is counted in quanta, the distance of its neighbours. As the first of `precision` bits
 * stands where the exponent begins, quanta and exponent are added, and a carry is right.
 */
static uint64_t encode_magnitude(const struct float_format *format, double magnitude)
{
	int least = 1 - bias(format);
	int exponent;
	uint64_t bits;

	if (isinf(magnitude)) {
		return infinity_of(format);
	}
	frexp(magnitude, &exponent);
	exponent = magnitude == 0 || exponent - 1 < least ? least : exponent - 1;
	bits = (uint64_t)rint(ldexp(magnitude, mantissa_bits(format) - exponent));
	return bits + ((uint64_t)(exponent - least) << mantissa_bits(format));
}

uint64_t reference_encode(unsigned dtype, double value)
{
	const struct float_format *format = &formats[dtype];
	uint64_t bits;

	if (isnan(value)) {
		return format->nan;
	}
	bits = encode_magnitude(format, fabs(value));
	if (bits > largest_finite(format)) {
		bits = format->saturates ? largest_finite(format) : infinity_of(format);
	}
	return signbit(value) ? bits | sign_bit(format) : bits;
}

/* ---- arithmetic of the accumulators ---- */

static double to_float(double value)
{
	return reference_decode(SMD_FLOAT32, reference_encode(SMD_FLOAT32, value));
}

/* Sum, product or quotient, rounded once: 113 bits hold enough of any for that, 53 of a float's. */
static double step(unsigned dtype, char operation, double a, double b)
{
	_Float128 x = a;
	_Float128 y = b;

	if (dtype != SMD_FLOAT64) {
		return to_float(operation == '+' ? a + b : operation == '*' ? a * b : a / b);
	}
	return (double)(operation == '+' ? x + y : operation == '*' ? x * y : x / y);
}

static uint64_t reduce_real(unsigned dtype, unsigned op, const uint64_t *values, unsigned n)
{
	double sum = reference_decode(dtype, values[0]);

	for (unsigned i = 1; i < n; i++) {
		double part = reference_decode(dtype, values[i]);

		sum = step(dtype, op == SMD_PROD ? '*' : '+', sum, part);
	}
	if (op == SMD_AVG) {
		sum = step(dtype, '/', sum, (double)n);
	}
	return reference_encode(dtype, sum);
}

/* Where a number stands among all patterns that are none NaN: -0 is just below +0. */
static int64_t place_of(const struct float_format *format, uint64_t bits)
{
	int64_t magnitude = (int64_t)(bits & (sign_bit(format) - 1));

	return bits & sign_bit(format) ? -magnitude - 1 : magnitude;
}

static uint64_t extreme_real(unsigned dtype, bool most, const uint64_t *values, unsigned n)
{
	const struct float_format *format = &formats[dtype];
	uint64_t found = format->nan;

	for (unsigned i = 0; i < n; i++) {
		int64_t place = place_of(format, values[i]);

		if (reference_is_nan(dtype, values[i])) {
			continue;
		}
		if (reference_is_nan(dtype, found) || (most ? place > place_of(format, found)
							    : place < place_of(format, found))) {
			found = values[i];
		}
	}
	return reference_encode(dtype, reference_decode(dtype, found));
}

/* ---- integers ---- */

static bool is_signed(unsigned dtype)
{
	return dtype == SMD_INT8 || dtype == SMD_INT32 || dtype == SMD_INT64;
}

/* The number that a pattern of a type stands for; higher bits than the type's are dropped. */
static __int128 number_of(unsigned dtype, unsigned __int128 bits)
{
	unsigned width = 8 * (unsigned)smd_dtype_bytes(dtype);
	__int128 number = (__int128)(bits & ((((unsigned __int128)1) << width) - 1));

	if (is_signed(dtype) && number >> (width - 1) & 1) {
		number -= (__int128)1 << width;
	}
	return number;
}

static __int128 quotient(__int128 a, unsigned n)
{
	return a < 0 ? -(-a / n) : a / n;
}

static uint64_t reduce_whole(unsigned dtype, unsigned op, const uint64_t *values, unsigned n)
{
	__int128 result = number_of(dtype, values[0]);

	for (unsigned i = 1; i < n; i++) {
		__int128 part = number_of(dtype, values[i]);

		switch ((enum smd_op)op) {
		case SMD_PROD:
			result = number_of(
				dtype, (unsigned __int128)result * (unsigned __int128)part);
			break;
		case SMD_MAX:
			result = part > result ? part : result;
			break;
		case SMD_MIN:
			result = part < result ? part : result;
			break;
		case SMD_SUM:
		case SMD_AVG:
			result += part;
			break;
		case SMD_OP_COUNT:
			break;
		}
	}
	result = number_of(dtype, (unsigned __int128)result);
	if (op == SMD_AVG) {
		result = quotient(result, n);
	}
	return (uint64_t)result & (~0ull >> (64 - 8 * smd_dtype_bytes(dtype)));
}

uint64_t reference_reduce(unsigned dtype, unsigned op, const uint64_t *values, unsigned n)
{
	if (!reference_format(dtype)) {
		return reduce_whole(dtype, op, values, n);
	}
	if (op == SMD_MAX || op == SMD_MIN) {
		return extreme_real(dtype, op == SMD_MAX, values, n);
	}
	return reduce_real(dtype, op, values, n);
}
