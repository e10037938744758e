/* Measures all sizes as one rank of a communicator. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/dtype.h"
#include "worker/perf/iterations.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define PERCENTILE   95
#define TICKS_PER_US 10.0 /* times travel as whole numbers of 0.1 us: up to 214 s */
#define ALIGNMENT    4096

#define ITERS_LEAST  20
#define ITERS_MOST   500
#define ITERS_BYTES  (256u << 20) /* in as many operations as it takes, between these */
#define WARMUP_PART  5            /* a fifth of so many comes before these, */
#define WARMUP_LEAST 5            /* or so many before those that were asked for */

/* What each rank tells the others about a size. */
enum { MEDIAN, MIN, MAX, HIGH, MEAN, TIMES, CPU = TIMES, WRONG, FIGURES };

static int iters_by_size(const struct perf_settings *settings, uint64_t bytes)
{
	uint64_t iters = ITERS_BYTES / bytes / (unsigned)settings->inflight;

	return iters < ITERS_LEAST ? ITERS_LEAST : iters > ITERS_MOST ? ITERS_MOST : (int)iters;
}

int perf_iters(const struct perf_settings *settings, uint64_t bytes)
{
	return settings->iters == PERF_BY_SIZE ? iters_by_size(settings, bytes) : settings->iters;
}

int perf_warmup(const struct perf_settings *settings, uint64_t bytes)
{
	if (settings->warmup != PERF_BY_SIZE) {
		return settings->warmup;
	}
	return settings->iters == PERF_BY_SIZE ? iters_by_size(settings, bytes) / WARMUP_PART + 1
					       : WARMUP_LEAST;
}

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
		double *slowest[TIMES] = {
			&row->median_us, &row->min_us, &row->max_us, &row->high_us, &row->mean_us};

		for (int f = 0; f < TIMES; f++) {
			double us = one[f] / TICKS_PER_US;

			*slowest[f] = us > *slowest[f] ? us : *slowest[f];
		}
		row->cpu_us += one[CPU] / TICKS_PER_US / nranks;
		row->wrong += (uint64_t)one[WRONG];
	}
	free(all);
	return ret;
}

static double mean(const double *times, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++) {
		sum += times[i];
	}
	return sum / n;
}

static int measure(struct perf_run *run, struct perf_row *row)
{
	const struct perf_settings *settings = run->settings;
	int n = run->iters;
	double *times = run->times;
	int32_t mine[FIGURES];
	int ret = smd_barrier(run->comms[0]);

	if (ret == 0) {
		ret = settings->rolling ? perf_run_rolling(run) : perf_run_in_turn(run);
	}
	if (ret) {
		return ret;
	}
	if (row->each_us) {
		memcpy(row->each_us, times, (size_t)n * sizeof(*times));
	}
	if (run->timed) {
		row->spent = run->spent;
	}
	qsort(times, (size_t)n, sizeof(*times), compare_doubles);
	mine[MEDIAN] = ticks(times[n / 2]);
	mine[MIN] = ticks(times[0]);
	mine[MAX] = ticks(times[n - 1]);
	mine[HIGH] = ticks(times[(n - 1) * PERCENTILE / 100]);
	mine[MEAN] = ticks(mean(times, n));
	mine[CPU] = run->timed ? ticks(run->spent.own_us / run->timed / settings->inflight) : 0;
	mine[WRONG] = run->wrong < INT32_MAX ? (int32_t)run->wrong : INT32_MAX;
	return gather(run->comms[0], mine, row);
}

static int run_size(const struct perf_settings *settings, smd_comm **comms, uint64_t bytes,
	struct perf_row *row, struct smd_error *error)
{
	size_t size = smd_dtype_size((enum smd_dtype)settings->dtype);
	size_t room = (bytes / ALIGNMENT + 1) * ALIGNMENT;
	size_t inflight = (size_t)settings->inflight;
	struct perf_run run = {
		.settings = settings,
		.comms = comms,
		.iters = perf_iters(settings, bytes),
		.warmup = perf_warmup(settings, bytes),
		.count = bytes / size,
		.input = aligned_alloc(ALIGNMENT, room),
		.recv = aligned_alloc(ALIGNMENT, room * inflight),
		.stride = room,
		.requests = calloc(inflight, sizeof(*run.requests)),
	};
	int ret;

