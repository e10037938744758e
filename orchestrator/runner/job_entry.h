/*
 * A job's entry in the store, where those who start it find it again.
 */
#ifndef SMD_RUNNER_JOB_ENTRY_H
#define SMD_RUNNER_JOB_ENTRY_H

#include "orchestrator/runner/local_run.h"

/* Adds the job to the store, its secrets masked unless they are to be shown. 0, or -errno with a
 * text. */
int smd_job_entry_open(struct smd_entry *entry, const struct smd_job *job,
	const struct smd_local_run_options *options, struct smd_error *error);

/* The job's entry: that of the options, or a new one in *own. NULL: the job is not in the store,
 * and that has been told if it should be. */
struct smd_entry *smd_job_entry_get(const struct smd_job *job,
	const struct smd_local_run_options *options, struct smd_entry *own);

#endif
