/*
 * One line of the notify pipe (specs/guide/reporting.md). It comes from the user's program and may
 * hold anything.
 */
#ifndef SMD_RUNNER_NOTICE_H
#define SMD_RUNNER_NOTICE_H

#include "orchestrator/runner/lines.h"

#define SMD_RUNNER_NOTICE_LINE_MAX 512 /* with the newline */

enum smd_runner_notice_kind {
	SMD_RUNNER_NOTICE_READY,
	SMD_RUNNER_NOTICE_STATUS,
	SMD_RUNNER_NOTICE_RESULT,
	SMD_RUNNER_NOTICE_FIGURE,
	SMD_RUNNER_NOTICE_PROGRESS
};

/* The texts point into the parsed line and have no control characters. */
struct smd_runner_notice {
	enum smd_runner_notice_kind kind;
	const char *key;  /* of a result or a figure: letters, digits and underscores */
	const char *text; /* ready: the address or ""; status, progress: the text; else the value */
};

/* 0; -EINVAL for a line that is no notice, which is then unchanged. */
int smd_runner_notice_parse(const struct smd_line *line, struct smd_runner_notice *out);

/* The first word of such a line. */
const char *smd_runner_notice_word(enum smd_runner_notice_kind kind);

#endif
