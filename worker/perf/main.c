/* summand-perf: measures all-reduce, whose results it verifies, and the reduction kernels. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/help_page.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/kernels/kernels.h"
#include "reduction_server/wire/frame.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define EXIT_USAGE 2

static int set_sizes(void *target, const char *value, struct smd_error *error)
{
	struct perf_settings *settings = target;
	char copy[1024];
	char *rest = copy;
	char *word;

	snprintf(copy, sizeof(copy), "%s", value);
	settings->nsizes = 0;
	while ((word = strsep(&rest, ","))) {
		if (settings->nsizes == PERF_SIZES_MAX) {
			return smd_error_set(
				error, EINVAL, "must be at most %d sizes", PERF_SIZES_MAX);
		}
		if (smd_parse_size(word, &settings->sizes[settings->nsizes]) ||
			settings->sizes[settings->nsizes] == 0) {
			return smd_error_set(error, EINVAL, "must be sizes such as 4K,1M,64M");
		}
		settings->nsizes++;
	}
	return 0;
}

static int set_dtype(void *target, const char *value, struct smd_error *error)
{
	char names[SMD_NAMES_MAX];

	if (smd_dtype_parse(value, target)) {
		smd_dtype_names(names, " or ");
		return smd_error_set(error, EINVAL, "must be %s", names);
	}
	return 0;
}

static int set_wire(void *target, const char *value, struct smd_error *error)
{
	struct perf_settings *settings = target;

	settings->wire_given = 1;
	return smd_wire_parse(value, &settings->wire, error);
}

static int set_op(void *target, const char *value, struct smd_error *error)
{
	char names[SMD_NAMES_MAX];

	if (smd_op_parse(value, target)) {
		smd_op_names(names, " or ");
		return smd_error_set(error, EINVAL, "must be %s", names);
	}
	return 0;
}

static int set_variant(void *target, const char *value, struct smd_error *error)
{
	for (int v = 0; v < SMD_VARIANT_COUNT; v++) {
		if (strcmp(smd_variant_name((enum smd_variant)v), value) != 0) {
			continue;
		}
		if (!smd_variant_runs((enum smd_variant)v)) {
			return smd_error_set(error, EINVAL, "must be one that this processor runs");
		}
		*(int *)target = v;
		return 0;
	}
	return smd_error_set(error, EINVAL, "must be scalar, avx2, avx512 or neon");
}

static int parse(int argc, char **argv, struct perf_settings *settings,
	struct perf_size_range *range, struct smd_error *error)
{
	const struct smd_option table[] = {
		SMD_OPTION_GROUP("Ranks and servers"),
		{"local", "N", "start N ranks here, and servers for them", smd_option_set_int,
			&settings->local},
		{"local-servers", "R", "with --local: how many servers (default: as many as ranks)",
			smd_option_set_int, &settings->local_servers},
		{"group", "NAME", "ranks with the same group name make a communicator",
			smd_option_set_string, &settings->group},
		{"nranks", "N", "how many ranks there are", smd_option_set_int, &settings->nranks},
		{"rank", "R", "which of them this process is", smd_option_set_int, &settings->rank},
		{"servers", "H:P,...", "the reduction servers (default: from the environment)",
			smd_option_set_string, &settings->servers},
		SMD_OPTION_GROUP("Sizes"),
		{"sizes", "LIST", "sizes in bytes: 4K,1M,64M", set_sizes, settings},
		{"min", "SIZE", "the smallest size (default 4K)", smd_option_set_size, &range->min},
		{"max", "SIZE", "the largest size (default 16M)", smd_option_set_size, &range->max},
		{"factor", "F", "each size is F times the one before (default 4)",
			smd_option_set_int, &range->factor},
		SMD_OPTION_GROUP("Operations"),
		{"dtype", "TYPE", "the element type (default float32)", set_dtype,
			&settings->dtype},
		{"wire", "TYPE",
			"float32 is sent as bf16, fp16 or float32 (default: SUMMAND_WIRE, float32)",
			set_wire, settings},
		{"op", "OP", "sum (default), prod, max, min or avg", set_op, &settings->op},
		{"zeros", "PERCENT", "so much of each input is zeros, in spans of 64K (default 0)",
			smd_option_set_int, &settings->zeros},
		{"iters", "N",
			"measured iterations of each size (default: 500 of\n"
			"small ones, 20 of large ones)",
			smd_option_set_int, &settings->iters},
		{"warmup", "N",
			"iterations before these (default: 5, or a fifth\n"
			"where --iters is not given)",
			smd_option_set_int, &settings->warmup},
		{"inflight", "N", "operations at the same time (default 1)", smd_option_set_int,
			&settings->inflight},
		{"rolling", NULL, "when the oldest of these has ended the next begins",
			smd_option_set_bool, &settings->rolling},
		{"comms", "N", "communicators that these are dealt to (default 1)",
			smd_option_set_int, &settings->comms},
		{"in-place", NULL, "results go where the inputs are", smd_option_set_bool,
			&settings->in_place},
		SMD_OPTION_GROUP("Output"),
		{"each", NULL, "check the result of each iteration, and print its time with --json",
			smd_option_set_bool, &settings->each},
		{"json", NULL, "print one JSON object instead of a table", smd_option_set_bool,
			&settings->json},
	};
	const struct smd_command command = {
		.synopsis = "summand-perf allreduce [OPTION...]",
		.summary =
			"Measures all-reduce through reduction servers, and verifies every result.",
		.options = table,
		.noptions = sizeof(table) / sizeof(table[0]),
		.epilog = "Examples:\n"
			  "  summand-perf allreduce --local=4 --local-servers=2 --sizes=4K,1M,64M\n"
			  "  summand-perf allreduce --group=g --nranks=2 --rank=0 "
			  "--servers=10.0.0.5:2222",
		.exits = "Exit codes: 0 every result was right, 1 one was wrong or a rank failed, "
			 "2 the command line is wrong.",
	};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, error);

	if (ret == 0 && noperands) {
		ret = smd_error_set(error, EINVAL, "there must be no operand, got \"%s\"", argv[1]);
	}
	return ret;
}

static int expand_range(struct perf_settings *settings, const struct perf_size_range *range,
	struct smd_error *error)
{
	if (settings->nsizes) {
		return 0;
	}
	if (range->factor < 2 || range->min < 1 || range->min > range->max) {
		return smd_error_set(error, EINVAL,
			"--min must be at least 1 and at most --max, and --factor at least 2, got "
			"%" PRIu64 ", %" PRIu64 " and %d",
			range->min, range->max, range->factor);
	}
	for (uint64_t size = range->min; size <= range->max && settings->nsizes < PERF_SIZES_MAX;
		size *= (uint64_t)range->factor) {
		settings->sizes[settings->nsizes++] = size;
	}
	return 0;
}

static int check(struct perf_settings *settings, struct smd_error *error)
{
	size_t element = smd_dtype_bytes(settings->dtype);

	if (settings->dtype != SMD_FLOAT32) {
		if (settings->wire_given) {
			return smd_error_set(error, EINVAL,
				"--wire: must be left out with --dtype=%s: it is what float32 is "
				"sent as",
				smd_dtype_name(settings->dtype));
		}
		settings->wire = settings->dtype; /* SUMMAND_WIRE is about float32 */
	}
	for (unsigned i = 0; i < settings->nsizes; i++) {
		if (settings->sizes[i] < element) {
			return smd_error_set(error, EINVAL,
				"sizes: each must hold an element of %zu bytes, got %" PRIu64,
				element, settings->sizes[i]);
		}
	}
	if (settings->iters < 1 && settings->iters != PERF_BY_SIZE) {
		return smd_error_set(
			error, EINVAL, "--iters: must be at least 1, got %d", settings->iters);
	}
	if (settings->zeros < 0 || settings->zeros > 100) {
		return smd_error_set(
			error, EINVAL, "--zeros: must be 0 to 100, got %d", settings->zeros);
	}
	if (settings->inflight < 1 || settings->inflight > PERF_INFLIGHT_MAX) {
		return smd_error_set(error, EINVAL, "--inflight: must be 1 to %d, got %d",
			PERF_INFLIGHT_MAX, settings->inflight);
	}
	if (settings->comms < 1 || settings->comms > PERF_COMMS_MAX) {
		return smd_error_set(error, EINVAL, "--comms: must be 1 to %d, got %d",
			PERF_COMMS_MAX, settings->comms);
	}
	if (settings->local > SMD_NRANKS_MAX || settings->local_servers > PERF_LOCAL_SERVERS_MAX) {
		return smd_error_set(error, EINVAL,
			"--local and --local-servers: must be at most %d and %d", SMD_NRANKS_MAX,
			PERF_LOCAL_SERVERS_MAX);
	}
	if (settings->local) {
		if (settings->local_servers == 0) {
			settings->local_servers = settings->local < PERF_LOCAL_SERVERS_MAX
							  ? settings->local
							  : PERF_LOCAL_SERVERS_MAX;
		}
		return 0;
	}
	if (!settings->group || settings->nranks < 1 || settings->rank < 0 ||
		settings->rank >= settings->nranks) {
		return smd_error_set(error, EINVAL,
			"either --local=N, or --group, --nranks and --rank below it must be given");
	}
	return 0;
}

