/*
 * The job's token: what its reduction servers let its workers in by. It is made for one attempt, so
 * that what is left of an earlier one, on a host that was lost, is let in no more. It is in a file
 * of the job directory or of an agent's folder, and nowhere else.
 */
#ifndef SMD_RUNNER_JOB_TOKEN_H
#define SMD_RUNNER_JOB_TOKEN_H

#include "orchestrator/runner/jobdir.h"

#define SMD_JOB_TOKEN_FILE "token" /* in the job directory, or in the folder of each agent */

/* Makes a token: *out is its file's content, to be given to smd_job_token_forget(); NULL where the
 * job needs none. 0, or -errno with a text. */
int smd_job_token_create(const struct smd_job *job, char **out, struct smd_error *error);

/* Wipes it, and frees it. */
void smd_job_token_forget(char *token);

/* Makes a token in the job directory's file, in place of an earlier attempt's; no file where the
 * job needs none. 0, or -errno with a text. */
int smd_job_token_renew(
	const struct smd_jobdir *dir, const struct smd_job *job, struct smd_error *error);

/* Removes the file, once the servers have ended. */
void smd_job_token_remove(const struct smd_jobdir *dir);

#endif
