/* Keeps what a session says, and counts what it is told. */
#include "orchestrator/service/shell.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/base64.h"

#define NUMBER_SIZE 24

/* ---- what the session says ---- */

static void take_end(void *owner, int code, const char *reason)
{
	struct smd_shell *shell = owner;

	shell->has_ended = 1;
	shell->exit_code = code;
	snprintf(shell->reason, sizeof(shell->reason), "%s", reason);
	smd_session_close(shell->session);
	shell->session = NULL;
	shell->wake(shell);
}

static int take_output(
	void *owner, enum smd_agent_stream stream, const uint8_t *bytes, size_t count)
{
	struct smd_shell *shell = owner;
	enum smd_shell_output to = stream == SMD_AGENT_STDERR ? SMD_SHELL_ERRORS : SMD_SHELL_OUT;

	if (evbuffer_add(shell->streams[to].kept, bytes, count)) {
		return -ENOMEM;
	}
	shell->wake(shell);
	return 0;
}

static void take_credit(void *owner, uint32_t count)
{
	struct smd_shell *shell = owner;

	shell->credit += count;
}

static const struct smd_session_callbacks callbacks = {
	.take_output = take_output, .take_credit = take_credit, .take_end = take_end};

/* ---- beginning and end ---- */

static int begin(struct smd_shell *shell, const struct smd_shell_request *request,
	struct smd_error *error)
{
	int ret = smd_session_begin(shell->session, request->replica, request->command,
		&request->terminal, request->by, SMD_SHELL_OUTPUT_MAX);

	return ret ? smd_error_set(error, -ret, "command: %s", strerror(-ret)) : 0;
}

int smd_shell_open(struct smd_shell *shell, struct event_base *base, const char *directory,
	const struct smd_shell_request *request, struct smd_error *error)
{
	int ret;

	shell->credit = SMD_SHELL_INPUT_MAX;
	shell->exit_code = -1;
	shell->has_terminal = request->terminal.rows > 0;
	for (size_t i = 0; i < SMD_SHELL_STREAMS; i++) {
		shell->streams[i].kept = evbuffer_new();
		if (!shell->streams[i].kept) {
			return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		}
	}
	ret = smd_session_open(&shell->session, base, directory, &callbacks, shell, error);
	return ret ? ret : begin(shell, request, error);
}

void smd_shell_close(struct smd_shell *shell)
{
	smd_session_close(shell->session);
	shell->session = NULL;
	for (size_t i = 0; i < SMD_SHELL_STREAMS; i++) {
		if (shell->streams[i].kept) {
			evbuffer_free(shell->streams[i].kept);
			shell->streams[i].kept = NULL;
		}
	}
}

/* ---- output ---- */

static int show_stream(const struct smd_shell_stream *stream, json_t *body, const char *offset_key,
	const char *data_key)
{
	size_t length = evbuffer_get_length(stream->kept);
	const uint8_t *bytes = evbuffer_pullup(stream->kept, -1);
	char *text = smd_base64_encode(bytes ? bytes : (const uint8_t *)"", bytes ? length : 0);
	char offset[NUMBER_SIZE];
	int ret;

	snprintf(offset, sizeof(offset), "%" PRIu64, stream->at);
	ret = json_object_set_new(body, offset_key, json_string(offset));
	ret = text && !ret ? json_object_set_new(body, data_key, json_string(text)) : -ENOMEM;
	free(text);
	return ret;
}

json_t *smd_shell_show(const struct smd_shell *shell)
{
	json_t *body = json_pack("{s:b}", "hasEnded", shell->has_ended);
	int ret = show_stream(&shell->streams[SMD_SHELL_OUT], body, "offset", "data");

	if (!ret && !shell->has_terminal) {
		ret = show_stream(
			&shell->streams[SMD_SHELL_ERRORS], body, "errorOffset", "errorData");
	}
	if (!ret && shell->has_ended && shell->exit_code >= 0) {
		json_object_set_new(body, "exitCode", json_integer(shell->exit_code));
	}
	if (!ret && shell->reason[0]) {
		json_object_set_new(body, "reason", json_string(shell->reason));
	}
	if (ret) {
		json_decref(body);
		body = NULL;
	}
	return body;
}

int smd_shell_has_news(const struct smd_shell *shell)
{
	return shell->has_ended ||
	       evbuffer_get_length(shell->streams[SMD_SHELL_OUT].kept) > 0 ||
	       evbuffer_get_length(shell->streams[SMD_SHELL_ERRORS].kept) > 0;
}

uint64_t smd_shell_last(const struct smd_shell *shell, enum smd_shell_output stream)
{
	return shell->streams[stream].at + evbuffer_get_length(shell->streams[stream].kept);
}

/* The command may print so much more. */
void smd_shell_drop(struct smd_shell *shell, enum smd_shell_output stream, uint64_t offset)
{
	size_t count = (size_t)(offset - shell->streams[stream].at);

	evbuffer_drain(shell->streams[stream].kept, count);
	shell->streams[stream].at = offset;
	if (count > 0 && shell->session) {
		smd_session_give_credit(shell->session, (uint32_t)count);
	}
}

/* ---- input ---- */

int smd_shell_write(struct smd_shell *shell, uint64_t at, const uint8_t *bytes, size_t count)
{
	uint64_t known = shell->input_at - at;

	known = known < count ? known : count;
	bytes += known;
	count -= (size_t)known;
	if (count > shell->credit) {
		return -EAGAIN;
	}
	shell->input_at += count;
	shell->credit -= (uint32_t)count;
	if (shell->session && count > 0 && !shell->input_is_over) {
		smd_session_write(shell->session, bytes, count);
	}
	return 0;
}

void smd_shell_end_input(struct smd_shell *shell)
{
	if (shell->session && !shell->input_is_over) {
		smd_session_write(shell->session, NULL, 0);
	}
	shell->input_is_over = 1;
}

void smd_shell_resize(struct smd_shell *shell, int rows, int columns)
{
	if (shell->session) {
		smd_session_resize(shell->session, rows, columns);
	}
}