static int allreduce(int argc, char **argv)
{
	struct perf_settings settings = {
		.rank = -1,
		.dtype = SMD_FLOAT32,
		.wire = SMD_FLOAT32,
		.op = SMD_SUM,
		.iters = PERF_BY_SIZE,
		.warmup = PERF_BY_SIZE,
		.inflight = 1,
		.comms = 1,
	};
	struct perf_size_range range = {.min = 4096, .max = 16 << 20, .factor = 4};
	struct smd_error error = {""};
	const char *wire = getenv("SUMMAND_WIRE");
	int ret;

	if (wire && *wire) {
		(void)smd_wire_parse(wire, &settings.wire, &error); /* the context refuses it */
	}
	ret = parse(argc, argv, &settings, &range, &error);
	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	if (ret == 0) {
		ret = expand_range(&settings, &range, &error);
	}
	if (ret == 0) {
		ret = check(&settings, &error);
	}
	if (ret) {
		fprintf(stderr, "summand-perf: %s\n", error.text);
		return EXIT_USAGE;
	}
	ret = settings.local ? perf_run_local(&settings, &error) : perf_run_rank(&settings, &error);
	if (ret < 0) {
		fprintf(stderr, "summand-perf: %s\n", error.text);
	}
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int parse_kernels(
	int argc, char **argv, struct perf_kernel_settings *settings, struct smd_error *error)
{
	const struct smd_option table[] = {
		SMD_OPTION_GROUP("What is measured"),
		{"inputs", "N", "how many inputs are reduced (default 8)", smd_option_set_int,
			&settings->inputs},
		{"bytes", "SIZE", "the length of each input (default 256K)", smd_option_set_size,
			&settings->bytes},
		{"dtype", "TYPE", "only this element type", set_dtype, &settings->dtype},
		{"op", "OP", "only this reduction", set_op, &settings->op},
		{"variant", "NAME", "only this instruction set: scalar, avx2, avx512 or neon",
			set_variant, &settings->variant},
		{"milliseconds", "N", "the time for each kernel (default 50)", smd_option_set_int,
			&settings->milliseconds},
		SMD_OPTION_GROUP("Output"),
		{"json", NULL, "print one JSON object instead of a table", smd_option_set_bool,
			&settings->json},
	};
	const struct smd_command command = {
		.synopsis = "summand-perf kernels [OPTION...]",
		.summary = "Measures the reduction kernels beside a memcpy of the same input.",
		.options = table,
		.noptions = sizeof(table) / sizeof(table[0]),
		.exits = "Exit codes: 0 done, 1 a kernel could not be measured, 2 the command line "
			 "is "
			 "wrong.",
	};
	int noperands;
	int ret = smd_options_parse(&command, argc, argv, &noperands, error);

	if (ret == 0 && noperands) {
		ret = smd_error_set(error, EINVAL, "there must be no operand, got \"%s\"", argv[1]);
	}
	if (ret == 0 && (settings->inputs < 1 || settings->inputs > SMD_NRANKS_MAX)) {
		ret = smd_error_set(error, EINVAL, "--inputs: must be 1 to %d, got %d",
			SMD_NRANKS_MAX, settings->inputs);
	}
	if (ret == 0 && (settings->bytes < 64 || settings->bytes > SMD_CHUNK_LIMIT)) {
		ret = smd_error_set(error, EINVAL, "--bytes: must be 64 to %u, got %" PRIu64,
			SMD_CHUNK_LIMIT, settings->bytes);
	}
	return ret;
}

static int kernels(int argc, char **argv)
{
	struct perf_kernel_settings settings = {
		.inputs = 8,
		.bytes = 256 << 10,
		.dtype = -1,
		.op = -1,
		.variant = -1,
		.milliseconds = 50,
	};
	struct smd_error error = {""};
	int ret = parse_kernels(argc, argv, &settings, &error);

	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	if (ret == 0) {
		ret = perf_run_kernels(&settings, &error);
	}
	if (ret) {
		fprintf(stderr, "summand-perf: %s\n", error.text);
	}
	return ret == -EINVAL ? EXIT_USAGE : ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void print_usage(FILE *out)
{
	int width = smd_help_width(out);

	fputs("Usage: summand-perf COMMAND [OPTION...]\n\nCommands:\n", out);
	smd_help_row(out, width, 14, "allreduce",
		"measures all-reduce through reduction servers, and verifies every result");
	smd_help_row(out, width, 14, "kernels",
		"measures the reduction kernels beside a memcpy of the same input");
	fputc('\n', out);
	smd_help_text(out, width,
		"`summand-perf COMMAND --help` lists the options, `summand-perf --version` prints "
		"the version.");
}

static int refuse(const char *word)
{
	static const char *const names[] = {"allreduce", "kernels"};
	const char *near = smd_suggest(word, names, sizeof(names) / sizeof(names[0]));

	if (near) {
		fprintf(stderr,
			"summand-perf: %s: unknown command; did you mean `summand-perf %s`?\n",
			word, near);
	} else {
		fprintf(stderr,
			"summand-perf: %s: unknown command; `summand-perf --help` lists them\n",
			word);
	}
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "allreduce") == 0) {
		return allreduce(argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "kernels") == 0) {
		return kernels(argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("summand-perf %s\n", SUMMAND_VERSION);
		return EXIT_SUCCESS;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_usage(stdout);
		return EXIT_SUCCESS;
	}
	return refuse(argv[1]);
}
