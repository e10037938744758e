/* Starts replicas' processes, hands on what they say, and sees to it that nothing of them stays. */
#include "orchestrator/runner/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "orchestrator/runner/obituary.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "worker/agent/descendants.h"

struct smd_child {
	struct smd_supervisor *supervisor;
	struct smd_replica *replica;
	pid_t pid;                /* 0: no process */
	struct smd_output output; /* in use while there is a process */
	int is_abandoned;         /* its agent was killed, and may have left something */
	unsigned ending_max_s;    /* what ending it may take after its grace period */
	uint64_t overdue_ns;      /* when it must have ended; 0: it was not asked to */
};

int smd_supervisor_open(struct smd_supervisor *supervisor)
{
	supervisor->children = calloc(supervisor->count, sizeof(*supervisor->children));
	if (!supervisor->children) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < supervisor->count; i++) {
		supervisor->children[i].supervisor = supervisor;
		supervisor->children[i].replica = &supervisor->replicas[i];
	}
	return 0;
}

void smd_supervisor_close(struct smd_supervisor *supervisor)
{
	free(supervisor->children);
}

static struct smd_child *child_of(
	const struct smd_supervisor *supervisor, const struct smd_replica *replica)
{
	return &supervisor->children[replica - supervisor->replicas];
}

static struct smd_child *child_with(const struct smd_supervisor *supervisor, pid_t pid)
{
	for (size_t i = 0; i < supervisor->count; i++) {
		if (supervisor->children[i].pid == pid) {
			return &supervisor->children[i];
		}
	}
	return NULL;
}

static int report(const struct smd_child *child, struct smd_event event)
{
	event.replica = child->replica;
	return child->supervisor->take_event(child->supervisor->arg, &event);
}

static int take_notice(void *arg, const struct smd_runner_notice *notice)
{
	static const enum smd_event_kind kinds[] = {
		[SMD_RUNNER_NOTICE_READY] = SMD_EVENT_READY,
		[SMD_RUNNER_NOTICE_STATUS] = SMD_EVENT_STATUS,
		[SMD_RUNNER_NOTICE_RESULT] = SMD_EVENT_RESULT,
	};

	return report(arg,
		(struct smd_event){
			.kind = kinds[notice->kind], .key = notice->key, .text = notice->text});
}

static int start_process(
	struct smd_child *child, const struct smd_prepared_launch *launch, unsigned restarts)
{
	struct smd_supervisor *supervisor = child->supervisor;
	struct smd_engine *engine = supervisor->launcher.engine;
	const struct smd_output_sinks sinks = {.dir = supervisor->launcher.dir,
		.log_name = launch->log,
		.append = restarts > 0,
		.log_limit = supervisor->log_limit,
		.stream = supervisor->stream,
		.console = supervisor->console,
		.replica = child->replica,
		.take_notice = take_notice,
		.arg = child};
	const struct smd_launch request =
		smd_launch_request(launch, &supervisor->launcher, child->replica);
	struct smd_process process;
	int ret = smd_output_open(&child->output, &sinks);

	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s/%s: cannot be opened: %s",
			supervisor->launcher.dir->path, launch->log, strerror(-ret));
		return ret;
	}
	ret = engine->ops->start(engine, &request, &process);
	if (ret) {
		smd_output_close(&child->output);
		return ret;
	}
	child->pid = process.pid;
	child->ending_max_s = process.ending_max_s;
	child->overdue_ns = 0;
	/* A replica that cannot be heard is still there; it is asked to end, and its end is a
	 * failure. */
	if (smd_output_attach(&child->output, supervisor->base, &process)) {
		smd_supervisor_end(supervisor, child->replica, SIGTERM);
	}
	if (supervisor->is_paused) {
		smd_output_pause(&child->output);
	}
	return 0;
}

void smd_supervisor_start(
	struct smd_supervisor *supervisor, struct smd_replica *replica, unsigned restarts)
{
	struct smd_child *child = child_of(supervisor, replica);
	struct smd_prepared_launch launch = {0};
	struct smd_event event = {.kind = SMD_EVENT_STARTED};
	struct smd_exit end = {.kind = SMD_EXIT_ERRNO};
	int ret = smd_launch_prepare(&launch, &supervisor->launcher, replica, restarts);

