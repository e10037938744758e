/* Writes a job's stream of log lines. */
#include "orchestrator/runner/stream.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "reduction_server/base/log.h"
#include "reduction_server/base/printable.h"

#define HEAD_SIZE (SMD_REPLICA_NAME_MAX + SMD_STREAM_STAMP_SIZE + 16)

int smd_stream_open(struct smd_stream *stream, const struct smd_jobdir *dir, const char *name,
	uint64_t limit, FILE *echo)
{
	*stream = (struct smd_stream){
		.echo = echo, .echoes_to_terminal = echo && isatty(fileno(echo))};
	return smd_log_file_open(&stream->log, dir, name, 0, limit);
}

void smd_stream_close(struct smd_stream *stream)
{
	if (smd_log_file_close(&stream->log)) {
		smd_log(SMD_LOG_WARN, "runner", "not all of the job's log could be written");
	}
}

void smd_stream_flush(struct smd_stream *stream)
{
	smd_log_file_flush(&stream->log);
	if (stream->echo) {
		fflush(stream->echo);
	}
}

static void renew_stamp(struct smd_stream *stream)
{
	time_t now = time(NULL);
	struct tm parts;

	if (now != stream->second) {
		stream->second = now;
		localtime_r(&now, &parts);
		strftime(stream->stamp, sizeof(stream->stamp), "%Y-%m-%d %H:%M:%S %z", &parts);
	}
}

static void print_line(FILE *file, const struct smd_stream *stream, const char *task,
	const char *severity, const char *text, size_t length)
{
	fprintf(file, "%s\t%s\t%s\t", severity, stream->stamp, task);
	fwrite(text, 1, length, file);
	fputc('\n', file);
}

static void write_line(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	char head[HEAD_SIZE];
	int size = snprintf(head, sizeof(head), "%s\t%s\t%s\t", severity, stream->stamp, task);

	smd_log_file_write(&stream->log, head, (size_t)size);
	smd_log_file_write(&stream->log, text, length);
	smd_log_file_write(&stream->log, "\n", 1);
}

static void log_line(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	char remark[SMD_LOG_REMARK_SIZE];

	if (smd_log_file_make_room(&stream->log, 2 * HEAD_SIZE + length, remark)) {
		write_line(stream, SMD_STREAM_SERVICE, "NOTICE", remark, strlen(remark));
	}
	write_line(stream, task, severity, text, length);
}

/* The length of a control sequence (ESC [ ... letter), as colours are; 0: there is none. */
static size_t control_sequence(const char *text, size_t length)
{
	size_t n = 2;

	if (length < 3 || text[0] != '\033' || text[1] != '[') {
		return 0;
	}
	while (n < length && text[n] >= 0x20 && text[n] < 0x40) {
		n++;
	}
	return n < length && text[n] >= 0x40 && text[n] < 0x7f ? n + 1 : 0;
}

/*
 * A terminal must not obey a replica's control characters: colours are left out, and of a line
 * that a progress bar has overwritten the last state is shown.
 */
static void show_line(const struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	char *shown = malloc(length + 1);
	size_t n = 0;

	if (!shown) {
		return; /* the file has it */
	}
	length -= length > 0 && text[length - 1] == '\r';
	for (size_t i = 0; i < length; i++) {
		size_t skip = control_sequence(text + i, length - i);

		if (skip) {
			i += skip - 1;
		} else if (text[i] == '\r') {
			n = 0;
		} else {
			shown[n++] = (char)(text[i] ? text[i] : '?');
		}
	}
	shown[n] = '\0';
	smd_printable(shown);
	print_line(stream->echo, stream, task, severity, shown, n);
	free(shown);
}

static void say_lines(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	renew_stamp(stream);
	for (;;) {
		const char *newline = memchr(text, '\n', length);
		size_t part = newline ? (size_t)(newline - text) : length;

		log_line(stream, task, severity, text, part);
		if (stream->echoes_to_terminal) {
			show_line(stream, task, severity, text, part);
		} else if (stream->echo) {
			print_line(stream->echo, stream, task, severity, text, part);
		}
		if (part + 1 >= length) {
			return; /* at the end, or at a newline that ends it */
		}
		text += part + 1;
		length -= part + 1;
	}
}

/* Cloud Logging's name of a severity; NULL: unknown. */
static const char *find_severity(const char *word)
{
	static const struct {
		const char *word;
		const char *severity;
	} severities[] = {
		{"DEFAULT", "DEFAULT"},
		{"DEBUG", "DEBUG"},
		{"INFO", "INFO"},
		{"NOTICE", "NOTICE"},
		{"WARNING", "WARNING"},
		{"ERROR", "ERROR"},
		{"CRITICAL", "CRITICAL"},
		{"ALERT", "ALERT"},
		{"EMERGENCY", "EMERGENCY"},
		{"TRACE", "DEBUG"},
		{"WARN", "WARNING"},
		{"FATAL", "CRITICAL"},
	};

	for (size_t i = 0; i < sizeof(severities) / sizeof(severities[0]); i++) {
		if (strcasecmp(word, severities[i].word) == 0) {
			return severities[i].severity;
		}
	}
	return NULL;
}

void smd_stream_say(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	json_t *entry = length > 0 && text[0] == '{' ? json_loadb(text, length, 0, NULL) : NULL;
	const char *own_severity = json_string_value(json_object_get(entry, "severity"));
	const char *message = json_string_value(json_object_get(entry, "message"));

	if (own_severity && message) {
		own_severity = find_severity(own_severity);
		say_lines(stream, task, own_severity ? own_severity : severity, message,
			strlen(message));
	} else {
		say_lines(stream, task, severity, text, length);
	}
	json_decref(entry);
}
