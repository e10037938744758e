/*
 * Every kernel against a loop that is plainly right, bit for bit.
 *
 * The checks know nothing of a kernel but its row: a further variant, or another type and
 * operation, is a row more. What comes out of smd_kernel_find() is checked like any variant.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/kernels/kernels.h"
#include "reduction_server/kernels/scalar.h"
#include "worker/summand.h"

#define SOURCES_MAX 17
#define COUNT_MAX   5000
#define GUARD       64 /* bytes on each side that must not change */
#define GUARD_BYTE  0xc5

/* ---- the references ---- */

static void float32_sum(void *dst, const void *const *src, unsigned nsrc, size_t i)
{
	float sum;

	memcpy(&sum, (const char *)src[0] + 4 * i, 4);
	for (unsigned r = 1; r < nsrc; r++) {
		float part;

		memcpy(&part, (const char *)src[r] + 4 * i, 4);
		sum = sum + part;
	}
	memcpy((char *)dst + 4 * i, &sum, 4);
}

static void int32_sum(void *dst, const void *const *src, unsigned nsrc, size_t i)
{
	uint32_t sum = 0;

	for (unsigned r = 0; r < nsrc; r++) {
		uint32_t part;

		memcpy(&part, (const char *)src[r] + 4 * i, 4);
		sum += part;
	}
	memcpy((char *)dst + 4 * i, &sum, 4);
}

/* ---- the inputs: ordinary numbers whose sums round, and the special ones of each type ---- */

static uint32_t random_bits(void)
{
	static uint32_t seed = 2463534242u;

	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

static void float32_any(void *out)
{
	float value = ldexpf((float)(int32_t)random_bits(), (int)(random_bits() % 40) - 50);

	memcpy(out, &value, 4);
}

static void int32_any(void *out)
{
	uint32_t value = random_bits();

	memcpy(out, &value, 4);
}

static const uint32_t float32_special[] = {
	0x7fc00000,                         /* NaN */
	0x7fc12345,                         /* NaN with a payload */
	0xffc00000,                         /* -NaN */
	0x7f800000,                         /* Inf */
	0xff800000,                         /* -Inf */
	0x00000000, 0x80000000, 0x00000001, /* 0, -0, the smallest denormal */
	0x807fffff,                         /* the largest denormal, negative */
	0x00800000, 0x7f7fffff, 0xff7fffff, /* the smallest normal, the largest, its negative */
};

static const uint32_t int32_special[] = {0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 0x80000001};

/* ---- the rows ---- */

static const struct row {
	const char *name;
	unsigned dtype;
	unsigned op;
	smd_kernel *kernel; /* NULL: whatever smd_kernel_find() gives out here */
	void (*element)(void *dst, const void *const *src, unsigned nsrc, size_t i);
	void (*any)(void *out);
	const void *special;
	size_t nspecial;
} rows[] = {
	{"float32 sum scalar", SMD_FLOAT32, SMD_SUM, smd_kernel_float32_sum_scalar, float32_sum,
		float32_any, float32_special, sizeof(float32_special) / 4},
	{"float32 sum", SMD_FLOAT32, SMD_SUM, NULL, float32_sum, float32_any, float32_special,
		sizeof(float32_special) / 4},
	{"int32 sum scalar", SMD_INT32, SMD_SUM, smd_kernel_int32_sum_scalar, int32_sum, int32_any,
		int32_special, sizeof(int32_special) / 4},
	{"int32 sum", SMD_INT32, SMD_SUM, NULL, int32_sum, int32_any, int32_special,
		sizeof(int32_special) / 4},
};
#define NROWS (sizeof(rows) / sizeof(rows[0]))

static smd_kernel *kernel_of(const struct row *row)
{
	return row->kernel ? row->kernel : smd_kernel_find(row->dtype, row->op);
}

/* ---- one call ---- */

struct buffers {
	uint8_t *memory[SOURCES_MAX + 1]; /* of the sources and, last, of dst */
	void *dst;
	const void *src[SOURCES_MAX];
	uint8_t *expected;
	size_t bytes;
};

/* Each buffer at another distance from a cache line. */
static void buffers_create(struct buffers *buffers, unsigned nsrc, size_t bytes, unsigned offset)
{
	buffers->bytes = bytes;
	buffers->expected = malloc(bytes + 1);
	for (unsigned b = 0; b <= nsrc; b++) {
		size_t shift = (size_t)(offset + b * 5 * offset) % 61;
		uint8_t *at;

		buffers->memory[b] = malloc(bytes + 2 * GUARD + 64);
		memset(buffers->memory[b], GUARD_BYTE, bytes + 2 * GUARD + 64);
		at = buffers->memory[b] + GUARD + shift;
		if (b < nsrc) {
			buffers->src[b] = at;
		} else {
			buffers->dst = at;
		}
	}
}

static void buffers_free(struct buffers *buffers, unsigned nsrc)
{
	for (unsigned b = 0; b <= nsrc; b++) {
		free(buffers->memory[b]);
	}
	free(buffers->expected);
}

static void assert_guards(const uint8_t *at, size_t bytes)
{
	for (size_t i = 1; i <= GUARD; i++) {
		assert_int_equal(at[-(ptrdiff_t)i], GUARD_BYTE);
		assert_int_equal(at[bytes + i - 1], GUARD_BYTE);
	}
}

static void assert_same(const struct row *row, const struct buffers *buffers, unsigned nsrc,
	const void *dst, size_t count)
{
	if (memcmp(dst, buffers->expected, buffers->bytes) != 0) {
		fail_msg("%s: %u sources of %zu elements: bits differ", row->name, nsrc, count);
	}
}

/* Into a buffer of its own, then into the first source, as the shards do. */
static void check_call(const struct row *row, struct buffers *buffers, unsigned nsrc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		row->element(buffers->expected, buffers->src, nsrc, i);
	}
	kernel_of(row)(buffers->dst, buffers->src, nsrc, count);
	assert_same(row, buffers, nsrc, buffers->dst, count);
	assert_guards(buffers->dst, buffers->bytes);
	kernel_of(row)((void *)buffers->src[0], buffers->src, nsrc, count);
	assert_same(row, buffers, nsrc, buffers->src[0], count);
	assert_guards(buffers->src[0], buffers->bytes);
}

