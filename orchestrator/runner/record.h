/*
 * state.json: how the job is, for others to look up (specs/design/runner.md, "The job directory").
 */
#ifndef SMD_RUNNER_RECORD_H
#define SMD_RUNNER_RECORD_H

#include "orchestrator/runner/run.h"

/* Writes state.json. */
void smd_run_record(struct smd_run *run);

/* Ends the record that a runner has left: the job's outcome, and why; what was alive is STOPPED. */
void smd_record_amend(const struct smd_jobdir *dir, enum smd_outcome outcome, const char *message);

#endif
