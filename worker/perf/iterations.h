/* The operations of one size, as one rank runs them. */
#ifndef SMD_PERF_ITERATIONS_H
#define SMD_PERF_ITERATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "worker/perf/perf.h"

struct perf_run {
	const struct perf_settings *settings;
	smd_comm **comms;
	int iters;     /* that are measured, */
	int warmup;    /* and before these */
	size_t count;  /* elements of an operation */
	void *input;   /* which is sent if not in place */
	uint8_t *recv; /* one buffer for each operation in flight, */
	size_t stride; /* so many bytes after the one before */
	smd_request **requests;

	double *times; /* of each iteration, in us, divided by the operations in flight */
	struct perf_processor spent; /* in all of the `timed` first of these */
	int timed;
	uint64_t wrong; /* elements */
};

/* Iterations one after another: all operations that are to be in flight begin, and all are waited
 * for. 0 or -errno, with nothing left in flight. */
int perf_run_in_turn(struct perf_run *run);

/* When the oldest operation in flight has ended the next one begins; so many of them are an
 * iteration as are in flight. Else the same. */
int perf_run_rolling(struct perf_run *run);

#endif
