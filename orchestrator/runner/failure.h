/*
 * Why a job failed, in words: the message of state.json and of standard error. The caller frees it;
 * NULL: out of memory.
 */
#ifndef SMD_RUNNER_FAILURE_H
#define SMD_RUNNER_FAILURE_H

#include <sys/types.h>

#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/jobdir.h"

/* The decisive replica's end. */
char *smd_failure_of_end(const struct smd_job_status *status, const struct smd_jobdir *dir);

/* Servers that were not ready in time. */
char *smd_failure_of_late_servers(const struct smd_job_status *status, const struct smd_jobdir *dir,
	unsigned ready_timeout_s);

/* The job's timeout, and its maxWaitDuration. */
char *smd_failure_of_timeout(const struct smd_job *job);
char *smd_failure_of_wait(const struct smd_job *job);

/* There are no hosts to run on; the reason says why. */
char *smd_failure_of_hosts(const char *reason);

/* The end of the guard, which had this process id. */
char *smd_failure_of_guard(pid_t guard);

#endif
