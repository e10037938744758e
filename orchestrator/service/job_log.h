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

/* The lines of a log that are asked for: of these seconds, and no more bytes than that. */
struct smd_log_span {
	int64_t first;
	uint64_t first_ordinal; /* in the first second; lines before it do not count */
	int64_t last;
	size_t bytes_max;
	int is_end; /* of more bytes the last ones */
};

/* Calls back with the lines until one of the calls returns other than 0, which is then returned.
 * -EFBIG: so many bytes were looked at without an end; 0: all was, or there is no log. */
int smd_job_log_read(const char *directory, const struct smd_log_span *span, smd_log_line_fn *take,
	void *arg);

/* Takes a line apart, in place. 0 or -EINVAL. */
int smd_log_line_parse(char *text, struct smd_log_line *out);

#endif
