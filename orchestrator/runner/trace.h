/*
 * The trace of a job's life, for OpenTelemetry: a span for the job, one for each part of its way
 * (queued, pending, running, ending, restarting) and one for each start of a replica, in one file of
 * OTLP's JSON (specs/design/runner.md, "Traces").
 */
#ifndef SMD_RUNNER_TRACE_H
#define SMD_RUNNER_TRACE_H

#include <jansson.h>

#include "orchestrator/runner/job_status.h"

#define SMD_TRACE_SPANS_MAX 10000 /* more are counted and left out */
#define SMD_TRACE_ID_SIZE   33
#define SMD_SPAN_ID_SIZE    17

struct smd_trace {
	const char *path; /* where it is written at the end; NULL: there is no trace */
	json_t *spans;
	unsigned ndropped;
	char id[SMD_TRACE_ID_SIZE];
	char root[SMD_SPAN_ID_SIZE]; /* the job's span */
	int64_t offset_ns;           /* from smd_clock_ns() to the time of day */
	const char *part;            /* that the job is in */
	uint64_t part_ns;            /* since then */
};

/* Begins one, whose file must be one that can be written. 0, or -errno with a text. */
int smd_trace_open(struct smd_trace *trace, const char *path, struct smd_error *error);

/* The job's phase is another one. */
void smd_trace_take_phase(struct smd_trace *trace, const struct smd_job_status *status);

/* A replica's process has ended. */
void smd_trace_take_end(struct smd_trace *trace, const struct smd_job_status *status,
	const struct smd_replica *replica);

/* The job has ended: writes the file, and frees the rest. 0 or -errno. */
int smd_trace_close(struct smd_trace *trace, const struct smd_job_status *status);

#endif
