/* Collects what is wrong with a spec and prints it in the file's order. */
#include "orchestrator/document/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

/* "pointer: text"; the pointer of a root is nothing, and so is its colon. */
static __attribute__((format(printf, 2, 0))) char *compose(
	const struct smd_node *node, const char *format, va_list args, size_t *pointer_length)
{
	char *pointer = node ? smd_node_pointer(node) : NULL;
	char *sentence = NULL;
	char *text = NULL;

	*pointer_length = 0;
	if (vasprintf(&sentence, format, args) < 0) {
		free(pointer);
		return NULL;
	}
	if (!pointer || !*pointer) {
		free(pointer);
		return sentence;
	}
	*pointer_length = strlen(pointer);
	if (asprintf(&text, "%s: %s", pointer, sentence) < 0) {
		text = NULL;
	}
	free(pointer);
	free(sentence);
	return text;
}

static __attribute__((format(printf, 5, 0))) void add(struct smd_diagnostics *diagnostics,
	enum smd_severity severity, struct smd_source_position at, const struct smd_node *node,
	const char *format, va_list args)
{
	size_t pointer_length;
	char *text;

	diagnostics->found[severity]++;
	if (diagnostics->count == SMD_DIAGNOSTICS_MAX) {
		return;
	}
	text = compose(node, format, args, &pointer_length);
	if (text) {
		diagnostics->list[diagnostics->count++] =
			(struct smd_diagnostic){.severity = severity,
				.at = at,
				.text = text,
				.pointer_length = pointer_length};
	}
}

void smd_error_at_value(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_ERROR, node->at, node, format, args);
	va_end(args);
}

void smd_error_at_name(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_ERROR, node->key_at, node, format, args);
	va_end(args);
}

void smd_error_in_text(
	struct smd_diagnostics *diagnostics, struct smd_source_position at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_ERROR, at, NULL, format, args);
	va_end(args);
}

void smd_warning_at_name(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_WARNING, node->key_at, node, format, args);
	va_end(args);
}

void smd_warning_at_value(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_WARNING, node->at, node, format, args);
	va_end(args);
}

void smd_container_only(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_CONTAINER_ONLY, node->at, node, format, args);
	va_end(args);
}

void smd_not_run(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_NOT_RUN, node->at, NULL, format, args);
	va_end(args);
}

void smd_note_at_name(
	struct smd_diagnostics *diagnostics, const struct smd_node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(diagnostics, SMD_SEVERITY_NOTE, node->key_at, node, format, args);
	va_end(args);
}

void smd_diagnostics_turn(
	struct smd_diagnostics *diagnostics, enum smd_severity from, enum smd_severity to)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		if (diagnostics->list[i].severity == from) {
			diagnostics->list[i].severity = to;
		}
	}
	diagnostics->found[to] += diagnostics->found[from];
	diagnostics->found[from] = 0;
}

static int compare(const void *a, const void *b)
{
	const struct smd_diagnostic *left = a;
	const struct smd_diagnostic *right = b;

	if (left->at.line != right->at.line) {
		return left->at.line < right->at.line ? -1 : 1;
	}
	if (left->at.column != right->at.column) {
		return left->at.column < right->at.column ? -1 : 1;
	}
	return strcmp(left->text, right->text);
}

void smd_diagnostics_print(
	struct smd_diagnostics *diagnostics, const char *file, enum smd_severity least, FILE *out)
{
	static const char *const words[SMD_SEVERITY_COUNT] = {
		"", "warning: ", "warning: ", "warning: ", "note: "};
	size_t found = 0;

	for (int i = 0; i < SMD_SEVERITY_COUNT; i++) {
		found += diagnostics->found[i];
	}
	qsort(diagnostics->list, diagnostics->count, sizeof(diagnostics->list[0]), compare);
	for (size_t i = 0; i < diagnostics->count; i++) {
		const struct smd_diagnostic *diagnostic = &diagnostics->list[i];

		/* The file's own bytes may be in the text; none of them may steer a terminal. */
		if (diagnostic->severity > least) {
			continue;
		}
		if (diagnostic->at.flag) {
			smd_print_line(out, "%s: %s%s", diagnostic->at.flag,
				words[diagnostic->severity], diagnostic->text);
		} else {
			smd_print_line(out, "%s:%d:%d: %s%s", file, diagnostic->at.line,
				diagnostic->at.column, words[diagnostic->severity],
				diagnostic->text);
		}
	}
	if (found > diagnostics->count) {
		smd_print_line(out, "%s: %zu more are not shown", file, found - diagnostics->count);
	}
}

void smd_diagnostics_clear(struct smd_diagnostics *diagnostics)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		free(diagnostics->list[i].text);
	}
	diagnostics->count = 0;
	memset(diagnostics->found, 0, sizeof(diagnostics->found));
}
