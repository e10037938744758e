/* summand-nccl-perf: measures NCCL's all-reduce on GPUs, and verifies every result. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"
#include "worker/nccl_perf/nccl_perf.h"
#include "worker/perf/perf.h"

#define EXIT_USAGE   2
#define EXIT_SKIPPED 77
#define TIMEOUT_MOST 86400

/* "all", or names with commas between them: a bit for each. */
static int set_names(uint32_t *out, const char *value, uint32_t all,
	int (*parse)(const char *name, unsigned *out),
	void (*list)(char names[SMD_NAMES_MAX], const char *last), struct smd_error *error)
{
	char names[SMD_NAMES_MAX];
	char copy[256];
	char *rest = copy;
	char *word;

	snprintf(copy, sizeof(copy), "%s", value);
	*out = 0;
	if (strcmp(value, "all") == 0) {
		*out = all;
		return 0;
	}
	while ((word = strsep(&rest, ","))) {
		unsigned number;

		if (parse(word, &number)) {
			list(names, ", ");
			return smd_error_set(error, EINVAL, "must be all, or of %s", names);
		}
		*out |= 1u << number;
	}
	return 0;
}

/* Types that the NCCL at hand has, which may be older than the one that this was built with: 2.24 brought those of 8 bits. */
static uint32_t all_types(void)
{
	enum { WITH_FLOAT8 = NCCL_VERSION(2, 24, 0), BEFORE = ncclBfloat16 + 1 };
	int version = 0;
	int types = ncclNumTypes;

	ncclGetVersion(&version);
	if (version < WITH_FLOAT8 && types > BEFORE) {
		types = BEFORE;
	}
	return (1u << types) - 1;
}

static int set_dtypes(void *target, const char *value, struct smd_error *error)
{
	uint32_t *dtypes = target;
	int ret = set_names(dtypes, value, all_types(), smd_dtype_parse, smd_dtype_names, error);

	if (ret == 0 && *dtypes & ~all_types()) {
		int version = 0;

		ncclGetVersion(&version);
		return smd_error_set(error, EINVAL, "must be types of NCCL %d.%d.%d",
			version / 10000, version / 100 % 100, version % 100);
	}
	return ret;
}

static int set_ops(void *target, const char *value, struct smd_error *error)
{
	return set_names(target, value, (1u << ncclNumOps) - 1, smd_op_parse, smd_op_names, error);
}

static int parse(int argc, char **argv, struct nccl_perf_settings *settings,
	struct perf_size_range *range, struct smd_error *error)
{
	const struct smd_option table[] = {
		SMD_OPTION_GROUP("Ranks"),
		{"nranks", "N", "how many ranks there are, one process each", smd_option_set_int,
			&settings->nranks},
		{"rank", "R", "which of them this process is, from 0", smd_option_set_int,
			&settings->rank},
		{"id-file", "FILE", "a file by which they find each other, not there yet",
			smd_option_set_string, &settings->id_file},
		{"device", "D", "the GPU to use (default the rank's number)", smd_option_set_int,
			&settings->device},
		SMD_OPTION_GROUP("Sizes"),
		{"min", "SIZE", "the smallest size (default 4K)", smd_option_set_size, &range->min},
		{"max", "SIZE", "the largest size (default 64M)", smd_option_set_size, &range->max},
		{"factor", "F", "each size is F times the one before (default 4)",
			smd_option_set_int, &range->factor},
		SMD_OPTION_GROUP("Operations"),
		{"dtype", "TYPE,...", "element types, or all (default float32)", set_dtypes,
			&settings->dtypes},
		{"op", "OP,...", "reductions, or all (default sum)", set_ops, &settings->ops},
		{"iters", "N", "measured iterations of each size (default 20)", smd_option_set_int,
			&settings->iters},
		{"warmup", "N", "iterations before these (default 5)", smd_option_set_int,
			&settings->warmup},
		{"timeout", "SECONDS", "give up when nothing happens for so long (default 120)",
			smd_option_set_int, &settings->timeout_s},
		{"graph", NULL, "capture all-reduces into CUDA graphs, and launch these",
			smd_option_set_bool, &settings->graph},
		{"churn", NULL, "have a thread allocate and free GPU memory meanwhile",
			smd_option_set_bool, &settings->churn},
		{"rounding", NULL,
			"sum doubles that round; right is the order of ranks, to the bit",
			smd_option_set_bool, &settings->rounding},
		SMD_OPTION_GROUP("Output"),
		{"json", NULL, "print one JSON object instead of a table", smd_option_set_bool,
			&settings->json},
	};
	const struct smd_command command = {
		.synopsis = "summand-nccl-perf --nranks=N --rank=R --id-file=FILE [OPTION...]",
		.summary = "Measures NCCL's all-reduce on GPUs, in and out of place, and verifies "
			   "every result.",
		.options = table,
		.noptions = sizeof(table) / sizeof(table[0]),
		.exits = "Exit codes: 0 every result was right, 1 one was wrong or NCCL failed, 2 "
			 "the command line is wrong, 77 there is no GPU.",
	};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, error);

	if (ret == 0 && noperands) {
		ret = smd_error_set(error, EINVAL, "there must be no operand, got \"%s\"", argv[1]);
	}
	return ret;
}

