/*
 * Reducers on the workers' hosts, where there are fewer reduction servers than these
 * (specs/design/hybrid.md): replicas of worker pool 2 behind those of the job file.
 */
#ifndef SMD_RUNNER_REDUCERS_H
#define SMD_RUNNER_REDUCERS_H

#include "orchestrator/runner/run.h"

/* Adds them to a run whose replicas have just been placed. 0, or -errno with a text. */
int smd_reducers_add(struct smd_run *run, struct smd_error *error);

#endif
