/*
 * How a job went, once it has ended.
 */
#ifndef SMD_RUNNER_SUMMARY_H
#define SMD_RUNNER_SUMMARY_H

#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/jobdir.h"

/* Prints it for people; replicas had grace_s to end after the job's success. */
void smd_summary_print(const struct smd_job_status *status, const struct smd_jobdir *dir,
	unsigned grace_s, FILE *file);

/* Writes summary.json. 0 or -errno. */
int smd_summary_write(const struct smd_job_status *status, const struct smd_jobdir *dir);

#endif
