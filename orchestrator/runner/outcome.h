/*
 * The outcome of a job's attempt: which end decides it, and whether that is success, failure or
 * another attempt (specs/design/runner.md, "Success" and "Restarts").
 */
#ifndef SMD_RUNNER_OUTCOME_H
#define SMD_RUNNER_OUTCOME_H

#include "orchestrator/runner/run.h"

/* A replica has ended: as long as the outcome is open, its end may decide it. */
void smd_outcome_take_end(struct smd_run *run, struct smd_replica *replica);

/* Decides the outcome, once. Only an interruption overrides one: a success, which it cuts short, or
 * a restart. */
void smd_outcome_decide(struct smd_run *run);

/* The job has failed. Takes over the message. */
void smd_outcome_fail(struct smd_run *run, char *message);

#endif
