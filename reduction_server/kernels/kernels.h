/*
 * Reducing n equal buffers into one, in rank order, in one pass.
 *
 * dst[i] = src[0][i] (op) src[1][i] (op) ... (op) src[n-1][i]. Because the order of ranks is fixed,
 * the bits do not depend on who came first. dst may be one of the sources; otherwise nothing
 * overlaps. Buffers need no alignment beyond the element's. Integer overflow wraps. All kernels of
 * an element type and operation give the same bits as the scalar one.
 */
#ifndef SMD_KERNELS_KERNELS_H
#define SMD_KERNELS_KERNELS_H

#include <stddef.h>

typedef void smd_kernel(void *dst, const void *const *src, unsigned nsrc, size_t count);

/* The kernel for NCCL's type and operation numbers on this processor; NULL when there is none. */
smd_kernel *smd_kernel_find(unsigned dtype, unsigned op);

/* "scalar": the variant that smd_kernel_find() gives out for it; NULL when there is none. */
const char *smd_kernel_variant(unsigned dtype, unsigned op);

/* Bytes of an element, or 0 for a number that is no type. */
size_t smd_dtype_bytes(unsigned dtype);

const char *smd_dtype_name(unsigned dtype); /* "float32", or "type 99" */
const char *smd_op_name(unsigned op);       /* "sum", or "op 99" */

/* The number of a name; -EINVAL when it is none. */
int smd_dtype_parse(const char *name, unsigned *out);
int smd_op_parse(const char *name, unsigned *out);

#endif
