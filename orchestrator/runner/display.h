/*
 * A job's progress on standard output: on a terminal one line per replica, redrawn in place; in
 * a pipe a line for each change of state, and for the status of a replica about once a second.
 */
#ifndef SMD_RUNNER_DISPLAY_H
#define SMD_RUNNER_DISPLAY_H

#include <stdio.h>

#include "orchestrator/runner/replica.h"

struct smd_display {
	FILE *file;
	int is_terminal;
	struct smd_replica *replicas;
	size_t count;
	int name_width;
	size_t drawn; /* lines of the last frame, which the next one overwrites */
	uint64_t drawn_ns;
	int dirty;
};

void smd_display_open(
	struct smd_display *display, FILE *file, struct smd_replica *replicas, size_t count);

/* A line about the job as a whole. */
void smd_display_print(struct smd_display *display, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A line about a change of a replica's. */
void smd_display_change(struct smd_display *display, const struct smd_replica *replica,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* To be called several times a second: shows what has become due. */
void smd_display_tick(struct smd_display *display);

/* Shows the last state of everything. */
void smd_display_close(struct smd_display *display);

#endif
