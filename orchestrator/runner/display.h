/*
 * A job's progress. A terminal has one line per replica, redrawn in place; a pipe gets a line for
 * each change of state, and at most one status per replica and second. A brief display, beside the
 * programs' output, has neither, but what is about the job.
 */
#ifndef SMD_RUNNER_DISPLAY_H
#define SMD_RUNNER_DISPLAY_H

#include <stdio.h>

#include "orchestrator/runner/console.h"
#include "orchestrator/runner/replica.h"

struct smd_display {
	FILE *file;
	const struct smd_console *console;
	int terminal; /* its descriptor, to ask for its size; -1: it is none */
	int is_brief;
	struct smd_replica *replicas;
	size_t count;
	int name_width;
	size_t drawn; /* lines of the last frame, which the next one overwrites */
	uint64_t drawn_ns;
	int dirty;
};

/* Console and replicas are borrowed. */
void smd_display_open(struct smd_display *display, const struct smd_console *console,
	struct smd_replica *replicas, size_t count);

/* A line about the job as a whole. */
void smd_display_print(struct smd_display *display, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A line about a replica. */
void smd_display_change(struct smd_display *display, const struct smd_replica *replica,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Call it several times a second: it redraws what has changed. */
void smd_display_tick(struct smd_display *display);

/* Draws the final state. */
void smd_display_close(struct smd_display *display);

#endif
