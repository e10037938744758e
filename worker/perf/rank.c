/* Measures all sizes as one rank of a communicator. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/dtype.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

#define PERCENTILE   95
#define TICKS_PER_US 10.0 /* times travel as whole numbers of 0.1 us: up to 214 s */
#define ALIGNMENT    4096
#define STALE_BYTE   0xa5

/* What each rank tells the others about a size. */
enum { MEDIAN, MIN, MAX, HIGH, TIMES, CPU = TIMES, WRONG, FIGURES };

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
			&row->median_us, &row->min_us, &row->max_us, &row->high_us};

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

/* The buffers of one size: an input, which is sent if not in place, and one for each operation in
 * flight. */
struct buffers {
	void *input;
	uint8_t *recv;
	size_t stride; /* from one result to the next */
	smd_request **requests;
};

static uint8_t *buffer_of(const struct buffers *buffers, int operation)
{
	return buffers->recv + (size_t)operation * buffers->stride;
}

static const void *sent_by(
	const struct perf_settings *settings, const struct buffers *buffers, int operation)
{
	return settings->in_place ? buffer_of(buffers, operation) : buffers->input;
}

/* What was right before must not pass for a result. */
static void prepare(const struct perf_settings *settings, const struct buffers *buffers)
{
	for (int k = 0; k < settings->inflight; k++) {
		if (settings->in_place) {
			memcpy(buffer_of(buffers, k), buffers->input, buffers->stride);
		} else {
			memset(buffer_of(buffers, k), STALE_BYTE, buffers->stride);
		}
	}
}

/* All operations that are to be in flight, from the first call to the last result. */
static int run_once(const struct perf_settings *settings, smd_comm **comms,
	const struct buffers *buffers, size_t count)
{
	enum smd_dtype dtype = (enum smd_dtype)settings->dtype;
	enum smd_op op = (enum smd_op)settings->op;
	int started = 0;
	int ret = 0;

	if (settings->inflight == 1) {
		return smd_allreduce(
			comms[0], sent_by(settings, buffers, 0), buffers->recv, count, dtype, op);
	}
	for (int k = 0; ret == 0 && k < settings->inflight; k++) {
		ret = smd_allreduce_start(comms[k % settings->comms], sent_by(settings, buffers, k),
			buffer_of(buffers, k), count, dtype, op, &buffers->requests[k]);
		started += ret == 0;
	}
	for (int k = 0; k < started; k++) {
		int err = smd_request_wait(buffers->requests[k]);

		ret = ret ? ret : err;
	}
	return ret;
}

static uint64_t check_all(
	const struct perf_settings *settings, const struct buffers *buffers, size_t count)
{
	uint64_t wrong = 0;

	for (int k = 0; k < settings->inflight; k++) {
		wrong += perf_input_check(buffer_of(buffers, k), count, settings->dtype,
			settings->wire, settings->op, settings->nranks, settings->zeros);
	}
	return wrong;
}

/* Processor time of all of this process's threads so far. */
static double cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Iterations of the warm-up have numbers below 0. */
static bool is_checked(const struct perf_settings *settings, int iteration)
{
	return settings->each || iteration < 0 || iteration == settings->iters - 1;
}

static int measure(const struct perf_settings *settings, smd_comm **comms,
	const struct buffers *buffers, double *times, struct perf_row *row)
{
	int n = settings->iters;
	uint64_t wrong = 0;
	double cpu = 0; /* of all timed operations but the last, which is prepared and checked */
	int32_t mine[FIGURES];
	int ret = smd_barrier(comms[0]);

	for (int i = -settings->warmup; ret == 0 && i < n; i++) {
		double begin;

		if (i == 0 || i == n - 1) {
			cpu = cpu_us() - cpu;
		}
		if (is_checked(settings, i)) {
			prepare(settings, buffers);
		}
		begin = smd_clock_seconds();
		ret = run_once(settings, comms, buffers, row->count);
		if (i >= 0) {
			times[i] = (smd_clock_seconds() - begin) * 1e6 / settings->inflight;
		}
		if (ret == 0 && is_checked(settings, i)) {
			wrong += check_all(settings, buffers, row->count);
		}
	}
	if (ret) {
		return ret;
	}
	if (row->each_us) {
		memcpy(row->each_us, times, (size_t)n * sizeof(*times));
	}
	qsort(times, (size_t)n, sizeof(*times), compare_doubles);
	mine[MEDIAN] = ticks(times[n / 2]);
	mine[MIN] = ticks(times[0]);
	mine[MAX] = ticks(times[n - 1]);
	mine[HIGH] = ticks(times[(n - 1) * PERCENTILE / 100]);
	mine[CPU] = n > 1 ? ticks(cpu / (n - 1) / settings->inflight) : 0;
	mine[WRONG] = wrong < INT32_MAX ? (int32_t)wrong : INT32_MAX;
	return gather(comms[0], mine, row);
}

static int run_size(const struct perf_settings *settings, smd_comm **comms, uint64_t bytes,
	struct perf_row *row, struct smd_error *error)
{
	size_t size = smd_dtype_size((enum smd_dtype)settings->dtype);
	size_t room = (bytes / ALIGNMENT + 1) * ALIGNMENT;
	size_t inflight = (size_t)settings->inflight;
	double *times = calloc((size_t)settings->iters, sizeof(*times));
	struct buffers buffers = {
		.input = aligned_alloc(ALIGNMENT, room),
		.recv = aligned_alloc(ALIGNMENT, room * inflight),
		.stride = room,
		.requests = calloc(inflight, sizeof(*buffers.requests)),
	};
	int ret;

	*row = (struct perf_row){.bytes = bytes / size * size, .count = bytes / size};
	if (settings->each) {
		row->each_us = calloc((size_t)settings->iters, sizeof(*row->each_us));
	}
	if (!times || (settings->each && !row->each_us) || !buffers.input || !buffers.recv ||
		!buffers.requests) {
		ret = smd_error_set(
			error, ENOMEM, "%llu bytes: out of memory", (unsigned long long)bytes);
		goto free_buffers;
	}
	memset(buffers.input, STALE_BYTE, room);
	perf_input_fill(buffers.input, row->count, settings->dtype, settings->wire, settings->op,
		settings->rank);
	perf_input_zero(buffers.input, row->bytes, settings->zeros);
	prepare(settings, &buffers);
	ret = measure(settings, comms, &buffers, times, row);
	if (ret) {
		smd_error_set(error, -ret, "%llu bytes: %s", (unsigned long long)bytes,
			smd_error_message());
	}
free_buffers:
	free(times);
	free(buffers.input);
	free(buffers.recv);
	free(buffers.requests);
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