static void check_any(const struct row *row, unsigned nsrc, size_t count, unsigned offset)
{
	size_t size = smd_dtype_bytes(row->dtype);
	struct buffers buffers;

	buffers_create(&buffers, nsrc, count * size, offset);
	for (unsigned r = 0; r < nsrc; r++) {
		for (size_t i = 0; i < count; i++) {
			row->any((char *)buffers.src[r] + i * size);
		}
	}
	check_call(row, &buffers, nsrc, count);
	buffers_free(&buffers, nsrc);
}

/* ---- the tests, one row each ---- */

static void every_length(void **state)
{
	for (size_t count = 0; count <= 300; count++) {
		check_any(*state, 3, count, 0);
	}
}

static void lengths_around_a_block(void **state)
{
	static const size_t counts[] = {1023, 1024, 1025, 2047, 2048, 2049, COUNT_MAX};

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		check_any(*state, 2, counts[c], 0);
		check_any(*state, 5, counts[c], 4);
	}
}

static void every_number_of_sources(void **state)
{
	for (unsigned nsrc = 1; nsrc <= SOURCES_MAX; nsrc++) {
		check_any(*state, nsrc, 131, 0);
		check_any(*state, nsrc, 1500, 4);
	}
}

static void every_misalignment(void **state)
{
	const struct row *row = *state;

	for (unsigned offset = 0; offset < 64; offset++) {
		check_any(row, 4, 77, offset);
	}
}

/*
 * Each special value from each rank among ordinary ones, and each pair of them from two ranks. Two
 * NaNs do not meet: which payload survives then is the processor's choice.
 */
static void special_values(void **state)
{
	const struct row *row = *state;
	size_t size = smd_dtype_bytes(row->dtype);
	size_t count = row->nspecial * row->nspecial;

	for (unsigned rank = 0; rank < 4; rank++) {
		struct buffers buffers;

		buffers_create(&buffers, 4, count * size, 0);
		for (size_t i = 0; i < count; i++) {
			const char *one = (const char *)row->special + i / row->nspecial * size;
			const char *two = (const char *)row->special + i % row->nspecial * size;
			int nans = row->dtype == SMD_FLOAT32 && i / row->nspecial < 3 &&
				   i % row->nspecial < 3;

			for (unsigned r = 0; r < 4; r++) {
				row->any((char *)buffers.src[r] + i * size);
			}
			memcpy((char *)buffers.src[rank] + i * size, one, size);
			if (!nans) {
				memcpy((char *)buffers.src[(rank + 1) % 4] + i * size, two, size);
			}
		}
		check_call(row, &buffers, 4, count);
		buffers_free(&buffers, 4);
	}
}

