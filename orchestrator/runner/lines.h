/*
 * A byte stream cut into lines, whatever pieces it arrives in.
 *
 * A line longer than the buffer is handed on in several parts, which cut no UTF-8 character; all
 * but the first are `continued`.
 * Only for one that may be JSON the buffer grows, to as much as an entry of Cloud Logging may have.
 * (libevent's evbuffer_readln() bounds no line and hands out no parts; done over its other calls,
 * this is as long, and a line costs four times as much.)
 */
#ifndef SMD_RUNNER_LINES_H
#define SMD_RUNNER_LINES_H

#include <stddef.h>

#define SMD_LINES_BUFFER   4096
#define SMD_LINES_JSON_MAX (256 << 10)

struct smd_line {
	char *text;    /* ended by a NUL, which is not counted; may be changed in place */
	size_t length; /* with the newline, where there is one */
	int continued; /* goes on with the line before it */
	int is_cut;    /* goes on in the next one */
};

typedef void smd_line_fn(void *arg, const struct smd_line *line);

struct smd_lines {
	char small[SMD_LINES_BUFFER + 1];
	char *large; /* in the place of it, while a line is longer; or NULL */
	size_t large_size;
	size_t used;
	int continued;
	smd_line_fn *take;
	void *arg;
};

void smd_lines_feed(struct smd_lines *lines, const char *bytes, size_t count);

/* What has come of a line that has no end yet. */
const char *smd_lines_rest(const struct smd_lines *lines, size_t *length);

/* The stream has ended: hands on what is left. */
void smd_lines_finish(struct smd_lines *lines);

#endif
