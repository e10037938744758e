/* Decides by the first end that counts. */
#include "orchestrator/runner/outcome.h"

#include <string.h>

#include "orchestrator/runner/announce.h"
#include "orchestrator/runner/failure.h"
#include "orchestrator/runner/policy.h"
#include "orchestrator/runner/servers.h"
#include "reduction_server/base/clock.h"

/* How long to wait for further failures before one is called the cause. */
#define SETTLE_NS 200000000u

/* Whether a replica that has failed is restarted alone; if so, its restart is scheduled. */
static int schedule_restart(struct smd_run *run, struct smd_replica *replica)
{
	const struct smd_job *job = run->status.job;
	unsigned wait_s = smd_policy_backoff_s(job, replica->restarts);

	if (!smd_policy_restarts(job, SMD_RESTART_REPLICA, replica->role, &replica->end,
		    &replica->counts)) {
		return 0;
	}
	smd_hosts_blame(&run->hosts, replica);
	if (!smd_hosts_can_start(&run->hosts, replica)) {
		return 0;
	}
	replica->restart_ns = smd_clock_ns() + (uint64_t)wait_s * SMD_SECOND_NS;
	smd_announce_replica_restart(&run->display, job, replica, wait_s);
	return 1;
}

/* Whether this end decides the job's outcome, as long as that is open. */
static int is_decisive(struct smd_run *run, struct smd_replica *replica)
{
	const struct smd_job_status *status = &run->status;

	if (smd_servers_go_on(run, replica)) {
		return 0;
	}
	if (replica->state == SMD_REPLICA_FAILED) {
		return !schedule_restart(run, replica);
	}
	return replica->state == SMD_REPLICA_SUCCEEDED &&
	       (replica->role == SMD_ROLE_REDUCTION_SERVER ||
		       smd_policy_is_success(status->job, status->replicas, status->count));
}

/* The outcome that the decisive end leads to, if nothing overrides it. */
static int is_success(const struct smd_replica *decisive)
{
	return decisive->state == SMD_REPLICA_SUCCEEDED &&
	       decisive->role != SMD_ROLE_REDUCTION_SERVER;
}

static int was_killed(const struct smd_replica *replica)
{
	return replica->end.kind == SMD_EXIT_SIGNAL;
}

/* With its host or its keeper, for which no server that was lost before can be the cause. */
static int was_lost_itself(const struct smd_replica *replica)
{
	return replica->end.is_lost && !replica->loss;
}

/*
 * Whether `replica` decides rather than the one found so far: the earlier end does. But when one
 * replica is killed, the others soon end by themselves because they lose a peer, and their ends may
 * even be seen first; so of two failures that settle together, the killed replica is the cause.
 */
static int comes_before(const struct smd_replica *replica, const struct smd_replica *found)
{
	if ((found->loss && was_lost_itself(replica)) ||
		(replica->loss && was_lost_itself(found))) {
		return was_lost_itself(replica);
	}
	if (replica->state == SMD_REPLICA_FAILED && found->state == SMD_REPLICA_FAILED &&
		was_killed(replica) != was_killed(found)) {
		return was_killed(replica);
	}
	return strcmp(replica->end.end_time, found->end.end_time) < 0;
}

static void take_decisive(struct smd_run *run, const struct smd_replica *replica)
{
	if (!run->status.decisive || comes_before(replica, run->status.decisive)) {
		run->status.decisive = replica;
	}
	if (run->settled_ns == 0) {
		run->settled_ns = smd_clock_ns() + SETTLE_NS;
		run->told_ns = smd_clock_ns() + SMD_POLICY_TELL_S * SMD_SECOND_NS;
	}
}

/* Replicas that fail right after a server was lost may have needed it. */
static void take_losses(struct smd_run *run)
{
	for (size_t i = 0; run->has_losses && i < run->status.count; i++) {
		if (smd_servers_are_cause(&run->status.replicas[i])) {
			take_decisive(run, &run->status.replicas[i]);
		}
	}
}

void smd_outcome_take_end(struct smd_run *run, struct smd_replica *replica)
{
	if (run->status.outcome != SMD_OUTCOME_OPEN || !is_decisive(run, replica)) {
		return;
	}
	take_decisive(run, replica);
	if (replica->state == SMD_REPLICA_FAILED && replica->role != SMD_ROLE_REDUCTION_SERVER) {
		take_losses(run);
	}
}

