/*
 * The trace of a job's life, for OpenTelemetry: a span for the job, one for each part of its way
 * (queued, pending, running, ending, restarting) and one for each start of a replica, in a file of
 * OTLP's JSON (specs/design/runner.md, "Traces"). Who runs a part of the job, a trial or until it was
 * preempted, adds a line to the same file.
 */
#ifndef SMD_RUNNER_TRACE_H
#define SMD_RUNNER_TRACE_H

#include <jansson.h>

#include "orchestrator/runner/job_status.h"

#define SMD_TRACE_SPANS_MAX 10000 /* more are counted and left out */
#define SMD_TRACE_ID_SIZE   33
#define SMD_SPAN_ID_SIZE    17

/* What several lines of a file have in common. */
struct smd_trace_family {
	char id[SMD_TRACE_ID_SIZE];
	char root[SMD_SPAN_ID_SIZE]; /* the job's span */
	int is_of_trial;	     /* the line is a trial's, whose own span is a child of it */
};

/* What is known of a job at its end. */
struct smd_trace_job {
	const char *name; /* NULL: it has none */
	const char *display_name;
	const char *span;  /* what its own span is called */
	const char *state;
	int restarts;
	const char *queue_time; /* since when it waited */
	uint64_t started_ns;	/* when its runner began, and ended */
	uint64_t ended_ns;
	const char *failure; /* NULL: it has not failed */
	int waits_again;     /* it was preempted, and whoever runs it to its end writes its span */
	const char *create_time; /* when that begins */
};

struct smd_trace {
	const char *path; /* where it is written at the end; NULL: there is no trace */
	struct smd_trace_family family;
	char own[SMD_SPAN_ID_SIZE]; /* the span that others here are children of */
	json_t *spans;
	unsigned ndropped;
	int64_t offset_ns;           /* from smd_clock_ns() to the time of day */
	const char *part;            /* that the job is in */
	uint64_t part_ns;            /* since then */
};

/* The trace of a job of the store, whoever runs it. */
void smd_trace_family_of(struct smd_trace_family *family, int64_t job);

/* Begins one: with an empty file, or as one more line of a family's. 0, or -errno with a text. */
int smd_trace_open(struct smd_trace *trace, const char *path,
	const struct smd_trace_family *family, struct smd_error *error);

/* The job's phase is another one. */
void smd_trace_take_phase(struct smd_trace *trace, const struct smd_job_status *status);

/* A replica's process has ended. */
void smd_trace_take_end(struct smd_trace *trace, const struct smd_job_status *status,
	const struct smd_replica *replica);

/* The job has ended: adds the line, and frees the rest. 0 or -errno. */
int smd_trace_close(struct smd_trace *trace, const struct smd_trace_job *job);

#endif
