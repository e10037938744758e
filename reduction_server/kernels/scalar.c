/*
 * The reference kernels: one element after the other, on every processor.
 *
 * The accumulators of a block are filled from rank 0, each further rank is added in turn, and the
 * block is finished and written: every input is read once, and dst may be one of the sources.
 */
#include <stddef.h>
#include <stdint.h>

#include "reduction_server/kernels/element.h"
#include "reduction_server/kernels/variants.h"

#define BLOCK 512 /* elements: accumulators that stay in the first-level cache */

/* Buffers of peers need not be aligned, and have no type of their own. */
#define UNALIGNED __attribute__((aligned(1), may_alias))
typedef int8_t UNALIGNED raw_int8;
typedef uint8_t UNALIGNED raw_uint8;
typedef uint16_t UNALIGNED raw_uint16;
typedef int32_t UNALIGNED raw_int32;
typedef uint32_t UNALIGNED raw_uint32;
typedef int64_t UNALIGNED raw_int64;
typedef uint64_t UNALIGNED raw_uint64;
typedef float UNALIGNED raw_float;
typedef double UNALIGNED raw_double;

#define SAME(x) (x)

/*
 * LOADER(type, raw, wide, WIDEN): fills wide values from a block of raw elements.
 * STORER(type, raw, wide, NARROW): the inverse.
 */
#define LOADER(type, raw, wide, WIDEN)                                                             \
	static inline void load_##type(wide *restrict to, const raw *restrict from, size_t n)      \
	{                                                                                          \
		for (size_t i = 0; i < n; i++) {                                                   \
			to[i] = WIDEN(from[i]);                                                    \
		}                                                                                  \
	}
#define STORER(type, raw, wide, NARROW)                                                            \
	static inline void store_##type(raw *restrict to, const wide *restrict from, size_t n)     \
	{                                                                                          \
		for (size_t i = 0; i < n; i++) {                                                   \
			to[i] = (raw)NARROW(from[i]);                                              \
		}                                                                                  \
	}

LOADER(float, raw_float, float, SAME)
STORER(float, raw_float, float, one_nan_float)
LOADER(double, raw_double, double, SAME)
STORER(double, raw_double, double, one_nan_double)
LOADER(bfloat16, raw_uint16, float, float_of_bfloat16)
STORER(bfloat16, raw_uint16, float, bfloat16_of_float)
LOADER(float8e4m3, raw_uint8, float, float_of_float8e4m3)
STORER(float8e4m3, raw_uint8, float, float8e4m3_of_float)
LOADER(float8e5m2, raw_uint8, float, float_of_float8e5m2)
STORER(float8e5m2, raw_uint8, float, float8e5m2_of_float)
LOADER(float16, raw_uint16, float, float_of_float16)
STORER(float16, raw_uint16, float, float16_of_float)
LOADER(int8, raw_int8, int8_t, SAME)
STORER(int8, raw_int8, int8_t, SAME)
LOADER(uint8, raw_uint8, uint8_t, SAME)
STORER(uint8, raw_uint8, uint8_t, SAME)
LOADER(int32, raw_int32, int32_t, SAME)
STORER(int32, raw_int32, int32_t, SAME)
LOADER(uint32, raw_uint32, uint32_t, SAME)
STORER(uint32, raw_uint32, uint32_t, SAME)
LOADER(int64, raw_int64, int64_t, SAME)
STORER(int64, raw_int64, int64_t, SAME)
LOADER(uint64, raw_uint64, uint64_t, SAME)
STORER(uint64, raw_uint64, uint64_t, SAME)

/*
 * BODY: one kernel. `type` names its loader and storer, `wide` is the accumulator, REDUCE(a, b) the
 * reduction, FINISH(a, n) what is done at the end.
 */
