/* Prints results as a table in the manner of nccl-tests. */
#include <inttypes.h>
#include <stdio.h>

#include "reduction_server/kernels/kernels.h"
#include "worker/nccl_perf/nccl_perf.h"

void nccl_perf_report_begin(const struct nccl_perf_settings *settings, int version)
{
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

static void print_figures(const struct nccl_perf_settings *settings, uint64_t bytes,
	const struct nccl_perf_figures *figures)
{
	double algbw = figures->us > 0 ? (double)bytes / figures->us / 1e3 : 0;

	printf(" %10.1f %8.3f %8.3f %6" PRIu64 " |", figures->us, algbw,
		algbw * 2 * (settings->nranks - 1) / settings->nranks, figures->wrong);
}

void nccl_perf_report_row(
	const struct nccl_perf_settings *settings, const struct nccl_perf_row *row)
{
	printf("%12" PRIu64 " %12" PRIu64 " %10s %5s |", row->bytes, row->count,
		smd_dtype_name(row->dtype), smd_op_name(row->op));
	print_figures(settings, row->bytes, &row->apart);
	print_figures(settings, row->bytes, &row->in_place);
	printf(" %016" PRIx64 "%s\n", row->hash,
		row->is_one_result ? "" : " DIFFERS between ranks");
	fflush(stdout);
}

void nccl_perf_report_end(uint64_t wrong, unsigned differing)
{
	printf("# wrong elements: %" PRIu64 ", results that differ between ranks: %u %s\n", wrong,
		differing, wrong || differing ? "FAILED" : "OK");
	fflush(stdout);
}
