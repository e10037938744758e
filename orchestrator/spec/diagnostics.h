/*
 * Everything that is wrong with a spec, in one list, so that it is all shown at once.
 *
 * A line is "FILE:LINE:COLUMN: /json/pointer: what must hold, got VALUE". A mistake makes the spec
 * unusable; a warning does not. The texts are a contract: tests compare them byte by byte.
 */
#ifndef SMD_SPEC_DIAGNOSTICS_H
#define SMD_SPEC_DIAGNOSTICS_H

#include <stdio.h>

#include "orchestrator/spec/document.h"

/* More are counted, but neither kept nor shown. */
#define SMD_DIAGNOSTICS_MAX 200

enum smd_severity { SMD_MISTAKE, SMD_WARNING };

struct smd_diagnostic {
	enum smd_severity severity;
	struct smd_position at;
	char *text; /* with its pointer */
};

struct smd_diagnostics {
	struct smd_diagnostic list[SMD_DIAGNOSTICS_MAX]; /* in the order of detection */
	size_t count;
	size_t mistakes; /* of all that were found */
	size_t warnings;
};

/* A mistake in a node's value, or in its name. */
void smd_mistake_value(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));
void smd_mistake_name(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A mistake in the text itself, where there is no tree to point into. */
void smd_mistake_text(struct smd_diagnostics *diagnostics, struct smd_position at,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Something about a node's name that works but should be changed. */
void smd_warning_name(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Prints the list sorted by position. `file` is how the user called the spec. */
void smd_diagnostics_print(struct smd_diagnostics *diagnostics, const char *file, FILE *out);

void smd_diagnostics_clear(struct smd_diagnostics *diagnostics);

#endif
