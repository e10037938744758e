/* Prints results as a table in the manner of nccl-tests, or as one JSON object. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "reduction_server/base/dtype.h"
#include "worker/perf/perf.h"

static double algbw(const struct perf_row *row)
{
	return row->median_us > 0 ? (double)row->bytes / row->median_us / 1e3 : 0;
}

static double busbw(const struct perf_settings *settings, const struct perf_row *row)
{
	return algbw(row) * 2 * (settings->nranks - 1) / settings->nranks;
}

/* A name, or one and what it is sent as: "x as bf16". */
struct type_text {
	char text[24];
};

static struct type_text type_of(const struct perf_settings *settings, size_t count)
{
	unsigned sent = perf_sent_as(settings->dtype, settings->wire, count);
	struct type_text type;

	snprintf(type.text, sizeof(type.text), "%s%s%s", smd_dtype_name(settings->dtype),
		sent == settings->dtype ? "" : " as ",
		sent == settings->dtype ? "" : smd_wire_name(sent));
	return type;
}

static int type_width(const struct perf_settings *settings)
{
	return settings->wire == settings->dtype ? 9 : 15;
}

/* As many for all sizes, or fewer for larger ones. */
static void report_iterations(const struct perf_settings *settings)
{
	uint64_t smallest = settings->sizes[0];
	uint64_t largest = settings->sizes[0];

	for (unsigned i = 1; i < settings->nsizes; i++) {
		smallest = settings->sizes[i] < smallest ? settings->sizes[i] : smallest;
		largest = settings->sizes[i] > largest ? settings->sizes[i] : largest;
	}
	printf("# %d iterations after %d", perf_iters(settings, smallest),
		perf_warmup(settings, smallest));
	if (perf_iters(settings, smallest) != perf_iters(settings, largest)) {
		printf(" of the smallest size, to %d after %d of the largest",
			perf_iters(settings, largest), perf_warmup(settings, largest));
	}
	printf("; time is the median of the slowest rank; GB/s of 10^9 bytes\n");
}

void perf_report_begin(const struct perf_settings *settings)
{
	int width = type_width(settings);

	if (settings->json) {
		return;
	}
	printf("# summand-perf %s: all-reduce of %d ranks, group %s\n", SUMMAND_VERSION,
		settings->nranks, settings->group);
	printf("# servers %s\n", settings->servers ? settings->servers : "from the environment");
	report_iterations(settings);
	if (settings->rolling) {
		printf("# always %d operations at the same time: when the oldest has ended the "
		       "next begins; time is of as many, divided by them\n",
			settings->inflight);
	} else if (settings->inflight > 1) {
		printf("# %d operations at the same time; time is of all, divided by them\n",
			settings->inflight);
	}
	if (settings->wire != settings->dtype) {
		printf("# %s: in half the bytes; size, algbw and busbw are of %s\n",
			type_of(settings, SMD_WIRE_LEAST).text, smd_dtype_name(settings->dtype));
	}
	printf("#\n#%11s %12s %*s %6s %11s %8s %8s %8s\n", "size", "count", width, "type", "op",
		"time", "algbw", "busbw", "wrong");
	printf("#%11s %12s %*s %6s %11s %8s %8s\n", "(B)", "(elements)", width, "", "", "(us)",
		"(GB/s)", "(GB/s)");
	fflush(stdout);
}

void perf_report_row(const struct perf_settings *settings, const struct perf_row *row)
{
	if (settings->json) {
		return;
	}
	printf("%12" PRIu64 " %12" PRIu64 " %*s %6s %11.1f %8.3f %8.3f %8" PRIu64 "\n", row->bytes,
		row->count, type_width(settings), type_of(settings, row->count).text,
		smd_op_name(settings->op), row->median_us, algbw(row), busbw(settings, row),
		row->wrong);
	fflush(stdout);
}

/* Percent of their time in which this host's processors had nothing to do; below 0: not known. */
static double idle_percent(const struct perf_row *rows, unsigned nrows)
{
	double idle = 0;
	double all = 0;

	for (unsigned i = 0; i < nrows; i++) {
		idle += rows[i].spent.idle_ticks;
		all += rows[i].spent.host_ticks;
	}
	/* The kernel's count of waiting for disks may go down. */
	idle = idle > 0 ? idle : 0;
	return all > 0 ? 100 * idle / all : -1;
}

/* NULL: they have not been kept. */
static json_t *each_json(const struct perf_row *row)
{
	json_t *each = row->each_us ? json_array() : NULL;

	for (int i = 0; each && i < row->iters; i++) {
		json_array_append_new(each, json_real(row->each_us[i]));
	}
	return each;
}

