/* Converts single elements of every type, by the conversions that the kernels use. */
#include "reduction_server/kernels/convert.h"

#include <string.h>

#include "reduction_server/kernels/rounding.h"

#define NARROW_WHOLE(kernel, wide) (value)
#define NARROW_REAL(kernel, wide)  kernel##_of_##wide((wide)value)
#define WIDEN_WHOLE(kernel, wide)  (one)
#define WIDEN_REAL(kernel, wide)   wide##_of_##kernel(one)

#define X(constant, number, name, kernel, class, element, wide, bits)                              \
	static void encode_##kernel(void *to, double value)                                        \
	{                                                                                          \
		element one = (element)NARROW_##class(kernel, wide);                               \
                                                                                                   \
		memcpy(to, &one, sizeof(one));                                                     \
	}                                                                                          \
	static double decode_##kernel(const void *from)                                            \
	{                                                                                          \
		element one;                                                                       \
                                                                                                   \
		memcpy(&one, from, sizeof(one));                                                   \
		return (double)WIDEN_##class(kernel, wide);                                        \
	}
SMD_DTYPES(X)
#undef X

void smd_element_encode(void *to, enum smd_dtype dtype, double value)
{
	static void (*const encoders[SMD_DTYPE_COUNT])(void *, double) = {
#define X(constant, number, name, kernel, ...) [constant] = encode_##kernel,
		SMD_DTYPES(X)
#undef X
	};

	encoders[dtype](to, value);
}

double smd_element_decode(const void *from, enum smd_dtype dtype)
{
	static double (*const decoders[SMD_DTYPE_COUNT])(const void *) = {
#define X(constant, number, name, kernel, ...) [constant] = decode_##kernel,
		SMD_DTYPES(X)
#undef X
	};

	return decoders[dtype](from);
}