static int expand_range(struct nccl_perf_settings *settings, const struct perf_size_range *range,
	struct smd_error *error)
{
	if (range->factor < 2 || range->min < sizeof(double) || range->min > range->max) {
		return smd_error_set(error, EINVAL,
			"--min must be at least %zu and at most --max, and --factor at least 2, "
			"got %" PRIu64 ", %" PRIu64 " and %d",
			sizeof(double), range->min, range->max, range->factor);
	}
	for (uint64_t size = range->min;
		size <= range->max && settings->nsizes < NCCL_PERF_SIZES_MAX;
		size *= (uint64_t)range->factor) {
		settings->sizes[settings->nsizes++] = size;
		if (size > UINT64_MAX / (uint64_t)range->factor) {
			break;
		}
	}
	return 0;
}

static int check(const struct nccl_perf_settings *settings, struct smd_error *error)
{
	if (settings->nranks < 1 || settings->rank < 0 || settings->rank >= settings->nranks) {
		return smd_error_set(error, EINVAL, "--nranks, and --rank below it, must be given");
	}
	if (!settings->id_file) {
		return smd_error_set(error, EINVAL, "--id-file: must be given");
	}
	if (settings->iters < 1) {
		return smd_error_set(
			error, EINVAL, "--iters: must be at least 1, got %d", settings->iters);
	}
	if (settings->rounding &&
		(settings->dtypes != 1u << ncclFloat64 || settings->ops != 1u << ncclSum)) {
		return smd_error_set(error, EINVAL,
			"--rounding: must be with --dtype=%s and --op=%s alone",
			smd_dtype_name(ncclFloat64), smd_op_name(ncclSum));
	}
	if (settings->timeout_s < 1 || settings->timeout_s > TIMEOUT_MOST) {
		return smd_error_set(error, EINVAL, "--timeout: must be 1 to %d, got %d",
			TIMEOUT_MOST, settings->timeout_s);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct nccl_perf_settings settings = {
		.rank = -1,
		.device = -1,
		.dtypes = 1u << ncclFloat32,
		.ops = 1u << ncclSum,
		.iters = 20,
		.warmup = 5,
		.timeout_s = 120,
	};
	struct perf_size_range range = {.min = 4096, .max = 64 << 20, .factor = 4};
	struct smd_error error = {""};
	int ret = parse(argc, argv, &settings, &range, &error);

	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	ret = ret ? ret : expand_range(&settings, &range, &error);
	ret = ret ? ret : check(&settings, &error);
	if (ret) {
		fprintf(stderr, "summand-nccl-perf: %s\n", error.text);
		return EXIT_USAGE;
	}
	ret = nccl_perf_find_device(&settings, &error);
	if (ret) {
		fprintf(stderr, "summand-nccl-perf: %s\n", error.text);
		return ret == -EINVAL ? EXIT_USAGE : EXIT_SKIPPED;
	}
	ret = nccl_perf_run(&settings, &error);
	if (ret < 0) {
		fprintf(stderr, "summand-nccl-perf: rank %d: %s\n", settings.rank, error.text);
	}
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