/* Only special values, so that denormals meet denormals and -0 meets -0. */
static void special_values_alone(void **state)
{
	const struct row *row = *state;
	size_t size = smd_dtype_bytes(row->dtype);
	size_t first = row->dtype == SMD_FLOAT32 ? 5 : 0; /* no NaN, no Inf */
	size_t n = row->nspecial - first;
	struct buffers buffers;

	buffers_create(&buffers, 3, n * n * n * size, 0);
	for (size_t i = 0; i < n * n * n; i++) {
		const size_t pick[] = {i % n, i / n % n, i / n / n};

		for (unsigned r = 0; r < 3; r++) {
			memcpy((char *)buffers.src[r] + i * size,
				(const char *)row->special + (first + pick[r]) * size, size);
		}
	}
	check_call(row, &buffers, 3, n * n * n);
	buffers_free(&buffers, 3);
}

/* The order of ranks is the order of additions: 1e8 + 1 - 1e8 is 0 and 1e8 - 1e8 + 1 is 1. */
static void ranks_are_added_in_order(void **state)
{
	const float large = 1e8f;
	const float minus = -1e8f;
	const float one = 1;
	float sum;

	(void)state;
	smd_kernel_find(SMD_FLOAT32, SMD_SUM)(
		&sum, (const void *const[]){&large, &one, &minus}, 3, 1);
	assert_true(sum == 0);
	smd_kernel_find(SMD_FLOAT32, SMD_SUM)(
		&sum, (const void *const[]){&large, &minus, &one}, 3, 1);
	assert_true(sum == 1);
}

/* A kernel that is given out has a row here, so that none is forgotten. */
static void every_kernel_has_a_row(void **state)
{
	(void)state;
	for (unsigned dtype = 0; dtype <= SMD_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op <= SMD_OP_COUNT; op++) {
			int found = 0;

			for (size_t i = 0; i < NROWS; i++) {
				found |= rows[i].dtype == dtype && rows[i].op == op;
			}
			assert_int_equal(found, smd_kernel_find(dtype, op) != NULL);
			assert_int_equal(found, smd_kernel_variant(dtype, op) != NULL);
		}
	}
}

static void types_and_operations_have_names(void **state)
{
	unsigned number = 99;

	(void)state;
	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		assert_int_equal(smd_dtype_parse(smd_dtype_name(dtype), &number), 0);
		assert_int_equal(number, dtype);
		assert_in_range(smd_dtype_bytes(dtype), 1, 8);
	}
	for (unsigned op = 0; op < SMD_OP_COUNT; op++) {
		assert_int_equal(smd_op_parse(smd_op_name(op), &number), 0);
		assert_int_equal(number, op);
	}
	assert_string_equal(smd_dtype_name(99), "type 99");
	assert_string_equal(smd_op_name(99), "op 99");
	assert_int_equal(smd_dtype_bytes(99), 0);
	assert_true(smd_dtype_parse("float31", &number) < 0);
	assert_true(smd_op_parse("", &number) < 0);
}

#define PER_ROW 6

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void **state);
	} checks[PER_ROW] = {
		{"every length", every_length},
		{"lengths around a block", lengths_around_a_block},
		{"every number of sources", every_number_of_sources},
		{"every misalignment", every_misalignment},
		{"special values", special_values},
		{"special values alone", special_values_alone},
	};
	static char names[NROWS * PER_ROW][80];
	struct CMUnitTest tests[NROWS * PER_ROW];
	const struct CMUnitTest others[] = {
		cmocka_unit_test(ranks_are_added_in_order),
		cmocka_unit_test(every_kernel_has_a_row),
		cmocka_unit_test(types_and_operations_have_names),
	};

	for (size_t i = 0; i < NROWS * PER_ROW; i++) {
		const struct row *row = &rows[i / PER_ROW];

		snprintf(names[i], sizeof(names[i]), "%s: %s", row->name, checks[i % PER_ROW].name);
		tests[i] = (struct CMUnitTest){
			names[i], checks[i % PER_ROW].run, NULL, NULL, (void *)row};
	}
	return cmocka_run_group_tests(tests, NULL, NULL) |
	       cmocka_run_group_tests(others, NULL, NULL);
}
