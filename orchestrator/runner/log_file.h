/*
 * A log of bounded size in a job's directory: the file and one older one, NAME.1, which together
 * never exceed the limit. Nothing goes unsaid: each file begins with what became of the lines
 * before it.
 */
#ifndef SMD_RUNNER_LOG_FILE_H
#define SMD_RUNNER_LOG_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "orchestrator/runner/jobdir.h"

#define SMD_LOG_LIMIT_DEFAULT (256ull << 20)
#define SMD_LOG_LIMIT_MIN     (64ull << 10)
#define SMD_LOG_REMARK_SIZE   256

struct smd_log_file {
	FILE *file; /* NULL: it cannot be written any more */
	const struct smd_jobdir *dir;
	char *name;          /* in the directory */
	char *older;         /* the name of the older file */
	uint64_t limit;      /* of both files in bytes; 0: none */
	uint64_t size;       /* of the file */
	uint64_t older_size; /* of the older one */
	uint64_t dropped;    /* since it was opened */
	int has_failed;
};

/* Opens it empty, or to go on at its end. The directory is borrowed. 0 or -errno. */
int smd_log_file_open(struct smd_log_file *log, const struct smd_jobdir *dir, const char *name,
	int append, uint64_t limit);

/* Makes room for that many bytes. True when another file has begun: the remark says what became of
 * the one before, and is to be written first. */
int smd_log_file_make_room(
	struct smd_log_file *log, size_t length, char remark[SMD_LOG_REMARK_SIZE]);

void smd_log_file_write(struct smd_log_file *log, const char *text, size_t length);
void smd_log_file_flush(struct smd_log_file *log);

/* 0, or -EIO when not all of it could be written. */
int smd_log_file_close(struct smd_log_file *log);

#endif
