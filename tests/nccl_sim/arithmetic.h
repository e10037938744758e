/* What a kernel of NCCL computes: which collective it is for, and the arithmetic of its type and
 * reduction. */
#ifndef SMD_NCCL_SIM_ARITHMETIC_H
#define SMD_NCCL_SIM_ARITHMETIC_H

#include <cstddef>
#include <cstdint>

struct smd_function {
	int collective, reduction, type, algorithm, protocol; /* NCCL's numbers */
	size_t size;                                          /* of an element */
	uint64_t argument;                                    /* of the reduction */
};

/* to[i] = to[i] with from[i] */
void smd_arithmetic_reduce(const smd_function &function, void *to, const void *from, size_t n);

/* What the reduction does to a rank's own elements before, and to the result after. */
void smd_arithmetic_begin(const smd_function &function, void *to, size_t n);
void smd_arithmetic_end(const smd_function &function, void *to, size_t n);

#endif
