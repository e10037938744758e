/* Writes a job's stream of log lines. */
#include "orchestrator/runner/stream.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "orchestrator/runner/jobdir.h"

int smd_stream_open(struct smd_stream *stream, const char *path, FILE *echo)
{
	*stream = (struct smd_stream){.file = smd_jobdir_open_file(path, 0), .echo = echo};
	return stream->file ? 0 : -errno;
}

void smd_stream_close(struct smd_stream *stream)
{
	if (stream->file) {
		fclose(stream->file);
		stream->file = NULL;
	}
}

void smd_stream_flush(struct smd_stream *stream)
{
	fflush(stream->file);
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

static void say_lines(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	renew_stamp(stream);
	for (;;) {
		const char *newline = memchr(text, '\n', length);
		size_t part = newline ? (size_t)(newline - text) : length;

		print_line(stream->file, stream, task, severity, text, part);
		if (stream->echo) {
			print_line(stream->echo, stream, task, severity, text, part);
		}
		if (part + 1 >= length) {
			return; /* at the end, or at a newline that ends it */
		}
		text += part + 1;
		length -= part + 1;
	}
}

/* The severity becomes the stream's first column, so it must be one word. */
static int is_word(const char *text)
{
	return *text && strcspn(text, " \t\r\n") == strlen(text);
}

void smd_stream_say(struct smd_stream *stream, const char *task, const char *severity,
	const char *text, size_t length)
{
	json_t *entry = length > 0 && text[0] == '{' ? json_loadb(text, length, 0, NULL) : NULL;
	const char *own_severity = json_string_value(json_object_get(entry, "severity"));
	const char *message = json_string_value(json_object_get(entry, "message"));

	if (own_severity && message && is_word(own_severity)) {
		say_lines(stream, task, own_severity, message, strlen(message));
	} else {
		say_lines(stream, task, severity, text, length);
	}
	json_decref(entry);
}
