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

/* For an engine to say that it takes hosts away, where it has to ask a cluster. */
#define SMD_POLICY_TELL_S 5

/*
 * An engine that takes hosts away may end replicas by signals of its own, often before their agents
 * have theirs; and its word may come before or after the agents tell of these ends. So of ends that
 * the runner has not asked for, whatever comes after the word was taken, and so was, shortly before
 * it, what may have been ended by such a signal.
 */
int smd_policy_is_taken(const struct smd_exit *end, uint64_t ended_ns, uint64_t word_ns);

/* Whether such a signal may have ended it: the word may still come. */
int smd_policy_may_be_taken(const struct smd_exit *end);

/* The budget that such an end draws from: the number of that of its exit code, or
 * `job->budgets.count` for max-restarts. */
size_t smd_policy_budget(const struct smd_job *job, const struct smd_exit *end);

/* How many restarts a budget has. */
unsigned smd_policy_budget_size(const struct smd_job *job, size_t budget);

/* What is started again when a replica of that role has failed. */
enum smd_restart_scope smd_policy_scope(const struct smd_job *job, enum smd_role role);

/* Whether the scope is started again after such an end of a replica of that role, if it has been
 * started again that often before. */
int smd_policy_restarts(const struct smd_job *job, enum smd_restart_scope scope, enum smd_role role,
	const struct smd_exit *end, const struct smd_restart_counts *counts);

/* The wait before the next restart after `restarts` of them: it doubles each time, up to the
 * maximum above. */
unsigned smd_policy_backoff_s(const struct smd_job *job, unsigned restarts);

#endif
