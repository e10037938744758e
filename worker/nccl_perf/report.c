/* Prints results as a table in the manner of nccl-tests, or as one JSON object. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "reduction_server/base/dtype.h"
#include "worker/nccl_perf/nccl_perf.h"

static double algbw(const struct nccl_perf_row *row, const struct nccl_perf_figures *figures)
{
	return figures->us > 0 ? (double)row->bytes / figures->us / 1e3 : 0;
}

static double busbw(const struct nccl_perf_settings *settings, const struct nccl_perf_row *row,
	const struct nccl_perf_figures *figures)
{
	return algbw(row, figures) * 2 * (settings->nranks - 1) / settings->nranks;
}

void nccl_perf_report_begin(const struct nccl_perf_settings *settings, int version)
{
	if (settings->json) {
		return;
	}
	printf("# summand-nccl-perf %s: all-reduce of %d ranks, NCCL %d\n", SUMMAND_VERSION,
		settings->nranks, version);
	printf("# %d iterations after %d, one after another; time is that of the slowest rank; "
	       "GB/s of 10^9 bytes\n",
		settings->iters, settings->warmup);
	printf("#\n#%11s %12s %10s %5s | %s | %s |\n", "", "", "", "",
		"          out of place              ", "            in place               ");
	printf("#%11s %12s %10s %5s |", "size", "count", "type", "op");
	for (int i = 0; i < 2; i++) {
		printf(" %10s %8s %8s %6s |", "time", "algbw", "busbw", "wrong");
	}
	printf(" %16s\n", "result");
	printf("#%11s %12s %10s %5s |", "(B)", "(elements)", "", "");
	for (int i = 0; i < 2; i++) {
		printf(" %10s %8s %8s %6s |", "(us)", "(GB/s)", "(GB/s)", "");
	}
	printf(" %16s\n", "(hash)");
	fflush(stdout);
}

static void print_figures(const struct nccl_perf_settings *settings,
	const struct nccl_perf_row *row, const struct nccl_perf_figures *figures)
{
	printf(" %10.1f %8.3f %8.3f %6" PRIu64 " |", figures->us, algbw(row, figures),
		busbw(settings, row, figures), figures->wrong);
}

void nccl_perf_report_row(
	const struct nccl_perf_settings *settings, const struct nccl_perf_row *row)
{
	if (settings->json) {
		return;
	}
	printf("%12" PRIu64 " %12" PRIu64 " %10s %5s |", row->bytes, row->count,
		smd_dtype_name(row->dtype), smd_op_name(row->op));
	print_figures(settings, row, &row->apart);
	print_figures(settings, row, &row->in_place);
	printf(" %016" PRIx64 "%s\n", row->hash,
		row->is_one_result ? "" : " DIFFERS between ranks");
	fflush(stdout);
}

static json_t *figures_json(const struct nccl_perf_settings *settings,
	const struct nccl_perf_row *row, const struct nccl_perf_figures *figures)
{
	return json_pack("{s:{s:f}, s:f, s:f, s:I}", "time_us", "mean", figures->us, "algbw_GBps",
		algbw(row, figures), "busbw_GBps", busbw(settings, row, figures), "wrong",
		(json_int_t)figures->wrong);
}

static json_t *row_json(const struct nccl_perf_settings *settings, const struct nccl_perf_row *row)
{
	char hash[17];

	snprintf(hash, sizeof(hash), "%016" PRIx64, row->hash);
	return json_pack("{s:I, s:I, s:s, s:s, s:o, s:o, s:s, s:b}", "bytes",
		(json_int_t)row->bytes, "count", (json_int_t)row->count, "dtype",
		smd_dtype_name(row->dtype), "op", smd_op_name(row->op), "out_of_place",
		figures_json(settings, row, &row->apart), "in_place",
		figures_json(settings, row, &row->in_place), "hash", hash, "differs",
		!row->is_one_result);
}

static void report_json(const struct nccl_perf_settings *settings, int version,
	const struct nccl_perf_row *rows, size_t nrows, const struct nccl_perf_totals *totals)
{
	json_t *results = json_array();
	json_t *root = json_pack("{s:s, s:i, s:i, s:i, s:i, s:o, s:I, s:i}", "version",
		SUMMAND_VERSION, "nccl", version, "nranks", settings->nranks, "iters",
		settings->iters, "warmup", settings->warmup, "results", results, "wrong",
		(json_int_t)totals->wrong, "differing", (int)totals->differing);

	for (size_t i = 0; root && i < nrows; i++) {
		json_array_append_new(results, row_json(settings, &rows[i]));
	}
	json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	printf("\n");
	json_decref(root);
}

void nccl_perf_report_end(const struct nccl_perf_settings *settings, int version,
	const struct nccl_perf_row *rows, size_t nrows, const struct nccl_perf_totals *totals)
{
	if (settings->json) {
		report_json(settings, version, rows, nrows, totals);
	} else {
		printf("# wrong elements: %" PRIu64 ", results that differ between ranks: %u %s\n",
			totals->wrong, totals->differing,
			totals->wrong || totals->differing ? "FAILED" : "OK");
	}
	fflush(stdout);
}
