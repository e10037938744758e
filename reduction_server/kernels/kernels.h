/*
 * Reducing n equal buffers into one, in rank order, in one pass.
 *
 * dst[i] = src[0][i] (op) src[1][i] (op) ... (op) src[n-1][i]. Because the order of ranks is fixed,
 * the bits do not depend on who came first. dst may be one of the sources; otherwise nothing
 * overlaps. Buffers need no alignment. specs/design/numerics.md tells how each type rounds and
 * overflows.
 *
 * There are variants of every kernel for several instruction sets. All give the same bits.
 */
#ifndef SMD_KERNELS_KERNELS_H
#define SMD_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

typedef void smd_kernel(void *dst, const void *const *src, unsigned nsrc, size_t count);

/* From the slowest to the fastest on its architecture. */
enum smd_variant {
	SMD_VARIANT_SCALAR,
	SMD_VARIANT_AVX2,   /* x86-64 with AVX2 and F16C */
	SMD_VARIANT_AVX512, /* x86-64 with AVX-512 F, BW, DQ and VL */
	SMD_VARIANT_NEON,   /* AArch64 */
	SMD_VARIANT_COUNT
};

/*
 * The kernel for NCCL's type and operation numbers in the best variant of this processor, or in a
 * lower one that SUMMAND_CPU names; NULL when a number is none. The first call decides.
 */
smd_kernel *smd_kernel_find(unsigned dtype, unsigned op);

/* The same in one variant; NULL also when it is not built in or the processor does not have it. */
smd_kernel *smd_kernel_find_variant(unsigned dtype, unsigned op, enum smd_variant variant);

/*
 * From float32 to the type, each element rounded once, and from the type to float32: for float16 and bfloat16, NULL for
 * all others. `to` may be `from`, and otherwise does not overlap it. In the variant of smd_kernel_find().
 */
typedef void smd_width_kernel(void *to, const void *from, size_t count);
smd_width_kernel *smd_narrow_find(unsigned dtype);
smd_width_kernel *smd_widen_find(unsigned dtype);

/* The same in one variant; NULL also when it is not built in or the processor does not have it. */
smd_width_kernel *smd_narrow_find_variant(unsigned dtype, enum smd_variant variant);
smd_width_kernel *smd_widen_find_variant(unsigned dtype, enum smd_variant variant);

/* The variant that smd_kernel_find() gives out. */
enum smd_variant smd_variant_chosen(void);
bool smd_variant_runs(enum smd_variant variant);
const char *smd_variant_name(enum smd_variant variant); /* "avx2" */

#endif
