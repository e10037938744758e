/* Writes a job's stream of log lines. */
#include "orchestrator/runner/stream.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "reduction_server/base/log.h"

#define HEAD_SIZE (SMD_REPLICA_NAME_MAX + SMD_STREAM_STAMP_SIZE + 16)

int smd_stream_open(struct smd_stream *stream, const struct smd_jobdir *dir, const char *name,
	uint64_t limit, struct smd_console *console)
{
	*stream = (struct smd_stream){.console = console};
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

static size_t write_head(const struct smd_stream *stream, const char *task, const char *severity,
	char head[HEAD_SIZE])
{
	int length = snprintf(head, HEAD_SIZE, "%s\t%s\t%s\t", severity, stream->stamp, task);

	return length < HEAD_SIZE ? (size_t)length : HEAD_SIZE - 1;
}

static void write_line(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	char head[HEAD_SIZE];
	size_t size = write_head(stream, task, severity, head);

	smd_log_file_write(&stream->log, head, size);
	smd_log_file_write(&stream->log, text, length);
	smd_log_file_write(&stream->log, "\n", 1);
	if (stream->console) {
		smd_console_stream(stream->console, head, size, text, length);
	}
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

static void say_lines(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	renew_stamp(stream);
	for (;;) {
		const char *newline = memchr(text, '\n', length);
		size_t part = newline ? (size_t)(newline - text) : length;

		log_line(stream, task, severity, text, part);
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
