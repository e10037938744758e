/* Says how a replica ended. */
#include "orchestrator/runner/obituary.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/printable.h"

#define ERROR_FILE_MAX (1 << 20)
#define ERROR_MAX      8192 /* shown at most; PyTorch writes whole tracebacks there */

#define TRACEBACK_LINES 8
#define TRACEBACK_WIDTH 256

static const char *signal_name(int signo)
{
	const char *name = sigdescr_np(signo);

	return name ? name : "unknown";
}

void smd_obituary_sentence(const struct smd_replica *replica, char text[SMD_OBITUARY_SIZE])
{
	const struct smd_exit *end = &replica->end;

	if (end->is_lost && end->reason[0]) {
		snprintf(text, SMD_OBITUARY_SIZE, "was lost with its host: %s", end->reason);
		smd_printable(text);
		return;
	}
	switch (end->kind) {
	case SMD_EXIT_CODE:
		snprintf(text, SMD_OBITUARY_SIZE,
			end->value ? "exited with a non-zero status of %d"
				   : "exited with status %d",
			end->value);
		break;
	case SMD_EXIT_SIGNAL:
		snprintf(text, SMD_OBITUARY_SIZE, "was killed by signal %d (%s)%s%s", end->value,
			signal_name(end->value), end->core_dumped ? " and dumped core" : "",
			end->oom_killed ? ", by the kernel for lack of memory" : "");
		break;
	case SMD_EXIT_ERRNO:
		snprintf(text, SMD_OBITUARY_SIZE, "could not be started: %.384s: %s",
			end->reason[0]      ? end->reason
			: replica->program ? replica->program
					   : replica->name,
			strerror(end->value));
		break;
	}
	smd_printable(text);
}

void smd_obituary_word(const struct smd_replica *replica, char text[SMD_OBITUARY_SIZE])
{
	const struct smd_exit *end = &replica->end;

	if (!replica->ended_ns) {
		snprintf(text, SMD_OBITUARY_SIZE, "-");
	} else if (end->kind == SMD_EXIT_CODE && end->value == 0) {
		snprintf(text, SMD_OBITUARY_SIZE, "0");
	} else if (replica->state == SMD_REPLICA_STOPPED) {
		snprintf(text, SMD_OBITUARY_SIZE, "stopped");
	} else if (end->is_lost) {
		snprintf(text, SMD_OBITUARY_SIZE, "lost");
	} else if (end->kind == SMD_EXIT_CODE) {
		snprintf(text, SMD_OBITUARY_SIZE, "%d", end->value);
	} else if (end->kind == SMD_EXIT_SIGNAL) {
		snprintf(text, SMD_OBITUARY_SIZE, "signal %d", end->value);
	} else {
		snprintf(text, SMD_OBITUARY_SIZE, "not started");
	}
}

static void print_error(const char *text, FILE *file)
{
	char *copy = strndup(text, ERROR_MAX);
	char *rest = copy;

	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
		smd_printable(line);
		fprintf(file, "%s%s", line == copy ? "" : "\n    ", line);
	}
	fprintf(file, "%s\n", strlen(text) > ERROR_MAX ? " ..." : "");
	free(copy);
}

/* The last lines of a traceback, without the error that it ends with. */
static void print_traceback(const char *text, FILE *file)
{
	const char *lines[TRACEBACK_LINES];
	size_t count = 0;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (*line == ' ') {
			lines[count++ % TRACEBACK_LINES] = line;
		}
	}
	if (count > 0) {
		fprintf(file, "  Its traceback ends with:\n");
	}
	for (size_t i = count > TRACEBACK_LINES ? count - TRACEBACK_LINES : 0; i < count; i++) {
		const char *line = lines[i % TRACEBACK_LINES];
		char shown[TRACEBACK_WIDTH];

		snprintf(shown, sizeof(shown), "%.*s", (int)strcspn(line, "\n"), line);
		smd_printable(shown);
		fprintf(file, "  %s\n", shown);
	}
}

/*
 * {"message": {"message": "RuntimeError: ...", "extraInfo": {"py_callstack": ...}}}, or with a text
 * in place of the inner object: what torch.distributed.elastic's @record writes.
 */
static void print_error_file(
	const struct smd_replica *replica, const struct smd_jobdir *dir, FILE *file)
{
	json_t *document =
		smd_jobdir_read_json(dir, ERROR_FILE_MAX, SMD_OBITUARY_ERROR_FILE, replica->name);
	json_t *message = json_object_get(document, "message");
	const char *trace = json_string_value(
		json_object_get(json_object_get(message, "extraInfo"), "py_callstack"));
	const char *text;

	if (json_is_object(message)) {
		message = json_object_get(message, "message");
	}
	text = json_string_value(message);
	if (text && *text) {
		fprintf(file, "  Its error: ");
		print_error(text, file);
	}
	if (trace) {
		print_traceback(trace, file);
	}
	json_decref(document);
}

void smd_obituary_print_tail(
	const struct smd_replica *replica, const struct smd_jobdir *dir, FILE *file)
{
	if (replica->ended_ns) {
		print_error_file(replica, dir, file);
	}
	/* A replica that could not be started has written nothing: that line is the agent's. */
	if (replica->tail.count > 0 && replica->end.kind != SMD_EXIT_ERRNO) {
		fprintf(file, "  The last lines of its standard error:\n");
		smd_tail_print(&replica->tail, file, "    ");
	}
	fprintf(file, "  Its log: %s/logs/%s.log\n", dir->path, replica->name);
}
