/*
 * What a running replica writes: its lines go to its log, the job's stream, the console, the
 * tail of its standard error, and whoever takes its notices.
 */
#ifndef SMD_RUNNER_OUTPUT_H
#define SMD_RUNNER_OUTPUT_H

#include <stdio.h>

#include "orchestrator/runner/console.h"
#include "orchestrator/runner/lines.h"
#include "orchestrator/runner/log_file.h"
#include "orchestrator/runner/notice.h"
#include "orchestrator/runner/redaction.h"
#include "orchestrator/runner/stream.h"
#include "orchestrator/runner/tail.h"
#include "worker/agent/wire/message.h"

/* 0, or -errno when the notice cannot be taken. */
typedef int smd_runner_notice_fn(void *arg, const struct smd_runner_notice *notice);

struct smd_output_stream {
	struct smd_lines lines;
	struct smd_redacted_stream redacted; /* before these */
	int has_bar;         /* the line without an end was told as a status */
};

struct smd_output {
	struct smd_output_stream *streams; /* standard output, standard error, notify pipe */
	struct smd_log_file log;
	const struct smd_redaction *redaction;
	struct smd_stream *stream;
	struct smd_console *console;
	struct smd_replica *replica;
	smd_runner_notice_fn *take_notice;
	void *arg;
};

/* Where the output goes; all of it is borrowed and outlives the output. */
struct smd_output_sinks {
	const struct smd_jobdir *dir;
	const char *log_name; /* in the directory */
	int append;           /* to the log of an earlier attempt */
	uint64_t log_limit;
	const struct smd_redaction *redaction;
	struct smd_stream *stream;
	struct smd_console *console;
	struct smd_replica
		*replica; /* its name is the task in the stream, its tail gets the errors */
	smd_runner_notice_fn *take_notice;
	void *arg;
};

/* Opens the log. 0 or -errno. */
int smd_output_open(struct smd_output *output, const struct smd_output_sinks *sinks);

/* Takes what has come of one of its streams, in pieces of any size. */
void smd_output_feed(struct smd_output *output, enum smd_agent_stream stream, const char *bytes,
	size_t count);

/* The replica has ended: hands on the last lines and closes everything. */
void smd_output_close(struct smd_output *output);

#endif
