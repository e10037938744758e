/* Starts again what has failed: one replica, or the whole job. */
#include <stdio.h>
#include <stdlib.h>

#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/policy.h"
#include "orchestrator/runner/run.h"
#include "reduction_server/base/clock.h"

#define SECOND_NS 1000000000u

static int is_left(const struct smd_run *run, unsigned restarts)
{
	return restarts < (unsigned)run->job->max_restarts;
}

int smd_run_schedule_replica(struct smd_run *run, struct smd_replica *replica)
{
	unsigned wait_s = smd_policy_backoff_s(run->job, replica->restarts);

	if (smd_policy_scope(run->job, replica->role) != SMD_RESTART_REPLICA ||
		!smd_policy_retries(run->job, &replica->end) || !is_left(run, replica->restarts)) {
		return 0;
	}
	replica->restart_ns = smd_clock_ns() + wait_s * (uint64_t)SECOND_NS;
	smd_display_change(&run->display, replica, "restart %u of %d in %u s",
		replica->restarts + 1, run->job->max_restarts, wait_s);
	return 1;
}

/* The record of the attempt before this one is kept beside the new one. */
static void keep_exit_record(const struct smd_run *run, const struct smd_replica *replica)
{
	char *record = smd_jobdir_path(&run->dir, "exits/%s.json", replica->name);
	char *kept = smd_jobdir_path(
		&run->dir, "exits/%s.%u.json", replica->name, run->restarts + replica->restarts);

	if (record && kept) {
		rename(record, kept);
	}
	free(kept);
	free(record);
}

static void retry(struct smd_run *run, struct smd_replica *replica)
{
	keep_exit_record(run, replica);
	smd_replica_retry(replica);
	run->changed = 1;
}

void smd_run_restart_replicas(struct smd_run *run)
{
	if (run->outcome != SMD_OUTCOME_OPEN || run->decisive || run->has_orphans) {
		return;
	}
	for (size_t i = 0; i < run->count; i++) {
		struct smd_replica *replica = &run->replicas[i];

		if (replica->restart_ns && smd_clock_ns() >= replica->restart_ns) {
			replica->restarts++;
			retry(run, replica);
			smd_run_launch(run, replica);
		}
	}
}

int smd_run_may_restart(const struct smd_run *run)
{
	const struct smd_replica *cause = run->decisive;

	return cause->state == SMD_REPLICA_FAILED &&
	       smd_policy_scope(run->job, cause->role) == SMD_RESTART_JOB &&
	       smd_policy_retries(run->job, &cause->end) && is_left(run, run->restarts);
}

void smd_run_reset(struct smd_run *run)
{
	run->restarts++;
	run->outcome = SMD_OUTCOME_OPEN;
	run->decisive = NULL;
	run->settled_ns = 0;
	for (size_t i = 0; i < run->count; i++) {
		if (run->replicas[i].ended_ns) {
			retry(run, &run->replicas[i]);
		}
	}
}
