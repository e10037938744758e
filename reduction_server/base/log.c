/* Writes log lines to standard error, one write per line. */
#include "reduction_server/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_LINE_MAX 1024

static const char *const level_names[] = {
	[SMD_LOG_ERROR] = "error",
	[SMD_LOG_WARN] = "warn",
	[SMD_LOG_INFO] = "info",
	[SMD_LOG_DEBUG] = "debug",
};

static _Atomic int default_level = SMD_LOG_INFO;

static int level_from_environment(int fallback)
{
	const char *value = getenv("SUMMAND_LOG");

	for (size_t i = 0; value && i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(value, level_names[i]) == 0) {
			return (int)i;
		}
	}
	return fallback;
}

void smd_log_set_default(enum smd_log_level level)
{
	default_level = (int)level;
}

int smd_log_enabled(enum smd_log_level level)
{
	return (int)level <= level_from_environment(default_level);
}

void smd_log(enum smd_log_level level, const char *component, const char *format, ...)
{
	char line[LOG_LINE_MAX];
	va_list args;
	int used;

	if (!smd_log_enabled(level)) {
		return;
	}
	used = snprintf(line, sizeof(line), "%-5s %s: ", level_names[level], component);
	va_start(args, format);
	used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	if (used > (int)sizeof(line) - 2) {
		used = (int)sizeof(line) - 2;
	}
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)used) < 0) {
		return; /* nobody is left to tell */
	}
}
