/*
 * What a job's replicas and its runner say, as one stream in the order in which it came: a line is
 * "SEVERITY<TAB>YYYY-mm-dd HH:MM:SS +zzzz<TAB>TASK<TAB>MESSAGE", as `gcloud ai custom-jobs
 * stream-logs` has it.
 */
#ifndef SMD_RUNNER_STREAM_H
#define SMD_RUNNER_STREAM_H

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#define SMD_STREAM_SERVICE    "service" /* the task that the runner is */
#define SMD_STREAM_STAMP_SIZE 32

struct smd_stream {
	FILE *file;
	FILE *echo; /* gets the same lines, made text of if it is a terminal; or NULL */
	int echoes_to_terminal;
	time_t second;
	char stamp[SMD_STREAM_STAMP_SIZE]; /* of that second */
};

/* 0 or -errno. */
int smd_stream_open(struct smd_stream *stream, const char *path, FILE *echo);
void smd_stream_close(struct smd_stream *stream);

/* Hands on what has been said so far. */
void smd_stream_flush(struct smd_stream *stream);

/* One line of a task's, with or without its newline. A line that is a JSON object with "severity"
 * and "message" stands for these, the severity in Cloud Logging's spelling, or the one given here
 * if that does not have it; a message of several lines becomes several. */
void smd_stream_say(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length);

#endif