	run.times = calloc((size_t)run.iters, sizeof(*run.times));
	*row = (struct perf_row){.bytes = bytes / size * size,
		.count = run.count,
		.iters = run.iters,
		.warmup = run.warmup};
	if (settings->each) {
		row->each_us = calloc((size_t)run.iters, sizeof(*row->each_us));
	}
	if (!run.times || (settings->each && !row->each_us) || !run.input || !run.recv ||
		!run.requests) {
		ret = smd_error_set(
			error, ENOMEM, "%llu bytes: out of memory", (unsigned long long)bytes);
		goto free_buffers;
	}
	memset(run.input, 0, room);
	perf_input_fill(run.input, row->count, settings->dtype, settings->wire, settings->op,
		settings->rank);
	perf_input_zero(run.input, row->bytes, settings->zeros);
	ret = measure(&run, row);
	if (ret) {
		smd_error_set(error, -ret, "%llu bytes: %s", (unsigned long long)bytes,
			smd_error_message());
	}
free_buffers:
	free(run.times);
	free(run.input);
	free(run.recv);
	free(run.requests);
	return ret;
}

static int run_sizes(const struct perf_settings *settings, smd_context *context, smd_comm **comms,
	struct smd_error *error)
{
	struct smd_stats stats;
	struct perf_row rows[PERF_SIZES_MAX] = {{0}};
	int wrong = 0;
	int ret = 0;

	if (settings->rank == 0) {
		perf_report_begin(settings);
	}
	for (unsigned i = 0; ret == 0 && i < settings->nsizes; i++) {
		ret = run_size(settings, comms, settings->sizes[i], &rows[i], error);
		if (ret == 0 && settings->rank == 0) {
			perf_report_row(settings, &rows[i]);
		}
		wrong |= rows[i].wrong != 0;
	}
	if (ret == 0 && settings->rank == 0) {
		smd_context_stats(context, &stats);
		perf_report_end(settings, rows, settings->nsizes, &stats);
	}
	for (unsigned i = 0; i < settings->nsizes; i++) {
		free(rows[i].each_us);
	}
	return ret ? ret : wrong;
}

static void destroy_comms(smd_comm **comms, int n)
{
	for (int i = 0; i < n; i++) {
		smd_comm_destroy(comms[i]);
	}
}

static int create_comms(const struct perf_settings *settings, smd_context *context,
	smd_comm *comms[], struct smd_error *error)
{
	for (int i = 0; i < settings->comms; i++) {
		char group[SMD_ERROR_TEXT_MAX];
		int ret;

		if (i) { /* the first is the group itself */
			snprintf(group, sizeof(group), "%.200s-%d", settings->group, i);
		} else {
			snprintf(group, sizeof(group), "%s", settings->group);
		}
		ret = smd_comm_create(context, group, settings->nranks, settings->rank, &comms[i]);
		if (ret == 0 && smd_wire_is(settings->wire)) {
			smd_comm_set_wire(comms[i], (enum smd_dtype)settings->wire);
		}
		if (ret) {
			destroy_comms(comms, i);
			return smd_error_set(error, -ret, "%s", smd_error_message());
		}
	}
	return 0;
}

int perf_run_rank(const struct perf_settings *settings, struct smd_error *error)
{
	const struct smd_context_options options = {.servers = settings->servers};
	smd_context *context;
	smd_comm *comms[PERF_COMMS_MAX];
	int ret = smd_context_create(&options, &context);

	if (ret) {
		return smd_error_set(error, -ret, "%s", smd_error_message());
	}
	ret = create_comms(settings, context, comms, error);
	if (ret == 0) {
		ret = run_sizes(settings, context, comms, error);
		destroy_comms(comms, settings->comms);
	}
	smd_context_destroy(context);
	return ret;
}
