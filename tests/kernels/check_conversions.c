/* Checks how element.h widens every narrow value, and rounds beside and between all of them. */
#include <math.h>
#include <stdio.h>

#include "reduction_server/kernels/element.h"
#include "reduction_server/kernels/kernels.h"
#include "tests/kernels/check.h"
#include "tests/kernels/reference.h"
#include "worker/summand.h"

static float widen_any(unsigned dtype, uint64_t bits)
{
	switch (dtype) {
	case SMD_FLOAT16:
		return float_of_float16((uint16_t)bits);
	case SMD_BFLOAT16:
		return float_of_bfloat16((uint16_t)bits);
	case SMD_FLOAT8E4M3:
		return float_of_float8e4m3((uint8_t)bits);
	default:
		return float_of_float8e5m2((uint8_t)bits);
	}
}

static uint64_t narrow_any(unsigned dtype, float value)
{
	switch (dtype) {
	case SMD_FLOAT16:
		return float16_of_float(value);
	case SMD_BFLOAT16:
		return bfloat16_of_float(value);
	case SMD_FLOAT8E4M3:
		return float8e4m3_of_float(value);
	default:
		return float8e5m2_of_float(value);
	}
}

static bool widens(unsigned dtype, uint64_t bits)
{
	double must = reference_decode(dtype, bits);
	double got = (double)widen_any(dtype, bits);

	if (isnan(must) ? isnan(got) : must == got && signbit(must) == signbit(got)) {
		return true;
	}
	printf("MISMATCH %s 0x%llx: must widen to %a, got %a\n", smd_dtype_name(dtype),
		(unsigned long long)bits, must, got);
	return false;
}

static bool narrows(unsigned dtype, float value)
{
	uint64_t must = reference_encode(dtype, (double)value);
	uint64_t got = narrow_any(dtype, value);

	if (must == got) {
		return true;
	}
	printf("MISMATCH %s of %a: must be 0x%llx, got 0x%llx\n", smd_dtype_name(dtype),
		(double)value, (unsigned long long)must, (unsigned long long)got);
	return false;
}

/* A number, the middle between it and the next one, and the floats beside the middle. */
static bool narrows_beside(unsigned dtype, uint64_t bits)
{
	int precision = reference_format(dtype)->precision;
	double value = reference_decode(dtype, bits);
	double half = ldexp(1, reference_exponent(dtype, bits) - precision);
	float middle = (float)(value + (value < 0 ? -half : half));

	return narrows(dtype, (float)value) && narrows(dtype, middle) &&
	       narrows(dtype, nextafterf(middle, INFINITY)) &&
	       narrows(dtype, nextafterf(middle, -INFINITY));
}

static unsigned check_type(unsigned dtype, unsigned stride)
{
	uint64_t patterns = 1ull << (8 * smd_dtype_bytes(dtype));
	unsigned wrong = 0;

	for (uint64_t bits = 0; bits < patterns && !wrong; bits++) {
		wrong += !widens(dtype, bits);
		wrong +=
			!isfinite(reference_decode(dtype, bits)) ? 0 : !narrows_beside(dtype, bits);
	}
	for (uint64_t bits = 0; bits < 1ull << 32 && !wrong; bits += stride) {
		wrong += !narrows(dtype, float_of_bits((uint32_t)bits));
	}
	return wrong > 0;
}

unsigned check_conversions(bool brief)
{
	static const unsigned narrow_types[] = {
		SMD_FLOAT16, SMD_BFLOAT16, SMD_FLOAT8E4M3, SMD_FLOAT8E5M2};
	unsigned stride = brief ? 65537 : 2053;
	unsigned wrong = 0;

	for (unsigned i = 0; i < 4; i++) {
		wrong += check_type(narrow_types[i], stride);
	}
	printf("conversions of 4 narrow types: every value, every tie and what is beside it, and "
	       "one float32 in %u: %s\n",
		stride, wrong ? "MISMATCHES" : "ok");
	return wrong;
}
