/*
 * Runs a tuning job on this machine: this process is its runner, and each trial's runner a child of
 * it (specs/design/tuning.md).
 */
#ifndef SMD_TUNING_TUNING_H
#define SMD_TUNING_TUNING_H

#include "orchestrator/runner/local_run.h"

/* Why the job has no trials that can be compared, in `error`; 0: it has. */
int smd_tuning_check_study(const struct smd_job *job, struct smd_error *error);

/* Why the job cannot be tuned here, in `error`; 0: it can. */
int smd_tuning_check(const struct smd_job *job, int may_share_gpus, struct smd_error *error);

/*
 * Runs the trials, prints how they go on, and a table of them. Returns the program's exit code: 0
 * at least one trial has succeeded, 1 the job failed (the reason has been printed), 130 or 143 it
 * was interrupted. -errno with a text when nothing could be started at all.
 */
int smd_tuning_run(
	struct smd_job *job, const struct smd_local_run_options *options, struct smd_error *error);

#endif
