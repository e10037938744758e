/*
 * state.json: how the job is, for others to look up (specs/design/runner.md, "The job directory").
 */
#ifndef SMD_RUNNER_RECORD_H
#define SMD_RUNNER_RECORD_H

#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/jobdir.h"

struct smd_record {
	const struct smd_jobdir *dir;
	uint64_t written_ns; /* 0: never */
	int error;           /* why the last one could not be written; 0: it was */
};

/* Writes state.json. */
void smd_record_write(struct smd_record *record, const struct smd_job_status *status);

/* Ends the record that a runner has left: the job's outcome, and why; what was alive is STOPPED. */
void smd_record_amend(const struct smd_jobdir *dir, enum smd_outcome outcome, const char *message);

#endif