#define BODY(type, op, raw, wide, REDUCE, FINISH)                                                  \
	static void kernel_##type##_##op(                                                          \
		void *dst, const void *const *src, unsigned nsrc, size_t count)                    \
	{                                                                                          \
		for (size_t done = 0; done < count; done += BLOCK) {                               \
			size_t n = count - done < BLOCK ? count - done : BLOCK;                    \
			wide sum[BLOCK];                                                           \
			wide part[BLOCK];                                                          \
                                                                                                   \
			load_##type(sum, (const raw *)src[0] + done, n);                           \
			for (unsigned r = 1; r < nsrc; r++) {                                      \
				load_##type(part, (const raw *)src[r] + done, n);                  \
				for (size_t i = 0; i < n; i++) {                                   \
					sum[i] = (wide)REDUCE(sum[i], part[i]);                    \
				}                                                                  \
			}                                                                          \
			for (size_t i = 0; i < n; i++) {                                           \
				sum[i] = (wide)FINISH(sum[i], nsrc);                               \
			}                                                                          \
			store_##type((raw *)dst + done, sum, n);                                   \
		}                                                                                  \
	}

#define AS_IT_IS(a, n)      (a)
#define OVER_FLOAT(a, n)    ((a) / (float)(n))
#define OVER_DOUBLE(a, n)   ((a) / (double)(n))
#define OVER_UNSIGNED(a, n) ((a) / (n))
#define OVER_INT(a, n)      ((a) / (int)(n))
#define OVER_INT64(a, n)    ((a) / (int64_t)(n))

/* Overflow wraps, which signed arithmetic must not: sums and products are made unsigned. */
#define SUM_32(a, b)  ((uint32_t)(a) + (uint32_t)(b))
#define PROD_32(a, b) ((uint32_t)(a) * (uint32_t)(b))
#define SUM_64(a, b)  ((uint64_t)(a) + (uint64_t)(b))
#define PROD_64(a, b) ((uint64_t)(a) * (uint64_t)(b))

#define WHOLE(type, raw, wide, SUM, PROD, OVER)                                                    \
	BODY(type, sum, raw, wide, SUM, AS_IT_IS)                                                  \
	BODY(type, prod, raw, wide, PROD, AS_IT_IS)                                                \
	BODY(type, max, raw, wide, REDUCE_MAX_WHOLE, AS_IT_IS)                                     \
	BODY(type, min, raw, wide, REDUCE_MIN_WHOLE, AS_IT_IS)                                     \
	BODY(type, avg, raw, wide, SUM, OVER)

#define REAL(type, raw, wide, MAX, MIN, OVER)                                                      \
	BODY(type, sum, raw, wide, REDUCE_SUM, AS_IT_IS)                                           \
	BODY(type, prod, raw, wide, REDUCE_PROD, AS_IT_IS)                                         \
	BODY(type, max, raw, wide, MAX, AS_IT_IS)                                                  \
	BODY(type, min, raw, wide, MIN, AS_IT_IS)                                                  \
	BODY(type, avg, raw, wide, REDUCE_SUM, OVER)

WHOLE(int8, raw_int8, int8_t, SUM_32, PROD_32, OVER_INT)
WHOLE(uint8, raw_uint8, uint8_t, SUM_32, PROD_32, OVER_UNSIGNED)
WHOLE(int32, raw_int32, int32_t, SUM_32, PROD_32, OVER_INT)
WHOLE(uint32, raw_uint32, uint32_t, SUM_32, PROD_32, OVER_UNSIGNED)
WHOLE(int64, raw_int64, int64_t, SUM_64, PROD_64, OVER_INT64)
WHOLE(uint64, raw_uint64, uint64_t, SUM_64, PROD_64, OVER_UNSIGNED)
REAL(float16, raw_uint16, float, max_float, min_float, OVER_FLOAT)
REAL(float, raw_float, float, max_float, min_float, OVER_FLOAT)
REAL(double, raw_double, double, max_double, min_double, OVER_DOUBLE)
REAL(bfloat16, raw_uint16, float, max_float, min_float, OVER_FLOAT)
REAL(float8e4m3, raw_uint8, float, max_float, min_float, OVER_FLOAT)
REAL(float8e5m2, raw_uint8, float, max_float, min_float, OVER_FLOAT)

#define VARIANT_TABLE smd_kernels_scalar
#define KERNEL(name)  kernel_##name
#include "reduction_server/kernels/table.inc"

#define WIDTHS_TABLE smd_widths_scalar
#include "reduction_server/kernels/widths.inc"
