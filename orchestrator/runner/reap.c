/* Takes the ends of replicas' processes, and sees to it that they do end and leave nothing. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/run.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/agent/descendants.h"

#define SECOND_NS 1000000000u

static struct smd_replica *replica_of_process(struct smd_run *run, pid_t pid)
{
	for (size_t i = 0; i < run->count; i++) {
		if (run->replicas[i].pid == pid) {
			return &run->replicas[i];
		}
	}
	return NULL;
}

static int is_replica(pid_t pid, void *run)
{
	return replica_of_process(run, pid) != NULL;
}

static void take_process(struct smd_run *run, struct smd_replica *replica, int status)
{
	smd_obituary_read(&replica->end, &run->dir, replica->name, status);
	smd_output_close(&replica->output);
	smd_run_take_end(run, replica);
}

/* A replica may stop the agent that supervises it, but not for long. */
static void take_children(struct smd_run *run)
{
	pid_t pid;
	int status;

	run->children_ended = 0;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		struct smd_replica *replica = replica_of_process(run, pid);

		if (WIFSTOPPED(status)) {
			kill(pid, SIGCONT);
			continue;
		}
		run->has_orphans |= !replica || WIFSIGNALED(status);
		if (replica) {
			replica->is_abandoned = WIFSIGNALED(status);
			take_process(run, replica, status);
		}
	}
}

/* What killed agents could not remove. */
static void clean_up(struct smd_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		struct smd_replica *replica = &run->replicas[i];
		char *name = replica->is_abandoned ? smd_run_launch_name(replica) : NULL;

		if (name) {
			run->engine->ops->clean_up(run->engine, name);
			replica->is_abandoned = 0;
		}
		free(name);
	}
}

/* Orphans end before anything else is started, and before the job does. One that is killed may
 * leave others: these are found when its own end has been taken. */
void smd_run_reap(struct smd_run *run)
{
	if (run->children_ended) {
		take_children(run);
	}
	if (run->has_orphans) {
		run->has_orphans = smd_children_kill(is_replica, run) > 0;
		if (!run->has_orphans) {
			clean_up(run);
		}
	}
}

void smd_run_end(struct smd_run *run, struct smd_replica *replica, int signo)
{
	unsigned seconds = replica->ending_max_s + (signo == SIGKILL ? 0 : run->grace_s);
	uint64_t overdue_ns = smd_clock_ns() + seconds * (uint64_t)SECOND_NS;

	if (replica->overdue_ns == 0 || overdue_ns < replica->overdue_ns) {
		replica->overdue_ns = overdue_ns;
	}
	run->engine->ops->signal(run->engine, replica->pid, signo);
}

void smd_run_end_overdue(struct smd_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		struct smd_replica *replica = &run->replicas[i];

		if (smd_replica_is_alive(replica) && replica->overdue_ns &&
			smd_clock_ns() >= replica->overdue_ns) {
			smd_log(SMD_LOG_WARN, "runner", "%s: its agent does not end; it is killed",
				replica->name);
			run->engine->ops->abandon(run->engine, replica->pid);
		}
	}
}
