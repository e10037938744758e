/* Decides what follows from the loss of a reduction server while the job runs. */
#include "orchestrator/runner/servers.h"

#include <signal.h>
#include <stdlib.h>

#include "orchestrator/runner/announce.h"
#include "orchestrator/runner/loss.h"
#include "reduction_server/base/clock.h"

/* Ranks that fail for want of a server do so at once; it waits as long at least for its restart. */
#define CAUSE_NS SMD_SECOND_NS

static int is_server(const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_REDUCTION_SERVER;
}

int smd_servers_go_on(struct smd_run *run, struct smd_replica *replica)
{
	unsigned max = (unsigned)run->status.job->server_restarts;
	int wait_s;

	if (!is_server(replica) || replica->state == SMD_REPLICA_STOPPED || max == 0 || run->status.phase != SMD_PHASE_RUNNING ||
		run->status.decisive || smd_job_status_serving(&run->status) == 0) {
		return 0;
	}
	replica->loss = replica->loss ? replica->loss : calloc(1, sizeof(*replica->loss));
	if (!replica->loss) {
		return 0;
	}
	smd_obituary_sentence(replica, replica->loss->sentence);
	wait_s = smd_loss_take(replica->loss, smd_clock_ns(), max);
	if (wait_s >= 0 && smd_hosts_can_start(&run->hosts, replica)) {
		replica->restart_ns = smd_clock_ns() + (uint64_t)wait_s * SMD_SECOND_NS;
	}
	run->has_losses = 1;
	run->changed = 1;
	smd_announce_loss(&run->display, &run->stream, &run->status, replica, wait_s);
	return 1;
}

int smd_servers_are_cause(const struct smd_replica *replica)
{
	/* One that ended well may have been told to, with its host, as the others were. */
	return replica->loss && replica->state == SMD_REPLICA_FAILED &&
	       smd_clock_ns() - replica->loss->last_ns < CAUSE_NS;
}

void smd_servers_turn(struct smd_run *run)
{
	if (!run->has_losses || run->status.phase != SMD_PHASE_RUNNING) {
		return;
	}
	for (size_t i = 0; i < run->status.count; i++) {
		struct smd_replica *replica = &run->status.replicas[i];

		if (replica->loss && !replica->loss->is_late &&
			replica->state == SMD_REPLICA_STARTING &&
			smd_clock_ns() - replica->started_ns >=
				(uint64_t)run->ready_timeout_s * SMD_SECOND_NS) {
			replica->loss->is_late = 1;
			smd_announce_late_server(
				&run->display, &run->stream, replica, run->ready_timeout_s);
			smd_hosts_end(&run->hosts, replica, SIGKILL);
		}
	}
}

void smd_servers_reset(struct smd_run *run)
{
	run->has_losses = 0;
	for (size_t i = 0; i < run->status.count; i++) {
		free(run->status.replicas[i].loss);
		run->status.replicas[i].loss = NULL;
	}
}
