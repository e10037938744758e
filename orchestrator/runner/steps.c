/* Starts replicas, asks them to end, and takes them back for another start. */
#include "orchestrator/runner/steps.h"

#include <signal.h>

#include "orchestrator/runner/policy.h"
#include "reduction_server/base/clock.h"

void smd_run_apply(
	struct smd_run *run, struct smd_replica *replica, enum smd_replica_event event)
{
	if (smd_replica_apply(replica, event)) {
		run->changed = 1;
		run->display.dirty = 1;
		run->servers_changed |= replica->role == SMD_ROLE_REDUCTION_SERVER;
	}
}

void smd_run_start(struct smd_run *run, struct smd_replica *replica)
{
	replica->started_ns = smd_clock_ns();
	smd_hosts_start(&run->hosts, replica, smd_job_status_restarts_of(&run->status, replica));
}

void smd_run_stop(struct smd_run *run, struct smd_replica *replica)
{
	smd_hosts_end(&run->hosts, replica, SIGTERM);
	smd_run_apply(run, replica, SMD_REPLICA_EVENT_STOP);
}

void smd_run_retry(struct smd_run *run, struct smd_replica *replica)
{
	smd_jobdir_keep_exit_record(
		run->dir, replica->name, smd_job_status_restarts_of(&run->status, replica));
	smd_replica_retry(replica);
	run->changed = 1;
}

void smd_run_retry_alone(struct smd_run *run, struct smd_replica *replica)
{
	replica->restarts++;
	replica->counts.drawn[smd_policy_budget(run->status.job, &replica->end)]++;
	smd_run_retry(run, replica);
}
