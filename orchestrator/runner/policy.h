/*
 * What follows from a replica's end: whether the job has succeeded, and whether there is another
 * attempt (specs/design/runner.md, "Success" and "Restarts"). Pure functions.
 */
#ifndef SMD_RUNNER_POLICY_H
#define SMD_RUNNER_POLICY_H

#include "orchestrator/job/job.h"
#include "orchestrator/runner/replica.h"

#define SMD_POLICY_BACKOFF_MAX_S 300

/* Whether the job has succeeded with the replicas that have so far. */
int smd_policy_is_success(
	const struct smd_job *job, const struct smd_replica *replicas, size_t count);

/* Whether such an end allows another attempt, regardless of their number. */
int smd_policy_retries(const struct smd_job *job, const struct smd_exit *end);

/* What is started again when a replica of that role has failed. */
enum smd_restart_scope smd_policy_scope(const struct smd_job *job, enum smd_role role);

/* Whether the scope is started again after such an end of a replica of that role, if it has been
 * started again `restarts` times before. */
int smd_policy_restarts(const struct smd_job *job, enum smd_restart_scope scope, enum smd_role role,
	const struct smd_exit *end, unsigned restarts);

/* The wait before the next restart after `restarts` of them: it doubles each time, up to the
 * maximum above. */
unsigned smd_policy_backoff_s(const struct smd_job *job, unsigned restarts);

#endif
