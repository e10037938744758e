/* The trace of a job that this runner runs, where its options want one. */
#ifndef SMD_RUNNER_JOB_TRACE_H
#define SMD_RUNNER_JOB_TRACE_H

#include "orchestrator/runner/local_run.h"
#include "orchestrator/runner/run.h"

/* A job is not run for its trace: one that cannot be written is a warning in its log. */
void smd_job_trace_open(struct smd_run *run, const struct smd_local_run_options *options);
void smd_job_trace_close(struct smd_run *run, const struct smd_local_run_options *options);

#endif
