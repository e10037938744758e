/* Runs the operations of one size, and checks results. */
#include "worker/perf/iterations.h"

#include <stdbool.h>
#include <string.h>

#include "reduction_server/base/clock.h"

#define STALE_BYTE 0xa5

static uint8_t *buffer_of(const struct perf_run *run, int operation)
{
	return run->recv + (size_t)operation * run->stride;
}

static const void *sent_by(const struct perf_run *run, int operation)
{
	return run->settings->in_place ? buffer_of(run, operation) : run->input;
}

/* What was right before must not pass for a result. */
static void prepare_one(const struct perf_run *run, int operation)
{
	if (run->settings->in_place) {
		memcpy(buffer_of(run, operation), run->input, run->stride);
	} else {
		memset(buffer_of(run, operation), STALE_BYTE, run->stride);
	}
}

static void prepare_all(const struct perf_run *run)
{
	for (int k = 0; k < run->settings->inflight; k++) {
		prepare_one(run, k);
	}
}

static void check_one(struct perf_run *run, int operation)
{
	const struct perf_settings *settings = run->settings;

	run->wrong += perf_input_check(buffer_of(run, operation), run->count, settings->dtype,
		settings->wire, settings->op, settings->nranks, settings->zeros);
}

static void check_all(struct perf_run *run)
{
	for (int k = 0; k < run->settings->inflight; k++) {
		check_one(run, k);
	}
}

static int start_one(const struct perf_run *run, int operation)
{
	const struct perf_settings *settings = run->settings;

	return smd_allreduce_start(run->comms[operation % settings->comms], sent_by(run, operation),
		buffer_of(run, operation), run->count, (enum smd_dtype)settings->dtype,
		(enum smd_op)settings->op, &run->requests[operation]);
}

/* 0 where it is not in flight. */
static int wait_one(const struct perf_run *run, int operation)
{
	smd_request *request = run->requests[operation];

	run->requests[operation] = NULL;
	return request ? smd_request_wait(request) : 0;
}

static int wait_all(const struct perf_run *run)
{
	int ret = 0;

	for (int k = 0; k < run->settings->inflight; k++) {
		int err = wait_one(run, k);

		ret = ret ? ret : err;
	}
	return ret;
}

/* ---- one iteration after another ---- */

/* All operations that are to be in flight, from the first call to the last result. */
static int run_once(const struct perf_run *run)
{
	const struct perf_settings *settings = run->settings;
	int ret = 0;
	int err;

	if (settings->inflight == 1) {
		return smd_allreduce(run->comms[0], sent_by(run, 0), run->recv, run->count,
			(enum smd_dtype)settings->dtype, (enum smd_op)settings->op);
	}
	for (int k = 0; ret == 0 && k < settings->inflight; k++) {
		ret = start_one(run, k);
	}
	err = wait_all(run);
	return ret ? ret : err;
}

/* Iterations of the warm-up have numbers below 0. */
static bool is_checked(const struct perf_run *run, int iteration)
{
	return run->settings->each || iteration < 0 || iteration == run->iters - 1;
}

int perf_run_in_turn(struct perf_run *run)
{
	const struct perf_settings *settings = run->settings;
	int last = run->iters - 1;
	int ret = 0;

	prepare_all(run);
	for (int i = -run->warmup; ret == 0 && i <= last; i++) {
		double begin;

		if (i == 0) {
			perf_processor_begin(&run->spent);
		}
		if (i == last) { /* which is prepared and checked */
			perf_processor_end(&run->spent);
		}
		if (is_checked(run, i)) {
			prepare_all(run);
		}
		begin = smd_clock_seconds();
		ret = run_once(run);
		if (i >= 0) {
			run->times[i] = (smd_clock_seconds() - begin) * 1e6 / settings->inflight;
		}
		if (ret == 0 && is_checked(run, i)) {
			check_all(run);
		}
	}
	run->timed = last;
	return ret;
}

/* ---- always as many in flight ---- */

/*
 * Iteration i's operations begin in round i, each when the one in its place, of iteration i - 1,
 * has ended; so round i + 1 takes the time of iteration i. Iteration -1 comes after the warm-up,
 * that its checks take no time from what is measured, and two more after the last that is measured:
 * one so that this ends with as many in flight, and one that is checked.
 */
static bool rolling_is_checked(const struct perf_run *run, int iteration)
{
	return run->settings->each || iteration < -1 || iteration > run->iters;
}

/* The oldest operation ends, and one of iteration `i` takes its place. */
static int roll_one(struct perf_run *run, int i, int operation)
{
	bool ends = i >= -run->warmup; /* not in the first round */
	int ret = wait_one(run, operation);

	if (ret == 0 && ends && rolling_is_checked(run, i - 1)) {
		check_one(run, operation);
	}
	if (ret || i > run->iters + 1) {
		return ret;
	}
	if (rolling_is_checked(run, i)) {
		prepare_one(run, operation);
	}
	return start_one(run, operation);
}

int perf_run_rolling(struct perf_run *run)
{
	const struct perf_settings *settings = run->settings;
	int n = run->iters;
	int ret = 0;

	prepare_all(run);
	for (int i = -run->warmup - 1; ret == 0 && i <= n + 2; i++) {
		double begin = smd_clock_seconds();

		if (i == 1) {
			perf_processor_begin(&run->spent);
		}
		for (int k = 0; ret == 0 && k < settings->inflight; k++) {
			ret = roll_one(run, i, k);
		}
		if (i >= 1 && i <= n) {
			run->times[i - 1] =
				(smd_clock_seconds() - begin) * 1e6 / settings->inflight;
		}
		if (i == n) {
			perf_processor_end(&run->spent);
		}
	}
	run->timed = n;
	wait_all(run); /* those that are left where one has failed */
	return ret;
}
