/*
 * The reference kernels.
 *
 * A kernel works on blocks that stay in the first-level cache: the block's accumulator is filled
 * from rank 0 and each further rank is added in turn, so every input is read once and the result
 * written once.
 */
#include "reduction_server/kernels/scalar.h"

#include <stdint.h>
#include <string.h>

#define BLOCK 1024 /* elements: 4 KiB of accumulator */

/* memcpy moves elements in and out: buffers of peers need not be aligned for the compiler's taste.
 */
#define SUM_KERNEL(name, element)                                                                  \
	void name(void *dst, const void *const *src, unsigned nsrc, size_t count)                  \
	{                                                                                          \
		for (size_t done = 0; done < count; done += BLOCK) {                               \
			size_t n = count - done < BLOCK ? count - done : BLOCK;                    \
			size_t at = done * sizeof(element);                                        \
			element sum[BLOCK];                                                        \
			element part[BLOCK];                                                       \
                                                                                                   \
			memcpy(sum, (const char *)src[0] + at, n * sizeof(element));               \
			for (unsigned r = 1; r < nsrc; r++) {                                      \
				memcpy(part, (const char *)src[r] + at, n * sizeof(element));      \
				for (size_t i = 0; i < n; i++) {                                   \
					sum[i] += part[i];                                         \
				}                                                                  \
			}                                                                          \
			memcpy((char *)dst + at, sum, n * sizeof(element));                        \
		}                                                                                  \
	}

SUM_KERNEL(smd_kernel_float32_sum_scalar, float)
/* Unsigned, because overflow wraps. */
SUM_KERNEL(smd_kernel_int32_sum_scalar, uint32_t)
