/*
 * What a job's directory holds before its replicas start: records of what is run, and places for
 * what they write. Logs, exits and the state come later.
 */
#ifndef SMD_RUNNER_LAYOUT_H
#define SMD_RUNNER_LAYOUT_H

#include "orchestrator/contract/contract.h"
#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/local_run.h"

/* Makes the folders, and notes in the placement what replicas are told of them. 0 or -errno. */
int smd_layout_make(const struct smd_jobdir *dir, const struct smd_job_status *status,
	const struct smd_local_run_options *options, struct smd_placement *placement);

/* Writes spec, plan and the job as it is run; `resolved` is without secrets, or NULL. 0 or -errno.
 */
int smd_layout_keep_inputs(const struct smd_jobdir *dir,
	const struct smd_local_run_options *options, const json_t *resolved);

/* Lets containers see what they need of it; their users may be others. 0 or -errno. */
int smd_layout_share(const struct smd_jobdir *dir);

#endif
