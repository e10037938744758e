/*
 * What the library under test has said: the logger that a driver passes to init() as NCCL does.
 */
#ifndef TESTS_NCCL_PROXY_LOGBOOK_H
#define TESTS_NCCL_PROXY_LOGBOOK_H

#include <stdbool.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

/* An nccl_logger. May be called from any thread. */
void logbook_write(enum nccl_log_level level, unsigned long subsystems, const char *file, int line,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Whether a line of this level has `text` in it. */
bool logbook_has(enum nccl_log_level level, const char *text);
/* How many have. */
int logbook_count(enum nccl_log_level level, const char *text);

void logbook_clear(void);

/* From now on lines up to this level go to standard error at once, too. */
void logbook_echo(enum nccl_log_level level);

/* To standard error, each line after `owner`. */
void logbook_print(const char *owner);

#endif
