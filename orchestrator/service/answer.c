/* Makes answers, and errors as Google's services write them. */
#include "orchestrator/service/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

#define BAD_REQUEST    "type.googleapis.com/google.rpc.BadRequest"
#define VIOLATIONS_MAX 50 /* more are counted by nobody */
#define STATUS_OK      200
#define STATUS_BROKEN  500

static const struct {
	const char *name;
	unsigned status;
} codes[] = {
#define X(name_, number_, status_) [SMD_RPC_##name_] = {#name_, status_},
	SMD_RPC_CODES(X)
#undef X
};

void smd_answer_set(struct smd_answer *answer, json_t *body)
{
	if (!body) {
		smd_answer_fail(answer, SMD_RPC_INTERNAL, "out of memory");
		return;
	}
	json_decref(answer->body);
	*answer = (struct smd_answer){.status = STATUS_OK, .body = body};
}

void smd_answer_show(struct smd_answer *answer, const struct smd_page_part *part)
{
	*answer = (struct smd_answer){.status = STATUS_OK, .part = part};
}

void smd_answer_send(struct smd_answer *answer, int fd, uint64_t size)
{
	*answer = (struct smd_answer){.status = STATUS_OK, .has_file = 1, .fd = fd, .size = size};
}

static void set_error(
	struct smd_answer *answer, unsigned status, enum smd_rpc_code code, char *text)
{
	if (answer->status == 0 || answer->status == STATUS_OK) {
		json_decref(answer->body);
		answer->status = status;
		answer->body = json_pack("{s:{s:i, s:s, s:s}}", "error", "code", (int)status,
			"message", text ? text : "out of memory", "status", codes[code].name);
	}
	free(text);
}

/* What a request has in it may be cut in the middle of a character, or be none. NULL: out of
 * memory. */
static __attribute__((format(printf, 1, 0))) char *write_text(const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0) {
		return NULL;
	}
	smd_printable_lines(text);
	return text;
}

void smd_answer_fail(struct smd_answer *answer, enum smd_rpc_code code, const char *format, ...)
{
	char *text;
	va_list args;

	va_start(args, format);
	text = write_text(format, args);
	va_end(args);
	set_error(answer, codes[code].status, code, text);
}

void smd_answer_refuse(
	struct smd_answer *answer, unsigned status, enum smd_rpc_code code, const char *format, ...)
{
	char *text;
	va_list args;

	va_start(args, format);
	text = write_text(format, args);
	va_end(args);
	set_error(answer, status, code, text);
}

/* One more line of the message. */
static void add_line(json_t *error, const char *text)
{
	const char *before = json_string_value(json_object_get(error, "message"));
	char *lines = NULL;

	if (!before || !*before) {
		json_object_set_new(error, "message", json_string(text));
	} else if (asprintf(&lines, "%s\n%s", before, text) >= 0) {
		json_object_set_new(error, "message", json_string(lines));
		free(lines);
	}
}

static json_t *violations_of(json_t *error)
{
	json_t *details = json_object_get(error, "details");

	if (!details) {
		details = json_pack("[{s:s, s:[]}]", "@type", BAD_REQUEST, "fieldViolations");
		json_object_set_new(error, "details", details);
	}
	return json_object_get(json_array_get(details, 0), "fieldViolations");
}

void smd_answer_violate(struct smd_answer *answer, const char *field, const char *format, ...)
{
	json_t *error;
	json_t *violations;
	char *path = strdup(field);
	char *text;
	va_list args;

	smd_answer_fail(answer, SMD_RPC_INVALID_ARGUMENT, "%s", "");
	error = json_object_get(answer->body, "error");
	violations = violations_of(error);
	va_start(args, format);
	text = write_text(format, args);
	va_end(args);
	if (text && path && json_array_size(violations) < VIOLATIONS_MAX) {
		smd_printable(path);
		add_line(error, text);
		json_array_append_new(
			violations, json_pack("{s:s, s:s}", "field", path, "description", text));
	}
	free(path);
	free(text);
}

void smd_answer_clear(struct smd_answer *answer)
{
	json_decref(answer->body);
	if (answer->has_file) {
		close(answer->fd);
	}
	*answer = (struct smd_answer){.status = 0};
}
