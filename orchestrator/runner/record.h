/*
 * How the job is, for others to look up: state.json in its directory (specs/design/runner.md, "The
 * job directory"), and its row in the job store (specs/design/jobs-store.md).
 */
#ifndef SMD_RUNNER_RECORD_H
#define SMD_RUNNER_RECORD_H

#include "orchestrator/runner/job_status.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/store/entry.h"

struct smd_record {
	const struct smd_jobdir *dir;
	struct smd_entry *entry; /* NULL: the store does not have the job */
	uint64_t written_ns;     /* 0: never */
	int error;               /* why the last one could not be written; 0: it was */
};

/* Writes both. */
void smd_record_write(struct smd_record *record, const struct smd_job_status *status);

/* Ends the records that a runner has left: the job's outcome, and why; what was alive is STOPPED.
 */
void smd_record_amend(const struct smd_jobdir *dir, struct smd_entry *entry,
	enum smd_outcome outcome, const char *message);

#endif
