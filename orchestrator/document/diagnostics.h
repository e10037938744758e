/*
 * Everything that is wrong with a spec, in one list, so that it is all shown at once.
 *
 * A line is "FILE:LINE:COLUMN: /json/pointer: what must hold, got VALUE". A error makes the spec
 * unusable; a warning does not; a note says what a field means here. What cannot be run, or only by
 * a container runtime, is an error where it shall be run so. The texts are a contract: tests
 * compare them byte by byte.
 */
#ifndef SMD_DOCUMENT_DIAGNOSTICS_H
#define SMD_DOCUMENT_DIAGNOSTICS_H

#include <stdio.h>

#include "orchestrator/document/document.h"

/* More are counted, but neither kept nor shown. */
#define SMD_DIAGNOSTICS_MAX 200

enum smd_severity {
	SMD_SEVERITY_ERROR,
	SMD_SEVERITY_CONTAINER_ONLY,
	SMD_SEVERITY_NOT_RUN,
	SMD_SEVERITY_WARNING,
	SMD_SEVERITY_NOTE,
	SMD_SEVERITY_COUNT
};

struct smd_diagnostic {
	enum smd_severity severity;
	struct smd_source_position at;
	char *text; /* with its pointer */
	size_t pointer_length;
};

struct smd_diagnostics {
	struct smd_diagnostic list[SMD_DIAGNOSTICS_MAX]; /* in the order of detection */
	size_t count;
	size_t found[SMD_SEVERITY_COUNT]; /* how many there were of each, shown or not */
};

/* A error in a node's value, or in its name. */
void smd_error_at_value(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));
void smd_error_at_name(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A error in the text itself, where there is no tree to point into. */
void smd_error_in_text(struct smd_diagnostics *diagnostics, struct smd_source_position at,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Something about a node's name that works but should be changed. */
void smd_warning_at_name(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same about a value. */
void smd_warning_at_value(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What cannot be run without a container runtime. */
void smd_container_only(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What would not be run as it is meant, where a node of the document or of its conversion stands.
 */
void smd_not_run(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What a field's value means here. */
void smd_note_at_name(struct smd_diagnostics *diagnostics, const struct smd_node *node,
	const char *format, ...) __attribute__((format(printf, 3, 4)));

/* From now on the diagnostics of one severity count as those of another. */
void smd_diagnostics_turn(
	struct smd_diagnostics *diagnostics, enum smd_severity from, enum smd_severity to);

/* Prints the list sorted by position, without what is less severe than `least`. `file` is how the
 * user called the spec. */
void smd_diagnostics_print(
	struct smd_diagnostics *diagnostics, const char *file, enum smd_severity least, FILE *out);

void smd_diagnostics_clear(struct smd_diagnostics *diagnostics);

#endif
