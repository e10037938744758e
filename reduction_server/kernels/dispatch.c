/* Chooses the variant of the kernels that this processor runs best. */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log.h"
#include "reduction_server/kernels/variants.h"

static const char *const names[SMD_VARIANT_COUNT] = {
	[SMD_VARIANT_SCALAR] = "scalar",
	[SMD_VARIANT_AVX2] = "avx2",
	[SMD_VARIANT_AVX512] = "avx512",
	[SMD_VARIANT_NEON] = "neon",
};

static const smd_kernel_table *const tables[SMD_VARIANT_COUNT] = {
	[SMD_VARIANT_SCALAR] = &smd_kernels_scalar,
#ifdef __x86_64__
	[SMD_VARIANT_AVX2] = &smd_kernels_avx2,
	[SMD_VARIANT_AVX512] = &smd_kernels_avx512,
#endif
#ifdef __aarch64__
	[SMD_VARIANT_NEON] = &smd_kernels_neon,
#endif
};

static const struct smd_widths *const widths[SMD_VARIANT_COUNT] = {
	[SMD_VARIANT_SCALAR] = &smd_widths_scalar,
#ifdef __x86_64__
	[SMD_VARIANT_AVX2] = &smd_widths_avx2,
	[SMD_VARIANT_AVX512] = &smd_widths_avx512,
#endif
#ifdef __aarch64__
	[SMD_VARIANT_NEON] = &smd_widths_neon,
#endif
};

const char *smd_variant_name(enum smd_variant variant)
{
	return names[variant];
}

#ifdef __x86_64__
/* Not every compiler's __builtin_cpu_supports() knows it. */
static bool has_f16c(void)
{
	unsigned a;
	unsigned b;
	unsigned c;
	unsigned d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

bool smd_variant_runs(enum smd_variant variant)
{
	switch (variant) {
	case SMD_VARIANT_SCALAR:
		return true;
#ifdef __x86_64__
	case SMD_VARIANT_AVX2:
		return __builtin_cpu_supports("avx2") && has_f16c();
	case SMD_VARIANT_AVX512:
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
#ifdef __aarch64__
	case SMD_VARIANT_NEON:
		return true;
#endif
	default:
		return false;
	}
}

static enum smd_variant best_variant(enum smd_variant most)
{
	while (!smd_variant_runs(most)) {
		most--; /* scalar always runs */
	}
	return most;
}

static enum smd_variant choose_variant(void)
{
	enum smd_variant best = best_variant(SMD_VARIANT_COUNT - 1);
	const char *wanted = getenv("SUMMAND_CPU");

	if (!wanted || !*wanted) {
		return best;
	}
	for (int v = 0; v < SMD_VARIANT_COUNT; v++) {
		if (strcmp(names[v], wanted) != 0) {
			continue;
		}
		if (!smd_variant_runs((enum smd_variant)v)) {
			smd_log(SMD_LOG_WARN, "kernels",
				"SUMMAND_CPU: this processor cannot run %s; using %s", wanted,
				names[best_variant((enum smd_variant)v)]);
		}
		return best_variant((enum smd_variant)v);
	}
	smd_log(SMD_LOG_WARN, "kernels",
		"SUMMAND_CPU: must be scalar, avx2, avx512 or neon, got \"%s\"; using %s", wanted,
		names[best]);
	return best;
}

enum smd_variant smd_variant_chosen(void)
{
	static atomic_int chosen = -1; /* two threads that choose at once choose the same */
	int variant = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (variant < 0) {
		variant = choose_variant();
		atomic_store_explicit(&chosen, variant, memory_order_relaxed);
	}
	return (enum smd_variant)variant;
}

smd_kernel *smd_kernel_find_variant(unsigned dtype, unsigned op, enum smd_variant variant)
{
	if (dtype >= SMD_DTYPE_COUNT || op >= SMD_OP_COUNT || !smd_variant_runs(variant)) {
		return NULL;
	}
	return (*tables[variant])[dtype][op];
}

smd_kernel *smd_kernel_find(unsigned dtype, unsigned op)
{
	if (dtype >= SMD_DTYPE_COUNT || op >= SMD_OP_COUNT) {
		return NULL;
	}
	return (*tables[smd_variant_chosen()])[dtype][op];
}

smd_width_kernel *smd_narrow_find_variant(unsigned dtype, enum smd_variant variant)
{
	return dtype < SMD_DTYPE_COUNT && smd_variant_runs(variant) ? widths[variant]->narrow[dtype]
								    : NULL;
}

smd_width_kernel *smd_widen_find_variant(unsigned dtype, enum smd_variant variant)
{
	return dtype < SMD_DTYPE_COUNT && smd_variant_runs(variant) ? widths[variant]->widen[dtype]
								    : NULL;
}

smd_width_kernel *smd_narrow_find(unsigned dtype)
{
	return dtype < SMD_DTYPE_COUNT ? widths[smd_variant_chosen()]->narrow[dtype] : NULL;
}

smd_width_kernel *smd_widen_find(unsigned dtype)
{
	return dtype < SMD_DTYPE_COUNT ? widths[smd_variant_chosen()]->widen[dtype] : NULL;
}
