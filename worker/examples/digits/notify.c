/* Writes lines to the pipe that SUMMAND_NOTIFY_FD names. */
#include "worker/examples/digits/notify.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/parse.h"

#define LINE_MAX_BYTES 512

static void write_line(const char *word, const char *key, const char *format, va_list arguments)
	__attribute__((format(printf, 3, 0)));

static void write_line(const char *word, const char *key, const char *format, va_list arguments)
{
	const char *variable = getenv("SUMMAND_NOTIFY_FD");
	char line[LINE_MAX_BYTES];
	uint64_t fd;
	size_t length;
	ssize_t written;

	if (!variable || smd_parse_number(variable, 0, INT_MAX, &fd)) {
		return;
	}
	snprintf(line, sizeof(line) - 1, "%s %s%s", word, key, *key ? " " : "");
	length = strlen(line);
	vsnprintf(line + length, sizeof(line) - 1 - length, format, arguments);
	length = strlen(line);
	line[length++] = '\n';
	/* One write of less than PIPE_BUF: whole, or not at all. A closed pipe means nothing. */
	written = write((int)fd, line, length);
	(void)written;
}

void digits_notify_status(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line("status", "", format, arguments);
	va_end(arguments);
}

void digits_notify_result(const char *key, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line("result", key, format, arguments);
	va_end(arguments);
}
