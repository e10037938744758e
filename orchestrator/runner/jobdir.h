/*
 * A job's directory: where its logs and records are (specs/design/runner.md, "The job directory").
 *
 * What it creates is for its owner alone. Files are opened from the directory's descriptor, and no
 * symbolic link below it is followed.
 */
#ifndef SMD_RUNNER_JOBDIR_H
#define SMD_RUNNER_JOBDIR_H

#include <stddef.h>
#include <stdio.h>

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

#define SMD_JOBDIR_NAME_SIZE 65

#define SMD_RECORD     "state.json"
#define SMD_RECORD_MAX (64 << 20) /* its size in a job of very many replicas */

struct smd_jobdir {
	char *path; /* absolute */
	int fd;     /* the directory, with the lock that holds it for this process */
};

/* Turns a display name into one file name: never empty, never hidden, never a path. */
void smd_jobdir_sanitise(char name[SMD_JOBDIR_NAME_SIZE], const char *display_name);

/* Creates the directory and its folders: `path`, or a new one in the default place if it is NULL.
 * 0, or -errno with a text; -EBUSY when another runner has the directory. */
int smd_jobdir_open(struct smd_jobdir *dir, const struct smd_job *job, const char *path,
	struct smd_error *error);
void smd_jobdir_close(struct smd_jobdir *dir);

/* The path of a file or folder in it, which the caller frees. NULL: out of memory. */
char *smd_jobdir_path(const struct smd_jobdir *dir, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Creates a folder in it, or makes one that is there its owner's alone. 0 or -errno: -ELOOP for a
 * symbolic link. */
int smd_jobdir_make_folder(const struct smd_jobdir *dir, const char *name);

/* Lets the group of a folder or file in it use it too: a container's programs need not be its
 * owner's, and a folder that only they see does not hide it from them. What is not there is no
 * error. 0 or -errno. */
int smd_jobdir_share(const struct smd_jobdir *dir, const char *name);

/* Writes a file, which appears whole or not at all. 0 or -errno. */
int smd_jobdir_write(
	const struct smd_jobdir *dir, const char *name, const char *text, size_t length);

/* The same for a JSON document. */
int smd_jobdir_write_json(const struct smd_jobdir *dir, const char *name, const json_t *document);

/* Reserves disk space for the last records, because the disk may be full by then. On a disk that is
 * full already nothing is reserved. */
void smd_jobdir_reserve(const struct smd_jobdir *dir, size_t size);

/* Frees the reserved space, once no replica is left that could fill it. */
void smd_jobdir_release(const struct smd_jobdir *dir);

/* Reads a JSON file of at most size_max bytes; a replica may have put anything in its place. The
 * caller owns a reference. NULL: there is no such file. */
json_t *smd_jobdir_read_json(const struct smd_jobdir *dir, size_t size_max, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Opens a file of the directory for writing, empty or at its end. Anything else that a replica has
 * put in its place is removed. NULL: errno says why. */
FILE *smd_jobdir_open_file(const struct smd_jobdir *dir, const char *name, int append);

/* Opens a regular file of the directory for reading, and never waits. NULL: errno says why. */
FILE *smd_jobdir_read_file(const struct smd_jobdir *dir, const char *name, size_t *size);

/* Removes a file, if it is there. */
void smd_jobdir_remove(const struct smd_jobdir *dir, const char *name);

/* Renames a file within its folder. 0 or -errno. */
int smd_jobdir_rename(const struct smd_jobdir *dir, const char *from, const char *to);

/* Renames the exit record of a replica's attempt, so that the next attempt does not replace it. */
void smd_jobdir_keep_exit_record(
	const struct smd_jobdir *dir, const char *replica, unsigned attempt);

#endif
