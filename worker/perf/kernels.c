/* Measures the reduction kernels beside a plain memcpy of the same input. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/wire/frame.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define ALIGNMENT    4096
#define INPUTS_MAX   SMD_NRANKS_MAX
#define ROUNDS_MOST  2001
#define ROUNDS_LEAST 5

struct kernel_bench {
	const struct perf_kernel_settings *settings;
	void *inputs[INPUTS_MAX];
	void *copies[INPUTS_MAX];
	void *result;
	double kernel_s[ROUNDS_MOST];
	double memcpy_s[ROUNDS_MOST];
};

struct figure {
	unsigned dtype;
	unsigned op;
	enum smd_variant variant;
	double kernel; /* bytes of input per second */
	double copy;
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static void bench_free(struct kernel_bench *bench)
{
	for (int i = 0; i < bench->settings->inputs; i++) {
		free(bench->inputs[i]);
		free(bench->copies[i]);
	}
	free(bench->result);
	free(bench);
}

static struct kernel_bench *bench_create(const struct perf_kernel_settings *settings)
{
	struct kernel_bench *bench = calloc(1, sizeof(*bench));
	size_t room = (settings->bytes / ALIGNMENT + 1) * ALIGNMENT;

	if (!bench) {
		return NULL;
	}
	bench->settings = settings;
	bench->result = aligned_alloc(ALIGNMENT, room);
	for (int i = 0; i < settings->inputs; i++) {
		bench->inputs[i] = aligned_alloc(ALIGNMENT, room);
		bench->copies[i] = aligned_alloc(ALIGNMENT, room);
		if (!bench->inputs[i] || !bench->copies[i] || !bench->result) {
			bench_free(bench);
			return NULL;
		}
		memset(bench->copies[i], 0, room);
	}
	memset(bench->result, 0, room);
	return bench;
}

/* Kernel and memcpy in turn, so that what disturbs one disturbs the other. */
static void measure(struct kernel_bench *bench, struct figure *figure)
{
	const struct perf_kernel_settings *settings = bench->settings;
	smd_kernel *kernel = smd_kernel_find_variant(figure->dtype, figure->op, figure->variant);
	size_t count = settings->bytes / smd_dtype_bytes(figure->dtype);
	double bytes = (double)settings->bytes * settings->inputs;
	double end = smd_clock_seconds() + settings->milliseconds / 1e3;
	int rounds = 0;

	for (int i = 0; i < settings->inputs; i++) {
		perf_input_fill_whole(bench->inputs[i], count, figure->dtype, figure->op, i);
	}
	while (rounds < ROUNDS_MOST && (rounds < ROUNDS_LEAST || smd_clock_seconds() < end)) {
		double begin = smd_clock_seconds();
		double middle;

		kernel(bench->result, (const void *const *)bench->inputs,
			(unsigned)settings->inputs, count);
		middle = smd_clock_seconds();
		for (int i = 0; i < settings->inputs; i++) {
			memcpy(bench->copies[i], bench->inputs[i], settings->bytes);
		}
		bench->kernel_s[rounds] = middle - begin;
		bench->memcpy_s[rounds++] = smd_clock_seconds() - middle;
	}
	qsort(bench->kernel_s, (size_t)rounds, sizeof(double), compare_doubles);
	qsort(bench->memcpy_s, (size_t)rounds, sizeof(double), compare_doubles);
	figure->kernel = bytes / bench->kernel_s[rounds / 2];
	figure->copy = bytes / bench->memcpy_s[rounds / 2];
}

static void print_header(const struct perf_kernel_settings *settings)
{
	printf("# summand-perf %s: %d inputs of %" PRIu64 " bytes reduced into one\n",
		SUMMAND_VERSION, settings->inputs, settings->bytes);
	printf("# GB/s of 10^9 bytes of input, medians; memcpy: the same inputs, each copied to a "
	       "place of its own,\n# in turn with the kernel\n");
	printf("#\n#%10s %6s %8s %12s %12s %8s\n", "type", "op", "variant", "kernel", "memcpy",
		"ratio");
	printf("#%10s %6s %8s %12s %12s\n", "", "", "", "(GB/s)", "(GB/s)");
}

static void print_figure(const struct figure *figure)
{
	printf("%11s %6s %8s %12.2f %12.2f %8.2f\n", smd_dtype_name(figure->dtype),
		smd_op_name(figure->op), smd_variant_name(figure->variant), figure->kernel / 1e9,
		figure->copy / 1e9, figure->kernel / figure->copy);
	fflush(stdout);
}

static json_t *describe_figure(const struct figure *figure)
{
	return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "dtype", smd_dtype_name(figure->dtype),
		"op", smd_op_name(figure->op), "variant", smd_variant_name(figure->variant),
		"kernel_GBps", figure->kernel / 1e9, "memcpy_GBps", figure->copy / 1e9, "ratio",
		figure->kernel / figure->copy);
}

static bool is_wanted(const struct perf_kernel_settings *settings, const struct figure *figure)
{
	return (settings->dtype < 0 || settings->dtype == (int)figure->dtype) &&
	       (settings->op < 0 || settings->op == (int)figure->op) &&
	       (settings->variant < 0 || settings->variant == (int)figure->variant) &&
	       smd_variant_runs(figure->variant);
}

static void measure_all(struct kernel_bench *bench, json_t *results)
{
	for (unsigned i = 0; i < SMD_VARIANT_COUNT * SMD_DTYPE_COUNT * SMD_OP_COUNT; i++) {
		struct figure figure = {
			.variant = (enum smd_variant)(i / (SMD_DTYPE_COUNT * SMD_OP_COUNT)),
			.dtype = i / SMD_OP_COUNT % SMD_DTYPE_COUNT,
			.op = i % SMD_OP_COUNT,
		};

		if (!is_wanted(bench->settings, &figure)) {
			continue;
		}
		measure(bench, &figure);
		if (bench->settings->json) {
			json_array_append_new(results, describe_figure(&figure));
		} else {
			print_figure(&figure);
		}
	}
}

int perf_run_kernels(const struct perf_kernel_settings *settings, struct smd_error *error)
{
	struct kernel_bench *bench = bench_create(settings);
	json_t *results = json_array();
	json_t *root = json_pack("{s:s, s:i, s:I, s:o}", "version", SUMMAND_VERSION, "inputs",
		settings->inputs, "bytes", (json_int_t)settings->bytes, "results", results);

	if (!bench || !root) {
		if (bench) {
			bench_free(bench);
		}
		json_decref(root);
		return smd_error_set(error, ENOMEM, "%d inputs of %" PRIu64 " bytes: out of memory",
			settings->inputs, settings->bytes);
	}
	if (!settings->json) {
		print_header(settings);
	}
	measure_all(bench, results);
	if (settings->json) {
		json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		printf("\n");
	}
	json_decref(root);
	bench_free(bench);
	return 0;
}
