/* Kernels for AArch64, which always has NEON. */
#define VECTOR        16
#define VARIANT_TABLE smd_kernels_neon

#include <arm_neon.h>
#include <string.h>

/* The processor converts float16 as rounding.h does, but for NaN, which vector.inc sees to. */

static inline float32x4_t widen_float16(const void *from)
{
	return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from)));
}

static inline void narrow_float16(void *to, float32x4_t x)
{
	vst1_u8(to, vreinterpret_u8_f16(vcvt_f16_f32(x)));
}

typedef uint32x4_t narrow_argument;

static inline uint32x4_t widen_8(const void *from)
{
	uint32_t four;

	memcpy(&four, from, sizeof(four));
	return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}

static inline void narrow_8(void *to, uint32x4_t x)
{
	uint16x4_t words = vmovn_u32(x);
	uint8x8_t bytes = vmovn_u16(vcombine_u16(words, words));
	uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);

	memcpy(to, &four, sizeof(four));
}

#include "reduction_server/kernels/vector.inc"

#define WIDTHS_TABLE smd_widths_neon
#include "reduction_server/kernels/widths.inc"
