/*
 * What a run shows whoever started it, on standard output and standard error: the output of the
 * replicas' programs, and the runner's own words. On a terminal the last line says how the job is
 * doing. Nothing here waits for who reads it, as long as replicas run (outlet.h).
 */
#ifndef SMD_RUNNER_CONSOLE_H
#define SMD_RUNNER_CONSOLE_H

#include <stdio.h>

#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/lines.h"
#include "orchestrator/runner/outlet.h"
#include "orchestrator/runner/status_line.h"
#include "reduction_server/base/error.h"

enum smd_view {
	SMD_VIEW_OUTPUT,   /* what the programs print, each line after its replica's name */
	SMD_VIEW_PROGRESS, /* what the replicas do, without what they print */
	SMD_VIEW_STREAM,   /* the job's stream, in gcloud's form (stream.h) */
	SMD_VIEW_RELAY /* progress, and what the programs print on standard error, alone there */
};

/* X(name, word) */
#define SMD_COLORS(X)                                                                              \
	X(AUTO, "auto")                                                                            \
	X(ALWAYS, "always")                                                                        \
	X(NEVER, "never")

enum smd_color {
#define X(name, word) SMD_COLOR_##name,
	SMD_COLORS(X)
#undef X
};

/* Standard output or standard error. */
struct smd_console_side {
	struct smd_console *console;
	struct smd_outlet outlet;
	FILE *file; /* writes to the outlet, at the latest when the console is flushed */
	int is_colored;
};

struct smd_console {
	enum smd_view view;
	const struct smd_job_status *status;
	int name_width;
	struct smd_console_side sides[2];
	struct smd_console_side *out;
	struct smd_console_side *err; /* the same one where both are one file */
	int has_status_line;          /* on standard error */
	int is_drawn;
	uint64_t drawn_ns;
	char drawn[SMD_STATUS_LINE_SIZE];
};

/* The status is borrowed, and its replicas are there by then. Log lines of this process
 * (base/log.h) go to the console until it is closed; there is one at a time. 0 or -errno. */
int smd_console_open(struct smd_console *console, enum smd_view view, enum smd_color color,
	const struct smd_job_status *status);

/* From now on nothing waits for readers, until it is detached. 0 or -ENOMEM. */
int smd_console_attach(struct smd_console *console, struct event_base *base);
void smd_console_detach(struct smd_console *console);

/* Where the runner's own words go; they are shown when they are flushed. */
FILE *smd_console_words(const struct smd_console *console);

/* Shows a line of a program, in the view that has them. */
void smd_console_say(struct smd_console *console, const struct smd_replica *replica, int is_error,
	const struct smd_line *line);

/* Shows a line of the stream, in the view that has it. */
void smd_console_stream(struct smd_console *console, const char *head, size_t head_length,
	const char *text, size_t length);

/* Writes what is taken now, and the line at the bottom. */
void smd_console_flush(struct smd_console *console);

/* Whether replicas should wait before they print more. Never for long. */
int smd_console_is_full(struct smd_console *console);

/* The programs print nothing any more, and there is no line at the bottom. */
void smd_console_end_output(struct smd_console *console);

/* Whether something is not read yet. */
int smd_console_is_pending(const struct smd_console *console);

/* What is not read yet is lost, and nobody waits for it. */
void smd_console_abandon(struct smd_console *console);

/* Waits for whoever reads, unless it was abandoned. */
void smd_console_close(struct smd_console *console);

/* Whether a terminal's escape sequences are of use there. */
int smd_console_obeys(int fd);

/* Whether names are to be coloured there. */
int smd_console_is_colored(enum smd_color color, int fd);
/* The color of the first, second, ... of several, as a number of ECMA-48. */
const char *smd_console_color(size_t index);

/* Whether the view has what the replicas do, instead of the runner's words alone. */
int smd_view_has_progress(enum smd_view view);

/* What the options --stream-logs and --quiet choose. */
enum smd_view smd_view_of(int stream_logs, int quiet);

/* Takes one of the words of SMD_COLORS, as smd_option's setters do; the target is an enum
 * smd_color. */
int smd_color_set(void *target, const char *word, struct smd_error *error);

#endif
