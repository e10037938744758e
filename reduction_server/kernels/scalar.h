/* The reference kernels: plain C, on every processor. */
#ifndef SMD_KERNELS_SCALAR_H
#define SMD_KERNELS_SCALAR_H

#include "reduction_server/kernels/kernels.h"

smd_kernel smd_kernel_float32_sum_scalar;
smd_kernel smd_kernel_int32_sum_scalar;

#endif
