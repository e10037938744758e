/*
 * The log lines of a job's replicas and its runner as one stream, in the order of their arrival, in
 * the form of `gcloud ai custom-jobs stream-logs`:
 * "SEVERITY<TAB>YYYY-mm-dd HH:MM:SS +zzzz<TAB>TASK<TAB>MESSAGE".
 */
#ifndef SMD_RUNNER_STREAM_H
#define SMD_RUNNER_STREAM_H

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "orchestrator/runner/console.h"
#include "orchestrator/runner/log_file.h"

#define SMD_STREAM_SERVICE    "service" /* the runner's own task */
#define SMD_STREAM_STAMP_SIZE 32

struct smd_stream {
	struct smd_log_file log;
	struct smd_console *console; /* gets the same lines; or NULL */
	time_t second;
	char stamp[SMD_STREAM_STAMP_SIZE]; /* of that second */
};

/* 0 or -errno. */
int smd_stream_open(struct smd_stream *stream, const struct smd_jobdir *dir, const char *name,
	uint64_t limit, struct smd_console *console);
void smd_stream_close(struct smd_stream *stream);

/* Flushes what is buffered. */
void smd_stream_flush(struct smd_stream *stream);

/* Writes one line of a task, with or without its newline. If the line is a JSON object with
 * "severity" and "message", these are written: the severity in Cloud Logging's spelling (`severity`
 * if that has none), and a message of several lines as several. */
void smd_stream_say(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length);

#endif