void smd_outcome_fail(struct smd_run *run, char *message)
{
	run->status.failure = smd_redaction_apply(run->hosts.redaction, message);
	run->status.outcome = SMD_OUTCOME_FAILED;
	run->changed = 1;
}

static int is_over(uint64_t since_ns, int64_t limit_s)
{
	return limit_s > 0 && since_ns > 0 &&
	       (smd_clock_ns() - since_ns) / SMD_SECOND_NS >= (uint64_t)limit_s;
}

/* Whether the whole job is started again after the decisive end: also where replicas are restarted
 * alone, when their host is lost. */
static int may_restart(const struct smd_run *run)
{
	const struct smd_replica *cause = run->status.decisive;
	const struct smd_job *job = run->status.job;
	enum smd_restart_scope scope = smd_hosts_can_start(&run->hosts, cause)
					       ? SMD_RESTART_JOB
					       : smd_policy_scope(job, cause->role);

	return cause->state == SMD_REPLICA_FAILED && !run->hosts.is_final &&
	       smd_policy_restarts(job, scope, cause->role, &cause->end, &run->status.counts);
}

/* Hosts that were there before may come back: to wait for them costs restarts, as their loss does. */
static int may_ask_again(const struct smd_run *run)
{
	const struct smd_job *job = run->status.job;
	const struct smd_exit *cause = smd_job_status_cause(&run->status);
	enum smd_role role = SMD_ROLE_CHIEF;

	return run->status.restarts > 0 && !run->hosts.is_final &&
	       smd_policy_restarts(
		       job, smd_policy_scope(job, role), role, cause, &run->status.counts);
}

static int is_to_be_told(const struct smd_run *run)
{
	const struct smd_exit *end = &run->status.decisive->end;

	return (end->is_lost || smd_policy_may_be_taken(end)) && run->hosts.engine->ops->can_wait &&
	       run->hosts.ending_ns == 0 && smd_clock_ns() < run->told_ns;
}

/* An agent that has lost its runner ends its replicas, and may find that out before the runner finds
 * the host silent; then the others' failures are seen before their cause. */
static int may_have_lost_host(const struct smd_run *run)
{
	return !run->status.decisive->end.is_lost && smd_hosts_may_lose_one(&run->hosts);
}

static void settle(struct smd_run *run)
{
	if (is_success(run->status.decisive)) {
		run->status.outcome = SMD_OUTCOME_SUCCEEDED;
		smd_hosts_praise(&run->hosts);
		return;
	}
	if (smd_clock_ns() < run->settled_ns || is_to_be_told(run) || may_have_lost_host(run)) {
		return;
	}
	smd_hosts_blame(&run->hosts, run->status.decisive);
	if (may_restart(run)) {
		run->status.outcome = SMD_OUTCOME_RESTART;
	} else {
		smd_outcome_fail(run, smd_failure_of_end(&run->status, run->dir));
	}
}

void smd_outcome_decide(struct smd_run *run)
{
	int is_final = run->status.outcome == SMD_OUTCOME_SUCCEEDED ||
		       run->status.outcome == SMD_OUTCOME_FAILED;

	if (run->status.interruptions > 0 && run->status.outcome != SMD_OUTCOME_FAILED) {
		run->status.outcome = SMD_OUTCOME_CANCELLED;
	} else if (is_final || run->status.outcome == SMD_OUTCOME_CANCELLED) {
		return;
	} else if (run->status.outcome == SMD_OUTCOME_OPEN && run->status.decisive) {
		settle(run);
	} else if (run->status.phase == SMD_PHASE_ALLOCATING && run->no_hosts) {
		if (may_ask_again(run)) {
			run->status.outcome = SMD_OUTCOME_RESTART;
		} else {
			smd_outcome_fail(run, smd_failure_of_hosts(run->no_hosts));
		}
	} else if (is_over(run->limit_ns, run->status.job->timeout_s)) {
		smd_outcome_fail(run, smd_failure_of_timeout(run->status.job));
	} else if (run->status.phase == SMD_PHASE_PREPARING && smd_clock_ns() >= run->deadline_ns &&
		   !smd_job_status_servers_run(&run->status)) {
		smd_outcome_fail(run,
			smd_failure_of_late_servers(&run->status, run->dir, run->ready_timeout_s));
	} else if (!run->status.start_time[0] &&
		   is_over(run->status.started_ns, run->status.job->max_wait_s)) {
		smd_outcome_fail(run, smd_failure_of_wait(run->status.job));
	}
}
