/*
 * The lines of a job's stream, in their order, from a time on: logs/job.log, and job.log.1 before
 * it.
 *
 * A line has a time to the second, and a number among those of its second. Replicas may have put
 * anything in the files' places.
 */
#ifndef SMD_SERVICE_JOB_LOG_H
#define SMD_SERVICE_JOB_LOG_H

#include <stddef.h>
#include <stdint.h>

struct smd_log_line {
	int64_t second;   /* since 1970 */
	uint64_t ordinal; /* in its second, from 0 on */
	const char *severity;
	const char *task;
	const char *text;
};

/* 0 to go on. The texts are valid for the call, and the callee's to change. */
typedef int smd_log_line_fn(void *arg, const struct smd_log_line *line);

/* Calls back with the lines of that second and of later ones, up to `last`, until one of the calls
 * returns other than 0, which is then returned. -EFBIG: so many bytes were looked at without an
 * end; 0: all was, or there is no log. */
int smd_job_log_read(const char *directory, int64_t first, int64_t last, size_t bytes_max,
	smd_log_line_fn *take, void *arg);

/* Takes a line apart, in place. 0 or -EINVAL. */
int smd_log_line_parse(char *text, struct smd_log_line *out);

#endif
