/*
 * Runs a loaded job: this process is its runner.
 */
#ifndef SMD_CLI_RUN_JOB_H
#define SMD_CLI_RUN_JOB_H

#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/runner/local_run.h"

/* Where a runner without a terminal says what it has to say, in the job's directory. */
#define SMD_RUNNER_LOG "logs/runner.log"

/* The program's exit code. */
int smd_loaded_job_run(struct smd_loaded_job *loaded, struct smd_local_run_options *options);

#endif
