/* Kernels for x86-64 processors with AVX-512 (F, BW, DQ, VL). */
#define VECTOR        64
#define VARIANT_TABLE smd_kernels_avx512

#include <immintrin.h>

/*
 * The processor converts float16 as rounding.h does, but for NaN, which vector.inc sees to. What
 * some processors have for bfloat16 (AVX512-BF16) takes denormals for zero, so it would give other
 * bits and is not used.
 */

static inline __m512 widen_float16(const void *from)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

static inline void narrow_float16(void *to, __m512 x)
{
	_mm256_storeu_si256(to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

typedef __m512i narrow_argument;

static inline __m512i widen_8(const void *from)
{
	return _mm512_cvtepu8_epi32(_mm_loadu_si128(from));
}

static inline void narrow_8(void *to, __m512i x)
{
	_mm_storeu_si128(to, _mm512_cvtepi32_epi8(x));
}

#include "reduction_server/kernels/vector.inc"

#define WIDTHS_TABLE smd_widths_avx512
#include "reduction_server/kernels/widths.inc"
