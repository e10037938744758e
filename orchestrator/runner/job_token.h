/*
 * The job's token: what its reduction servers let its workers in by. It is made for one run, in a
 * file of the job directory, and is nowhere else.
 */
#ifndef SMD_RUNNER_JOB_TOKEN_H
#define SMD_RUNNER_JOB_TOKEN_H

#include "orchestrator/runner/jobdir.h"

#define SMD_JOB_TOKEN_FILE "token" /* in the job directory */

/* Makes the token of a job that has reduction servers. *path is its file, which the caller frees;
 * NULL: the job needs none. 0, or -errno with a text. */
int smd_job_token_make(const struct smd_jobdir *dir, const struct smd_job *job, char **path,
	struct smd_error *error);

/* Removes it, once the servers have ended. */
void smd_job_token_remove(const struct smd_jobdir *dir);

/* The same without a file: *out is the file's content, which the caller wipes and frees; NULL where
 * the job needs none. */
int smd_job_token_create(const struct smd_job *job, char **out, struct smd_error *error);

#endif
