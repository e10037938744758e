/* Reads a replica's pipes and hands each line to its sinks. */
#include "orchestrator/runner/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/terminal_text.h"
#include "reduction_server/base/log.h"

#define READ_SIZE   16384
#define BAR_COLUMNS 120 /* shown of one at most */

enum { STREAM_STDOUT, STREAM_STDERR, STREAM_NOTIFY };

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
		static const char kind[] = "result ";

		write_log(output, kind, strlen(kind));
		write_log(output, notice.key, strlen(notice.key));
		write_log(output, " ", 1);
		write_log(output, notice.text, strlen(notice.text));
		write_log(output, "\n", 1);
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

/* Reads once. Negative: nothing to read now; 0: the pipe has ended. */
static ssize_t stream_read(struct smd_output_stream *stream)
{
	char bytes[READ_SIZE];
	ssize_t count;

	do {
		count = read(event_get_fd(stream->event), bytes, sizeof(bytes));
	} while (count < 0 && errno == EINTR);
	if (count > 0) {
		smd_lines_feed(&stream->lines, bytes, (size_t)count);
	}
	return count;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct smd_output_stream *stream = arg;
	struct smd_output *output = stream->lines.arg;

	(void)fd;
	(void)what;
	if (stream_read(stream) == 0) {
		event_del(stream->event); /* it is freed when the replica has ended */
	} else if (stream != &output->streams[STREAM_NOTIFY]) {
		tell_bar(stream);
	}
	smd_log_file_flush(&output->log);
}

static void stream_close(struct smd_output_stream *stream)
{
	evutil_socket_t fd;

	if (!stream->event) {
		return;
	}
	while (stream_read(stream) > 0) {
	}
	smd_lines_finish(&stream->lines);
	fd = event_get_fd(stream->event);
	event_free(stream->event);
	close(fd);
}

int smd_output_open(struct smd_output *output, const struct smd_output_sinks *sinks)
{
	static smd_line_fn *const takers[SMD_OUTPUT_STREAMS] = {
		[STREAM_STDOUT] = take_stdout,
		[STREAM_STDERR] = take_stderr,
		[STREAM_NOTIFY] = take_notify,
	};
	int ret;

	*output = (struct smd_output){.stream = sinks->stream,
		.console = sinks->console,
		.replica = sinks->replica,
		.take_notice = sinks->take_notice,
		.arg = sinks->arg};
	output->streams = calloc(SMD_OUTPUT_STREAMS, sizeof(*output->streams));
	if (!output->streams) {
		return -ENOMEM;
	}
	for (int i = 0; i < SMD_OUTPUT_STREAMS; i++) {
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

int smd_output_attach(
	struct smd_output *output, struct event_base *base, const struct smd_process *process)
{
	const int fds[SMD_OUTPUT_STREAMS] = {
		[STREAM_STDOUT] = process->stdout_fd,
		[STREAM_STDERR] = process->stderr_fd,
		[STREAM_NOTIFY] = process->notify_fd,
	};
	int ret = 0;

	for (int i = 0; i < SMD_OUTPUT_STREAMS; i++) {
		struct smd_output_stream *stream = &output->streams[i];

		stream->event = event_new(base, fds[i], EV_READ | EV_PERSIST, on_readable, stream);
		if (!stream->event) {
			close(fds[i]);
			ret = -ENOMEM;
		} else if (event_add(stream->event, NULL)) {
			ret = -EIO;
		}
	}
	return ret;
}

void smd_output_pause(struct smd_output *output)
{
	for (int i = STREAM_STDOUT; output->streams && i <= STREAM_STDERR; i++) {
		if (output->streams[i].event) {
			event_del(output->streams[i].event);
		}
	}
}

/* One that has ended is found so once more. */
void smd_output_resume(struct smd_output *output)
{
	for (int i = STREAM_STDOUT; output->streams && i <= STREAM_STDERR; i++) {
		if (output->streams[i].event) {
			event_add(output->streams[i].event, NULL);
		}
	}
}

void smd_output_close(struct smd_output *output)
{
	for (int i = 0; output->streams && i < SMD_OUTPUT_STREAMS; i++) {
		stream_close(&output->streams[i]);
	}
	if (smd_log_file_close(&output->log)) {
		smd_log(SMD_LOG_WARN, "runner", "%s: not all of its log could be written",
			output->replica->name);
	}
	free(output->streams);
	*output = (struct smd_output){0};
}