static void report_json(const struct perf_settings *settings, const struct perf_row *rows,
	unsigned nrows, const struct smd_stats *stats)
{
	json_t *results = json_array();
	json_t *root = json_pack("{s:s, s:i, s:i, s:b, s:s, s:{s:I, s:I}, s:{s:I, s:I}, "
				 "s:{s:I, s:I}, s:{s:I, s:I}, s:I, s:I, s:I, s:o}",
		"version", SUMMAND_VERSION, "nranks", settings->nranks, "inflight",
		settings->inflight, "rolling", settings->rolling, "wire",
		smd_dtype_name(settings->wire), "rdma", "requests",
		(json_int_t)stats->rdma_requests, "doorbells", (json_int_t)stats->rdma_doorbells,
		"history", "bytes", (json_int_t)stats->history_bytes, "limit",
		(json_int_t)stats->history_limit, "undo", "bytes", (json_int_t)stats->undo_bytes,
		"limit", (json_int_t)stats->undo_limit, "tables", "bytes",
		(json_int_t)stats->table_bytes, "most", (json_int_t)stats->tables, "epochs",
		(json_int_t)stats->epochs, "bytes_skipped", (json_int_t)stats->bytes_skipped,
		"exchanges", (json_int_t)stats->exchanges, "results", results);

	for (unsigned i = 0; root && i < nrows; i++) {
		const struct perf_row *row = &rows[i];
		double idle = idle_percent(row, 1);

		json_array_append_new(results,
			json_pack("{s:I, s:I, s:s, s:s, s:{s:f, s:f, s:f, s:f, s:f}, "
				  "s:f, s:o, s:f, s:f, s:I, s:i, s:i, s:o*}",
				"bytes", (json_int_t)row->bytes, "count", (json_int_t)row->count,
				"dtype", smd_dtype_name(settings->dtype), "op",
				smd_op_name(settings->op), "time_us", "median", row->median_us,
				"min", row->min_us, "max", row->max_us, "p95", row->high_us, "mean",
				row->mean_us, "cpu_us", row->cpu_us, "idle_percent",
				idle < 0 ? json_null() : json_real(idle), "algbw_GBps", algbw(row),
				"busbw_GBps", busbw(settings, row), "wrong", (json_int_t)row->wrong,
				"iters", row->iters, "warmup", row->warmup, "each_us",
				each_json(row)));
	}
	json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	printf("\n");
	json_decref(root);
}

static uint64_t kib(uint64_t bytes)
{
	return (bytes + 1023) >> 10;
}

void perf_report_end(const struct perf_settings *settings, const struct perf_row *rows,
	unsigned nrows, const struct smd_stats *stats)
{
	double idle = idle_percent(rows, nrows);
	uint64_t wrong = 0;

	for (unsigned i = 0; i < nrows; i++) {
		wrong += rows[i].wrong;
	}
	if (settings->json) {
		report_json(settings, rows, nrows, stats);
	} else {
		if (stats->rdma_doorbells) {
			printf("# RDMA: %" PRIu64 " work requests in %" PRIu64
			       " doorbells, %.1f each\n",
				stats->rdma_requests, stats->rdma_doorbells,
				(double)stats->rdma_requests / (double)stats->rdma_doorbells);
		}
		if (stats->bytes_skipped) {
			printf("# zeros: %" PRIu64 " KiB of payloads did not cross\n",
				kib(stats->bytes_skipped));
		}
		if (stats->exchanges) {
			printf("# from rank to rank: %" PRIu64 " of %" PRIu64 " operations\n",
				stats->exchanges, stats->operations);
		}
		if (idle >= 0) {
			printf("# processors of this host: idle for %.0f %% of the timed "
			       "iterations\n",
				idle);
		}
		printf("# in case a server is lost, at most %" PRIu64 " KiB of %" PRIu64
		       " were kept, and %" PRIu64 " of %" PRIu64
		       " of inputs in place; the table of servers changed %" PRIu64
		       " times, at most %" PRIu64 " were there at once, and all took %" PRIu64
		       " KiB\n",
			kib(stats->history_bytes), kib(stats->history_limit),
			kib(stats->undo_bytes), kib(stats->undo_limit), stats->epochs,
			stats->tables, kib(stats->table_bytes));
		printf("# wrong elements: %" PRIu64 " %s\n", wrong, wrong ? "FAILED" : "OK");
	}
	fflush(stdout);
}
