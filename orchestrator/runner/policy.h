/*
 * What follows from a replica's end: whose success is the job's, and which ends are followed by
 * another attempt (specs/design/runner.md, "Success" and "Restarts"). Pure: reads and decides, does
 * nothing.
 */
#ifndef SMD_RUNNER_POLICY_H
#define SMD_RUNNER_POLICY_H

#include "orchestrator/job/job.h"
#include "orchestrator/runner/replica.h"

#define SMD_POLICY_BACKOFF_MAX_S 300

/* Whether the replicas' successes so far are the job's. */
int smd_policy_is_success(
	const struct smd_job *job, const struct smd_replica *replicas, size_t count);

/* Whether such an end is worth another attempt, however many there have been. */
int smd_policy_retries(const struct smd_job *job, const struct smd_exit *end);

/* What is started again when a replica of that role has failed. */
enum smd_restart_scope smd_policy_scope(const struct smd_job *job, enum smd_role role);

/* Whether that much is started again when a replica of that role has ended so, and that much has
 * been started again `restarts` times. */
int smd_policy_restarts(const struct smd_job *job, enum smd_restart_scope scope, enum smd_role role,
	const struct smd_exit *end, unsigned restarts);

/* How long to wait after `restarts` of them: each time twice as long, up to the maximum above. */
unsigned smd_policy_backoff_s(const struct smd_job *job, unsigned restarts);

#endif
