/* Kernels for x86-64 processors with AVX2 and F16C. */
#define VECTOR        32
#define VARIANT_TABLE smd_kernels_avx2

#include <immintrin.h>

/* The processor converts float16 as rounding.h does, but for NaN, which vector.inc sees to. */

static inline __m256 widen_float16(const void *from)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(from));
}

static inline void narrow_float16(void *to, __m256 x)
{
	_mm_storeu_si128(to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

typedef __m256i narrow_argument;

static inline __m256i widen_8(const void *from)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64(from));
}

static inline __m128i pack_16(__m256i x)
{
	return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

static inline void narrow_8(void *to, __m256i x)
{
	_mm_storel_epi64(to, _mm_packus_epi16(pack_16(x), _mm_setzero_si128()));
}

#include "reduction_server/kernels/vector.inc"

#define WIDTHS_TABLE smd_widths_avx2
#include "reduction_server/kernels/widths.inc"
