/*
 * The element types and reductions, each written down once.
 *
 * Numbers, names, sizes and the tables of kernels are all generated from these rows. To add an element
 * type: its row here, its kernels in reduction_server/kernels, its tests in tests/kernels. What does not
 * know it yet does not compile.
 */
#ifndef SUMMAND_TYPES_H
#define SUMMAND_TYPES_H

#include <stdint.h>

/*
 * X(constant, number, name, kernel, class, element, accumulator, bits)
 *
 * number       NCCL's ncclDataType_t, and what frames carry
 * kernel       what the names of its kernels and conversions contain
 * class        WHOLE (integers) or REAL (floating point)
 * element      what holds it in memory, little endian
 * accumulator  what it is reduced in
 * bits         whole numbers up to 2^bits are exact in a REAL type
 */
#define SMD_DTYPES(X)                                                                              \
	X(SMD_INT8, 0, "int8", int8, WHOLE, int8_t, int8_t, 0)                                     \
	X(SMD_UINT8, 1, "uint8", uint8, WHOLE, uint8_t, uint8_t, 0)                                \
	X(SMD_INT32, 2, "int32", int32, WHOLE, int32_t, int32_t, 0)                                \
	X(SMD_UINT32, 3, "uint32", uint32, WHOLE, uint32_t, uint32_t, 0)                           \
	X(SMD_INT64, 4, "int64", int64, WHOLE, int64_t, int64_t, 0)                                \
	X(SMD_UINT64, 5, "uint64", uint64, WHOLE, uint64_t, uint64_t, 0)                           \
	X(SMD_FLOAT16, 6, "float16", float16, REAL, uint16_t, float, 11)                           \
	X(SMD_FLOAT32, 7, "float32", float, REAL, float, float, 24)                                \
	X(SMD_FLOAT64, 8, "float64", double, REAL, double, double, 53)                             \
	X(SMD_BFLOAT16, 9, "bfloat16", bfloat16, REAL, uint16_t, float, 8)                         \
	X(SMD_FLOAT8E4M3, 10, "float8e4m3", float8e4m3, REAL, uint8_t, float, 4)                   \
	X(SMD_FLOAT8E5M2, 11, "float8e5m2", float8e5m2, REAL, uint8_t, float, 3)

/* X(constant, number, name, kernel); the numbers are NCCL's ncclRedOp_t. */
#define SMD_OPS(X)                                                                                 \
	X(SMD_SUM, 0, "sum", sum)                                                                  \
	X(SMD_PROD, 1, "prod", prod)                                                               \
	X(SMD_MAX, 2, "max", max)                                                                  \
	X(SMD_MIN, 3, "min", min)                                                                  \
	X(SMD_AVG, 4, "avg", avg)

#define SMD_TYPES_CONSTANT(constant, number, ...) constant = (number),

enum smd_dtype {
	SMD_DTYPES(SMD_TYPES_CONSTANT)
	SMD_DTYPE_COUNT
};

enum smd_op {
	SMD_OPS(SMD_TYPES_CONSTANT)
	SMD_OP_COUNT
};

#undef SMD_TYPES_CONSTANT

#endif
