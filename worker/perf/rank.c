/* Measures all sizes as one rank of a communicator. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define FIGURES      4    /* median, min, max, wrong */
#define TICKS_PER_US 10.0 /* times travel as whole numbers of 0.1 us: up to 214 s */
#define ALIGNMENT    4096
#define STALE_BYTE   0xa5

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static int32_t ticks(double us)
{
	return us * TICKS_PER_US < INT32_MAX ? (int32_t)(us * TICKS_PER_US) : INT32_MAX;
}

/* Every rank puts its figures into its own place of an array that is zero elsewhere, so the sum is
 * the gathering. */
static int gather(smd_comm *comm, const int32_t mine[FIGURES], struct perf_row *row)
{
	int nranks = smd_comm_size(comm);
	int32_t *all = calloc((size_t)nranks * FIGURES, sizeof(*all));
	int ret;

	if (!all) {
		return -ENOMEM;
	}
	memcpy(all + smd_comm_rank(comm) * FIGURES, mine, FIGURES * sizeof(*mine));
	ret = smd_allreduce(comm, all, all, (size_t)nranks * FIGURES, SMD_INT32, SMD_SUM);
	for (int r = 0; ret == 0 && r < nranks; r++) {
		const int32_t *one = all + r * FIGURES;
		double *slowest[] = {&row->median_us, &row->min_us, &row->max_us};

		for (int f = 0; f < 3; f++) {
			double us = one[f] / TICKS_PER_US;

			*slowest[f] = us > *slowest[f] ? us : *slowest[f];
		}
		row->wrong += (uint64_t)one[3];
	}
	free(all);
	return ret;
}

static int measure(const struct perf_settings *settings, smd_comm *comm, const void *send,
	void *recv, double *times, struct perf_row *row)
{
	int n = settings->iters;
	uint64_t wrong = 0;
	int32_t mine[FIGURES];
	int ret = smd_barrier(comm);

	for (int i = -settings->warmup; ret == 0 && i < n; i++) {
		double begin;

		if (i < 0 || i == n - 1) { /* what was right before must not pass for a result */
			memset(recv, STALE_BYTE, row->bytes);
		}
		begin = smd_clock_seconds();
		ret = smd_allreduce(comm, send, recv, row->count, (enum smd_dtype)settings->dtype,
			(enum smd_op)settings->op);
		if (i >= 0) {
			times[i] = (smd_clock_seconds() - begin) * 1e6;
		}
		if (ret == 0 && (i < 0 || i == n - 1)) {
			wrong += perf_input_check(
				recv, row->count, settings->dtype, settings->op, settings->nranks);
		}
	}
	if (ret) {
		return ret;
	}
	qsort(times, (size_t)n, sizeof(*times), compare_doubles);
	mine[0] = ticks(times[n / 2]);
	mine[1] = ticks(times[0]);
	mine[2] = ticks(times[n - 1]);
	mine[3] = wrong < INT32_MAX ? (int32_t)wrong : INT32_MAX;
	return gather(comm, mine, row);
}

static int run_size(const struct perf_settings *settings, smd_comm *comm, uint64_t bytes,
	struct perf_row *row, struct smd_error *error)
{
	size_t size = smd_dtype_size((enum smd_dtype)settings->dtype);
	size_t room = (bytes / ALIGNMENT + 1) * ALIGNMENT;
	double *times = calloc((size_t)settings->iters, sizeof(*times));
	void *send = aligned_alloc(ALIGNMENT, room);
	void *recv = aligned_alloc(ALIGNMENT, room);
	int ret;

	*row = (struct perf_row){.bytes = bytes / size * size, .count = bytes / size};
	if (!times || !send || !recv) {
		ret = smd_error_set(
			error, ENOMEM, "%llu bytes: out of memory", (unsigned long long)bytes);
		goto free_buffers;
	}
	perf_input_fill(send, row->count, settings->dtype, settings->op, settings->rank);
	memset(recv, STALE_BYTE, room);
	ret = measure(settings, comm, send, recv, times, row);
	if (ret) {
		smd_error_set(error, -ret, "%llu bytes: %s", (unsigned long long)bytes,
			smd_error_message());
	}
free_buffers:
	free(times);
	free(send);
	free(recv);
	return ret;
}

static int run_sizes(const struct perf_settings *settings, smd_comm *comm, struct smd_error *error)
{
	struct perf_row rows[PERF_SIZES_MAX];
	int wrong = 0;

	if (settings->rank == 0) {
		perf_report_begin(settings);
	}
	for (unsigned i = 0; i < settings->nsizes; i++) {
		int ret = run_size(settings, comm, settings->sizes[i], &rows[i], error);

		if (ret) {
			return ret;
		}
		if (settings->rank == 0) {
			perf_report_row(settings, &rows[i]);
		}
		wrong |= rows[i].wrong != 0;
	}
	if (settings->rank == 0) {
		perf_report_end(settings, rows, settings->nsizes);
	}
	return wrong;
}

int perf_run_rank(const struct perf_settings *settings, struct smd_error *error)
{
	const struct smd_context_options options = {.servers = settings->servers};
	smd_context *context;
	smd_comm *comm;
	int ret = smd_context_create(&options, &context);

	if (ret) {
		return smd_error_set(error, -ret, "%s", smd_error_message());
	}
	ret = smd_comm_create(context, settings->group, settings->nranks, settings->rank, &comm);
	if (ret) {
		smd_error_set(error, -ret, "%s", smd_error_message());
		goto destroy_context;
	}
	ret = run_sizes(settings, comm, error);
	smd_comm_destroy(comm);
destroy_context:
	smd_context_destroy(context);
	return ret;
}
