/* Checks the scalar kernels against the definitions of reference.h, over the sets of inputs.h. */
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/dtype.h"
#include "tests/kernels/check.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/reference.h"
#include "worker/summand.h"

static void print_mismatch(const struct inputs *in, unsigned op, unsigned n, size_t i,
	const uint64_t *values, uint64_t must, uint64_t got)
{
	printf("MISMATCH %s %s scalar, %u ranks, %zu elements: element %zu must be 0x%llx, "
	       "got 0x%llx, of",
		smd_dtype_name(in->dtype), smd_op_name(op), n, in->count, i,
		(unsigned long long)must, (unsigned long long)got);
	for (unsigned r = 0; r < n; r++) {
		printf(" 0x%llx", (unsigned long long)values[r]);
	}
	printf("\n");
}

/* The first n ranks of the inputs. */
static bool reduces(const struct inputs *in, unsigned op, unsigned n, unsigned char *dst)
{
	smd_kernel *kernel = smd_kernel_find_variant(in->dtype, op, SMD_VARIANT_SCALAR);
	uint64_t values[MOST_RANKS];

	kernel(dst, (const void *const *)in->src, n, in->count);
	for (size_t i = 0; i < in->count; i++) {
		uint64_t got = inputs_get(dst, in->width, i);
		uint64_t must;

		for (unsigned r = 0; r < n; r++) {
			values[r] = inputs_get(in->src[r], in->width, i);
		}
		must = reference_reduce(in->dtype, op, values, n);
		if (must != got) {
			print_mismatch(in, op, n, i, values, must, got);
			return false;
		}
	}
	return true;
}

static unsigned check_set(const struct inputs *in, enum input_set set, size_t *checked)
{
	unsigned char *dst = malloc(in->count * in->width);
	unsigned wrong = 0;

	if (!dst) {
		abort();
	}
	for (unsigned op = 0; op < SMD_OP_COUNT; op++) {
		for (unsigned n = set == INPUTS_RANKS ? 1 : in->n; n <= in->n; n++) {
			wrong += !reduces(in, op, n, dst);
			*checked += in->count;
		}
	}
	free(dst);
	return wrong;
}

static unsigned check_type(unsigned dtype, bool brief)
{
	size_t checked = 0;
	unsigned wrong = 0;
	struct inputs in;

	for (unsigned set = 0; set < INPUTS_SETS; set++) {
		if (inputs_make(&in, dtype, (enum input_set)set, brief)) {
			wrong += check_set(&in, (enum input_set)set, &checked);
			inputs_free(&in);
		}
	}
	printf("%s: sum, prod, max, min, avg of scalar are as defined, %zu elements: %s\n",
		smd_dtype_name(dtype), checked, wrong ? "MISMATCHES" : "ok");
	return wrong;
}

/* Else a floating-point type that the definitions lack would be checked as integers. */
static bool is_defined(unsigned dtype)
{
	const struct float_format *format = reference_format(dtype);
	unsigned bits = format ? (unsigned)format->precision : 0;

	if (bits != smd_dtype_bits(dtype)) {
		printf("MISMATCH %s: must have %u bits of precision, reference.c says %u\n",
			smd_dtype_name(dtype), smd_dtype_bits(dtype), bits);
	}
	return bits == smd_dtype_bits(dtype);
}

unsigned check_reference(bool brief)
{
	unsigned wrong = 0;

	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		wrong += is_defined(dtype) ? check_type(dtype, brief) : 1;
	}
	return wrong;
}