	ret = ret ? ret : start_process(child, &launch, restarts);
	if (ret) {
		end.value = -ret;
		smd_timestamp(end.end_time);
		event.kind = SMD_EVENT_ENDED;
		event.end = &end;
	}
	event.text = launch.program;
	report(child, event);
	smd_launch_clear(&launch);
}

void smd_supervisor_end(
	struct smd_supervisor *supervisor, const struct smd_replica *replica, int signo)
{
	struct smd_engine *engine = supervisor->launcher.engine;
	struct smd_child *child = child_of(supervisor, replica);
	unsigned grace_s = signo == SIGKILL ? 0 : supervisor->launcher.grace_s;
	uint64_t overdue_ns =
		smd_clock_ns() + (child->ending_max_s + grace_s) * (uint64_t)SMD_SECOND_NS;

	if (!child->pid) {
		return; /* it has ended, and its event says so */
	}
	if (child->overdue_ns == 0 || overdue_ns < child->overdue_ns) {
		child->overdue_ns = overdue_ns;
	}
	engine->ops->signal(engine, child->pid, signo);
}

static void take_end(struct smd_child *child, int status)
{
	struct smd_exit end;

	child->pid = 0;
	child->is_abandoned = WIFSIGNALED(status);
	smd_obituary_read(&end, child->supervisor->launcher.dir, child->replica->name, status);
	smd_output_close(&child->output);
	report(child, (struct smd_event){.kind = SMD_EVENT_ENDED, .end = &end});
}

/* A replica may stop the agent that supervises it, but not for long. */
static void reap(struct smd_supervisor *supervisor)
{
	pid_t pid;
	int status;

	supervisor->children_ended = 0;
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		struct smd_child *child = child_with(supervisor, pid);

		if (WIFSTOPPED(status)) {
			kill(pid, SIGCONT);
			continue;
		}
		supervisor->has_orphans |= !child || WIFSIGNALED(status);
		if (child) {
			take_end(child, status);
		}
	}
}

static int is_replica(pid_t pid, void *supervisor)
{
	return child_with(supervisor, pid) != NULL;
}

/* Removes what killed agents could not. */
static void clean_up(struct smd_supervisor *supervisor)
{
	struct smd_engine *engine = supervisor->launcher.engine;

	for (size_t i = 0; i < supervisor->count; i++) {
		struct smd_child *child = &supervisor->children[i];
		char *name = child->is_abandoned ? smd_launch_name(child->replica) : NULL;

		if (name) {
			engine->ops->clean_up(engine, name);
			child->is_abandoned = 0;
		}
		free(name);
	}
}

static void kill_overdue(struct smd_supervisor *supervisor)
{
	struct smd_engine *engine = supervisor->launcher.engine;

	for (size_t i = 0; i < supervisor->count; i++) {
		struct smd_child *child = &supervisor->children[i];

		if (child->pid && child->overdue_ns && smd_clock_ns() >= child->overdue_ns) {
			smd_log(SMD_LOG_WARN, "runner", "%s: its agent does not end; it is killed",
				child->replica->name);
			engine->ops->abandon(engine, child->pid);
		}
	}
}

/* Replicas wait while what they print is not read. */
static void pause_or_resume(struct smd_supervisor *supervisor)
{
	int is_full = smd_console_is_full(supervisor->console);

	if (is_full == supervisor->is_paused) {
		return;
	}
	supervisor->is_paused = is_full;
	for (size_t i = 0; i < supervisor->count; i++) {
		if (supervisor->children[i].pid) {
			(is_full ? smd_output_pause : smd_output_resume)(
				&supervisor->children[i].output);
		}
	}
}

/* Orphans end before anything else is started, and before the job does. One that is killed may
 * leave others: these are found when its own end has been taken. */
void smd_supervisor_turn(struct smd_supervisor *supervisor)
{
	if (supervisor->children_ended) {
		reap(supervisor);
	}
	if (supervisor->has_orphans) {
		supervisor->has_orphans = smd_children_kill(is_replica, supervisor) > 0;
		if (!supervisor->has_orphans) {
			clean_up(supervisor);
		}
	}
	kill_overdue(supervisor);
	pause_or_resume(supervisor);
}
