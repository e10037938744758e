/* Checks how the conversions widen every narrow value, and rounds beside and between all of them.
 */
#include <math.h>
#include <stdio.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/convert.h"
#include "reduction_server/kernels/rounding.h"
#include "tests/kernels/check.h"
#include "tests/kernels/reference.h"
#include "worker/summand.h"

static uint64_t narrow_any(unsigned dtype, float value)
{
	uint64_t bits = 0; /* little endian, as all we run on */

	smd_element_encode(&bits, (enum smd_dtype)dtype, (double)value);
	return bits;
}

static bool widens(unsigned dtype, uint64_t bits)
{
	double must = reference_decode(dtype, bits);
	double got = smd_element_decode(&bits, (enum smd_dtype)dtype);

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
	unsigned stride = brief ? 65537 : 2053;
	unsigned types = 0;
	unsigned wrong = 0;

	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		if (reference_format(dtype) && smd_dtype_bytes(dtype) < sizeof(float)) {
			types++;
			wrong += check_type(dtype, stride);
		}
	}
	printf("conversions of %u narrow types: every value, every tie and what is beside it, and "
	       "one float32 in %u: %s\n",
		types, stride, wrong ? "MISMATCHES" : "ok");
	return wrong;
}
