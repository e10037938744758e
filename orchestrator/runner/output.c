/* Hands each line that a replica writes to its sinks. */
#include "orchestrator/runner/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/terminal_text.h"
#include "reduction_server/base/log.h"

#define BAR_COLUMNS 120 /* shown of one at most */

static void write_log(struct smd_output *output, const char *text, size_t length)
{
	char remark[SMD_LOG_REMARK_SIZE];

	if (smd_log_file_make_room(&output->log, length, remark)) {
		static const char own[] = "summand: ";

		smd_log_file_write(&output->log, own, strlen(own));
		smd_log_file_write(&output->log, remark, strlen(remark));
		smd_log_file_write(&output->log, "\n", 1);
	}
	smd_log_file_write(&output->log, text, length);
}

static void take_stdout(void *arg, const struct smd_line *line)
{
	struct smd_output *output = arg;

	write_log(output, line->text, line->length);
	smd_stream_say(output->stream, output->replica->name, "INFO", line->text, line->length);
	smd_console_say(output->console, output->replica, 0, line);
}

static void take_stderr(void *arg, const struct smd_line *line)
{
	struct smd_output *output = arg;

	write_log(output, line->text, line->length);
	smd_stream_say(output->stream, output->replica->name, "ERROR", line->text, line->length);
	smd_console_say(output->console, output->replica, 1, line);
	smd_tail_add(&output->replica->tail, line->text, line->length);
}

static void take_notify(void *arg, const struct smd_line *line)
{
	struct smd_output *output = arg;
	struct smd_runner_notice notice;

	if (smd_runner_notice_parse(line, &notice)) {
		write_log(output, line->text, line->length);
		return;
	}
	if (output->take_notice(output->arg, &notice)) {
		const char *const parts[] = {smd_runner_notice_word(notice.kind),
			notice.key ? " " : "", notice.key ? notice.key : "", " ", notice.text,
			"\n"};

		for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
			write_log(output, parts[i], strlen(parts[i]));
		}
	}
}

static void tell_status(struct smd_output *output, const char *text)
{
	const struct smd_runner_notice notice = {.kind = SMD_RUNNER_NOTICE_STATUS, .text = text};

	output->take_notice(output->arg, &notice);
}

/* A progress bar is a line that is overwritten for as long as it has no end. */
static void tell_bar(struct smd_output_stream *stream)
{
	struct smd_output *output = stream->lines.arg;
	char shown[SMD_LINES_BUFFER + 1];
	size_t length;
	const char *rest = smd_lines_rest(&stream->lines, &length);

	if (length > SMD_LINES_BUFFER || !memchr(rest, '\r', length)) {
		if (stream->has_bar && length == 0) {
			stream->has_bar = 0;
			tell_status(output, "");
		}
		return;
	}
	smd_terminal_text(shown, rest, length);
	shown[smd_terminal_text_fit(shown, BAR_COLUMNS)] = '\0';
	tell_status(output, shown);
	stream->has_bar = 1;
}

static void feed_lines(void *lines, const char *bytes, size_t count)
{
	smd_lines_feed(lines, bytes, count);
}

void smd_output_feed(struct smd_output *output, enum smd_agent_stream number, const char *bytes,
	size_t count)
{
	struct smd_output_stream *stream;

	if (!output->streams) {
		return;
	}
	stream = &output->streams[number];
	if (output->redaction->count > 0) {
		smd_redaction_feed(output->redaction, &stream->redacted, bytes, count, feed_lines,
			&stream->lines);
	} else {
		smd_lines_feed(&stream->lines, bytes, count);
	}
	if (number != SMD_AGENT_NOTIFY) {
		tell_bar(stream);
	}
	smd_log_file_flush(&output->log);
}

int smd_output_open(struct smd_output *output, const struct smd_output_sinks *sinks)
{
	static smd_line_fn *const takers[SMD_AGENT_STREAMS] = {
		[SMD_AGENT_STDOUT] = take_stdout,
		[SMD_AGENT_STDERR] = take_stderr,
		[SMD_AGENT_NOTIFY] = take_notify,
	};
	int ret;

	*output = (struct smd_output){.redaction = sinks->redaction,
		.stream = sinks->stream,
		.console = sinks->console,
		.replica = sinks->replica,
		.take_notice = sinks->take_notice,
		.arg = sinks->arg};
	output->streams = calloc(SMD_AGENT_STREAMS, sizeof(*output->streams));
	if (!output->streams) {
		return -ENOMEM;
	}
	for (int i = 0; i < SMD_AGENT_STREAMS; i++) {
		output->streams[i].lines.take = takers[i];
		output->streams[i].lines.arg = output;
	}
	ret = smd_log_file_open(
		&output->log, sinks->dir, sinks->log_name, sinks->append, sinks->log_limit);
	if (ret) {
		free(output->streams);
		output->streams = NULL;
		return ret;
	}
	return 0;
}

void smd_output_close(struct smd_output *output)
{
	for (int i = 0; output->streams && i < SMD_AGENT_STREAMS; i++) {
		struct smd_output_stream *stream = &output->streams[i];

		smd_redaction_finish(
			output->redaction, &stream->redacted, feed_lines, &stream->lines);
		smd_lines_finish(&stream->lines);
	}
	if (smd_log_file_close(&output->log)) {
		smd_log(SMD_LOG_WARN, "runner", "%s: not all of its log could be written",
			output->replica->name);
	}
	free(output->streams);
	*output = (struct smd_output){0};
}
