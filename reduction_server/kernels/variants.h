/* The tables of kernels, one for each instruction set that this was built for. */
#ifndef SMD_KERNELS_VARIANTS_H
#define SMD_KERNELS_VARIANTS_H

#include "reduction_server/kernels/kernels.h"
#include "summand_types.h"

typedef smd_kernel *smd_kernel_table[SMD_DTYPE_COUNT][SMD_OP_COUNT];

struct smd_widths {
	smd_width_kernel *narrow[SMD_DTYPE_COUNT];
	smd_width_kernel *widen[SMD_DTYPE_COUNT];
};

extern const smd_kernel_table smd_kernels_scalar;
extern const struct smd_widths smd_widths_scalar;
#ifdef __x86_64__
extern const smd_kernel_table smd_kernels_avx2;
extern const struct smd_widths smd_widths_avx2;
extern const smd_kernel_table smd_kernels_avx512;
extern const struct smd_widths smd_widths_avx512;
#endif
#ifdef __aarch64__
extern const smd_kernel_table smd_kernels_neon;
extern const struct smd_widths smd_widths_neon;
#endif

#endif
