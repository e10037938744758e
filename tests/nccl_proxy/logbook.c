/* Keeps lines in memory; what does not fit is counted. */
#include "tests/nccl_proxy/logbook.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINES_MAX      512
#define LINE_MAX_BYTES 512

struct log_line {
	enum nccl_log_level level;
	unsigned long subsystems;
	char text[LINE_MAX_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_line lines[LINES_MAX];
static unsigned nlines;
static unsigned lost;
static enum nccl_log_level echoed = NCCL_LOG_NONE;

/* With the lock. */
static void echo(enum nccl_log_level level, const char *format, va_list args)
{
	if (level <= echoed) {
		vfprintf(stderr, format, args);
		fputc('\n', stderr);
	}
}

void logbook_write(enum nccl_log_level level, unsigned long subsystems, const char *file, int line,
	const char *format, ...)
{
	va_list args;
	va_list again;

	(void)file;
	(void)line;
	va_start(args, format);
	va_copy(again, args);
	pthread_mutex_lock(&lock);
	echo(level, format, again);
	if (nlines < LINES_MAX) {
		lines[nlines].level = level;
		lines[nlines].subsystems = subsystems;
		vsnprintf(lines[nlines].text, LINE_MAX_BYTES, format, args);
		nlines++;
	} else {
		lost++;
	}
	pthread_mutex_unlock(&lock);
	va_end(again);
	va_end(args);
}

int logbook_count(enum nccl_log_level level, const char *text)
{
	int n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < nlines; i++) {
		n += lines[i].level == level && strstr(lines[i].text, text);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

bool logbook_has(enum nccl_log_level level, const char *text)
{
	return logbook_count(level, text) > 0;
}

void logbook_echo(enum nccl_log_level level)
{
	pthread_mutex_lock(&lock);
	echoed = level;
	pthread_mutex_unlock(&lock);
}

void logbook_clear(void)
{
	pthread_mutex_lock(&lock);
	nlines = 0;
	lost = 0;
	pthread_mutex_unlock(&lock);
}

static const char *level_name(enum nccl_log_level level)
{
	static const char *const names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};

	return level <= NCCL_LOG_TRACE ? names[level] : "?";
}

void logbook_print(const char *owner)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < nlines; i++) {
		fprintf(stderr, "%s  %-5s %#lx %s\n", owner, level_name(lines[i].level),
			lines[i].subsystems, lines[i].text);
	}
	if (lost) {
		fprintf(stderr, "%s  and %u lines more\n", owner, lost);
	}
	pthread_mutex_unlock(&lock);
}
