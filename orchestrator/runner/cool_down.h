/*
 * Hosts that cool down: replicas have failed on them so often in a row, in this job and others of the
 * state directory, that they are left out of placing for a time, where there are others
 * (specs/design/runner.md, "Hosts that fail").
 */
#ifndef SMD_RUNNER_COOL_DOWN_H
#define SMD_RUNNER_COOL_DOWN_H

#include <stddef.h>
#include <stdint.h>

struct smd_cool_down {
	/* The caller's. */
	const char *state_dir; /* NULL: none cools down */
	unsigned failures;     /* in a row, after which a host does; 0: none */
	unsigned lasts_s;
	/* Its own. */
	struct smd_cooling_host {
		char *name;
		unsigned in_a_row;
		int64_t until_s;
		int is_asked_for; /* an engine has hosts of that name */
	} *hosts;
	size_t count;
};

/* Reads which ones do now. What cannot be read is logged, and none does. */
void smd_cool_down_read(struct smd_cool_down *cool_down);
void smd_cool_down_clear(struct smd_cool_down *cool_down);

/* Whether the host of that name did when it was read. */
int smd_cool_down_has(void *cool_down, const char *name);

/* "b (3 failures in a row, until 2026-01-31 12:10:00 UTC), c (...)": those that were asked for. The
 * caller frees it. NULL: out of memory. */
char *smd_cool_down_write(const struct smd_cool_down *cool_down);

/* Counts a failure on a host, or as many as are enough where the host itself is lost. True when it
 * cools down now. */
int smd_cool_down_blame(const struct smd_cool_down *cool_down, const char *name, int is_lost);

/* All went well on these. */
void smd_cool_down_praise(
	const struct smd_cool_down *cool_down, const char *const *names, size_t count);

#endif
