/*
 * Lines to the runner that supervises this process (specs/guide/reporting.md), if one does.
 *
 * Nothing depends on them: without a runner, or when it has gone away, they are dropped.
 */
#ifndef DIGITS_NOTIFY_H
#define DIGITS_NOTIFY_H

/* What this process is doing. */
void digits_notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A figure for the job's summary. */
void digits_notify_result(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
