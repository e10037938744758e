/*
 * Checks the reduction kernels; without a test frame, so that it can be compiled for another
 * processor.
 *
 *   check_kernels reference [--brief]           scalar kernels against specs/design/numerics.md
 *   check_kernels variants [VARIANT] [--brief]  all others against the scalar ones, or one of them
 *   check_kernels list                          the variants that run here, slowest first
 *   check_kernels chosen                        the one that smd_kernel_find() gives out
 *
 * --brief leaves most of the large sets out, for slow builds and emulated processors.
 * Ends with 0, 1 after a mismatch, 2 when the arguments are wrong, 77 when VARIANT does not run
 * here.
 */
#include <stdio.h>
#include <string.h>

#include "reduction_server/kernels/variants.h"
#include "tests/kernels/check.h"

static enum smd_variant under_test;

static smd_kernel *find_under_test(unsigned dtype, unsigned op)
{
	return smd_kernel_find_variant(dtype, op, under_test);
}

static int check_all_variants(bool brief)
{
	unsigned wrong = 0;

	for (int v = SMD_VARIANT_SCALAR + 1; v < SMD_VARIANT_COUNT; v++) {
		under_test = (enum smd_variant)v;
		if (smd_variant_runs(under_test)) {
			wrong +=
				check_variant(smd_variant_name(under_test), find_under_test, brief);
			wrong += check_widths(smd_variant_name(under_test), under_test);
		} else {
			printf("%s: not checked, this processor does not have it\n",
				smd_variant_name(under_test));
		}
	}
	return wrong > 0;
}

static int check_one_variant(const char *name, bool brief)
{
	for (int v = 0; v < SMD_VARIANT_COUNT; v++) {
		under_test = (enum smd_variant)v;
		if (strcmp(name, smd_variant_name(under_test)) != 0) {
			continue;
		}
		if (!smd_variant_runs(under_test)) {
			printf("skipped: this processor does not have %s\n", name);
			return 77;
		}
		return check_variant(name, find_under_test, brief) +
			       check_widths(name, under_test) >
		       0;
	}
	fprintf(stderr, "check_kernels: the variant must be one of kernels.h, got \"%s\"\n", name);
	return 2;
}

static int list_variants(void)
{
	for (int v = 0; v < SMD_VARIANT_COUNT; v++) {
		if (smd_variant_runs((enum smd_variant)v)) {
			printf("%s\n", smd_variant_name((enum smd_variant)v));
		}
	}
	return 0;
}

/* What is given out must be the chosen variant's, whole, and nothing for numbers that are none. */
static int print_chosen(void)
{
	enum smd_variant chosen = smd_variant_chosen();
	unsigned wrong = smd_kernel_find(SMD_DTYPE_COUNT, SMD_SUM) ||
			 smd_kernel_find(SMD_INT8, SMD_OP_COUNT) || smd_kernel_find(~0u, ~0u);

	for (unsigned dtype = 0; dtype < SMD_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op < SMD_OP_COUNT; op++) {
			smd_kernel *kernel = smd_kernel_find(dtype, op);

			wrong += !kernel || kernel != smd_kernel_find_variant(dtype, op, chosen);
		}
	}
	if (wrong) {
		printf("MISMATCH smd_kernel_find: must give the kernels of %s, and no others\n",
			smd_variant_name(chosen));
		return 1;
	}
	printf("%s\n", smd_variant_name(chosen));
	return 0;
}

static int check(int count, char **words, bool brief)
{
	if (count == 1 && strcmp(words[0], "reference") == 0) {
		return check_conversions(brief) + check_reference(brief) +
			       check_widths("scalar", SMD_VARIANT_SCALAR) >
		       0;
	}
	if (count == 1 && strcmp(words[0], "variants") == 0) {
		return check_all_variants(brief);
	}
	if (count == 2 && strcmp(words[0], "variants") == 0) {
		return check_one_variant(words[1], brief);
	}
	if (count == 1 && strcmp(words[0], "list") == 0) {
		return list_variants();
	}
	if (count == 1 && strcmp(words[0], "chosen") == 0) {
		return print_chosen();
	}
	fprintf(stderr, "usage: check_kernels reference | variants [VARIANT] | list | chosen "
			"[--brief]\n");
	return 2;
}

int main(int argc, char **argv)
{
	bool brief = argc > 1 && strcmp(argv[argc - 1], "--brief") == 0;

	return check(argc - 1 - brief, argv + 1, brief);
}
