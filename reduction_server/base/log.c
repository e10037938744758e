/* Writes log lines to standard error, one write per line. */
#include "reduction_server/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

#define LOG_LINE_MAX 1024

static const char *const level_names[] = {
	[SMD_LOG_ERROR] = "error",
	[SMD_LOG_WARN] = "warn",
	[SMD_LOG_INFO] = "info",
	[SMD_LOG_DEBUG] = "debug",
};

static _Atomic int default_level = SMD_LOG_INFO;
static _Atomic(smd_log_sink *) log_sink;

static void tell_unknown(const char *value, int fallback);

static int level_from_environment(int fallback)
{
	const char *value = getenv("SUMMAND_LOG");

	for (size_t i = 0; value && i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(value, level_names[i]) == 0) {
			return (int)i;
		}
	}
	if (value && *value) {
		tell_unknown(value, fallback);
	}
	return fallback;
}

void smd_log_set_default(enum smd_log_level level)
{
	default_level = (int)level;
}

void smd_log_set_sink(smd_log_sink *sink)
{
	log_sink = sink;
}

int smd_log_enabled(enum smd_log_level level)
{
	return log_sink || (int)level <= level_from_environment(default_level);
}

static void write_line(enum smd_log_level level, const char *component, const char *sentence)
{
	char line[LOG_LINE_MAX + 64];
	int used = snprintf(
		line, sizeof(line), "%-5s %s: %s", level_names[level], component, sentence);

	if (used > (int)sizeof(line) - 2) {
		used = (int)sizeof(line) - 2;
	}
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)used) < 0) {
		return; /* nobody is left to tell */
	}
}

/* Once in a process, and whatever is shown: it is about what is shown. */
static void tell_unknown(const char *value, int fallback)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	char sentence[LOG_LINE_MAX];

	if (log_sink || atomic_flag_test_and_set(&told)) {
		return;
	}
	snprintf(sentence, sizeof(sentence),
		"SUMMAND_LOG: must be error, warn, info or debug, got \"%.256s\"; using %s", value,
		level_names[fallback]);
	smd_printable(sentence);
	write_line(SMD_LOG_WARN, "log", sentence);
}

void smd_log(enum smd_log_level level, const char *component, const char *format, ...)
{
	smd_log_sink *sink = log_sink;
	char sentence[LOG_LINE_MAX];
	va_list args;

	if (!smd_log_enabled(level)) {
		return;
	}
	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	smd_printable(sentence);
	(sink ? sink : write_line)(level, component, sentence);
}
