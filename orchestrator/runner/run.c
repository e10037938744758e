/* Takes a job through its phases. */
#include "orchestrator/runner/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/announce.h"
#include "orchestrator/runner/failure.h"
#include "orchestrator/runner/guard.h"
#include "orchestrator/runner/outcome.h"
#include "orchestrator/runner/policy.h"
#include "orchestrator/runner/reducers.h"
#include "orchestrator/runner/server_list.h"
#include "orchestrator/runner/servers.h"
#include "orchestrator/runner/steps.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

static uint64_t seconds_from_now(uint64_t seconds)
{
	return smd_clock_ns() + seconds * SMD_SECOND_NS;
}

static void write_record(struct smd_run *run)
{
	smd_record_write(&run->record, &run->status);
	run->changed = 0;
}

/* The sole writer of the phase. What is announced is on disk first. */
static void set_phase(struct smd_run *run, enum smd_job_phase phase)
{
	run->status.phase = phase;
	if (phase == SMD_PHASE_RUNNING && !run->status.start_time[0]) {
		smd_timestamp(run->status.start_time);
	} else if (phase == SMD_PHASE_ENDED) {
		smd_timestamp(run->status.end_time);
		run->status.ended_ns = smd_clock_ns();
		smd_jobdir_release(run->dir);
	}
	smd_trace_take_phase(&run->trace, &run->status);
	/* These two say nothing new. */
	if (phase != SMD_PHASE_ALLOCATING && phase != SMD_PHASE_RELEASING) {
		write_record(run);
	}
	smd_announce_phase(&run->stream, &run->status);
	smd_log(SMD_LOG_DEBUG, "runner", "%s", smd_job_state_name(&run->status));
}

static void set_program(struct smd_replica *replica, const char *program)
{
	if (program) {
		free(replica->program);
		replica->program = strdup(program);
	}
}

static void take_launched(struct smd_run *run, struct smd_replica *replica, const char *program)
{
	set_program(replica, program);
	smd_run_apply(run, replica, SMD_REPLICA_EVENT_LAUNCHED);
}

static void take_started(struct smd_run *run, struct smd_replica *replica)
{
	smd_display_change(&run->display, replica, "started");
	if (replica->role != SMD_ROLE_REDUCTION_SERVER) {
		smd_run_apply(run, replica, SMD_REPLICA_EVENT_READY);
	}
}

static void take_ready(struct smd_run *run, struct smd_replica *replica, const char *address)
{
	if (replica->state == SMD_REPLICA_STARTING) {
		smd_run_apply(run, replica, SMD_REPLICA_EVENT_READY);
		smd_display_change(
			&run->display, replica, "ready%s%s", *address ? " at " : "", address);
		if (run->status.phase == SMD_PHASE_RUNNING &&
			replica->role == SMD_ROLE_REDUCTION_SERVER) {
			smd_announce_return(&run->display, &run->stream, &run->status, replica);
		}
	}
}

static void take_end(
	struct smd_run *run, struct smd_replica *replica, const struct smd_event *event)
{
	/* What ends because its host is taken away has not done its work, whatever it says. */
	int ok = event->end->kind == SMD_EXIT_CODE && event->end->value == 0 &&
		 !event->end->is_lost;

	set_program(replica, event->text);
	replica->end = *event->end;
	replica->ended_ns = smd_clock_ns();
	smd_run_apply(run, replica, ok ? SMD_REPLICA_EVENT_EXIT_OK : SMD_REPLICA_EVENT_EXIT_BAD);
	smd_trace_take_end(&run->trace, &run->status, replica);
	smd_announce_end(&run->display, replica);
	smd_outcome_take_end(run, replica);
}

static void set_no_hosts(struct smd_run *run, const char *reason)
{
	if (!run->no_hosts) {
		run->no_hosts = strdup(reason);
	}
}

static void forget_no_hosts(struct smd_run *run)
{
	free(run->no_hosts);
	run->no_hosts = NULL;
}

static void set_left_out(struct smd_run *run, const char *hosts)
{
	free(run->status.left_out);
	run->status.left_out = hosts ? strdup(hosts) : NULL;
	run->changed = 1;
	if (hosts) {
		smd_announce_left_out(&run->display, &run->stream, hosts);
	}
}

/* As those that cool down: the job runs without it. */
static void add_absent(struct smd_run *run, const char *reason)
{
	const char *before = run->status.left_out;
	char *text;

	if (asprintf(&text, "%s%s%s", before ? before : "", before ? "; " : "", reason) >= 0) {
		free(run->status.left_out);
		run->status.left_out = text;
		run->changed = 1;
	}
	smd_announce_absent(&run->display, &run->stream, reason);
}

static void take_host_event(struct smd_run *run, const struct smd_event *event)
{
	switch (event->kind) {
	case SMD_EVENT_WAITING:
		smd_announce_waiting(&run->display, &run->stream, event->text);
		break;
	case SMD_EVENT_LEFT_OUT:
		set_left_out(run, event->text);
		break;
	case SMD_EVENT_ABSENT:
		add_absent(run, event->text);
		break;
	case SMD_EVENT_PLACED:
		run->is_placed = 1;
		break;
	case SMD_EVENT_NO_HOSTS:
		set_no_hosts(run, event->text);
		break;
	case SMD_EVENT_HOST_LOST:
		set_no_hosts(run, event->text);
		smd_announce_lost_host(&run->display, &run->stream, event->text);
		break;
	case SMD_EVENT_RELEASED:
		run->is_released = 1;
		break;
	default:
		break;
	}
}

int smd_run_take_event(void *arg, const struct smd_event *event)
{
	struct smd_run *run = arg;
	struct smd_replica *replica = event->replica;

	if (!replica) {
		take_host_event(run, event);
		return 0;
	}
	switch (event->kind) {
	case SMD_EVENT_LAUNCHED:
		take_launched(run, replica, event->text);
		break;
	case SMD_EVENT_STARTED:
		take_started(run, replica);
		break;
	case SMD_EVENT_READY:
		take_ready(run, replica, event->text);
		break;
	case SMD_EVENT_STATUS:
		snprintf(replica->status, sizeof(replica->status), "%s", event->text);
		replica->status_is_new = *replica->status != '\0';
		run->display.dirty = 1;
		break;
	case SMD_EVENT_RESULT:
		return smd_replica_set_result(replica, event->key, event->text);
	case SMD_EVENT_FIGURE:
		run->changed = 1;
		return smd_replica_set_figure(replica, event->key, event->text);
	case SMD_EVENT_PROGRESS:
		run->changed = 1;
		return smd_replica_progress_take(&replica->progress, event->text, smd_clock_ns());
	case SMD_EVENT_ENDED:
		take_end(run, replica, event);
		break;
	default:
		break;
	}
	return 0;
}

void smd_run_interrupt(struct smd_run *run, int signo)
{
	if (run->status.interruptions++ == 0 && run->status.phase != SMD_PHASE_ENDED) {
		run->interrupted_by = signo;
		smd_announce_interrupt(&run->display, &run->stream, signo, run->grace_s);
	}
}

enum group { SERVERS, OTHERS };

static int is_of(const struct smd_replica *replica, enum group group)
{
	return smd_replica_is_server(replica) == (group == SERVERS);
}

static int any_alive(const struct smd_run *run, enum group group)
{
	for (size_t i = 0; i < run->status.count; i++) {
		if (is_of(&run->status.replicas[i], group) &&
			smd_replica_is_alive(&run->status.replicas[i])) {
			return 1;
		}
	}
	return 0;
}

/* A replica that could not be started decides the outcome: no more are started then. */
static void start_group(struct smd_run *run, enum group group)
{
	for (size_t i = 0; i < run->status.count && !run->status.decisive; i++) {
		if (is_of(&run->status.replicas[i], group) &&
			smd_job_status_wants(&run->status, &run->status.replicas[i])) {
			smd_run_start(run, &run->status.replicas[i]);
		}
	}
}

static void stop(struct smd_run *run, enum group group)
{
	for (size_t i = 0; i < run->status.count; i++) {
		struct smd_replica *replica = &run->status.replicas[i];

		if (is_of(replica, group) && smd_replica_is_alive(replica) &&
			replica->state != SMD_REPLICA_STOPPING) {
			smd_run_stop(run, replica);
		}
	}
}

static void kill_all(struct smd_run *run)
{
	for (size_t i = 0; i < run->status.count; i++) {
		if (smd_replica_is_alive(&run->status.replicas[i])) {
			smd_hosts_end(&run->hosts, &run->status.replicas[i], SIGKILL);
		}
	}
}

void smd_run_lose_guard(struct smd_run *run, pid_t guard)
{
	if (run->status.interruptions == 0 && run->status.phase != SMD_PHASE_ENDED &&
		run->status.outcome != SMD_OUTCOME_FAILED) {
		smd_outcome_fail(run, smd_failure_of_guard(guard));
	}
	if (run->status.interruptions < 2) {
		run->status.interruptions = 2;
		run->interrupted_by = SMD_GUARD_DEATH_SIGNAL;
	}
}

static void begin_stopping(struct smd_run *run)
{
	set_phase(run, SMD_PHASE_STOPPING);
	smd_announce_stopping(&run->display, &run->status, run->grace_s);
	stop(run, OTHERS);
	if (run->status.outcome != SMD_OUTCOME_SUCCEEDED) {
		stop(run, SERVERS);
	}
}

/* Starts the replicas whose time has come. */
static void restart_replicas(struct smd_run *run)
{
	if (run->status.outcome != SMD_OUTCOME_OPEN || run->status.decisive) {
		return;
	}
	for (size_t i = 0; i < run->status.count; i++) {
		struct smd_replica *replica = &run->status.replicas[i];

		if (replica->restart_ns && smd_clock_ns() >= replica->restart_ns &&
			smd_hosts_can_start(&run->hosts, replica)) {
			smd_run_retry_alone(run, replica);
			smd_run_start(run, replica);
		}
	}
}

/* Forgets the last attempt; every replica is PENDING then. */
static void reset(struct smd_run *run)
{
	run->status.restarts++;
	run->status.counts.drawn[smd_policy_budget(run->status.job, smd_job_status_cause(&run->status))]++;
	run->status.outcome = SMD_OUTCOME_OPEN;
	run->status.decisive = NULL;
	run->settled_ns = 0;
	smd_servers_reset(run);
	for (size_t i = 0; i < run->status.count; i++) {
		if (run->status.replicas[i].ended_ns) {
			smd_run_retry(run, &run->status.replicas[i]);
		}
	}
}

static void begin_preparing(struct smd_run *run)
{
	run->deadline_ns = seconds_from_now(run->ready_timeout_s);
	set_phase(run, SMD_PHASE_PREPARING);
	start_group(run, SERVERS);
}

/* Hosts that are there already are used again. */
static void begin_attempt(struct smd_run *run)
{
	struct smd_error error = {""};

	if (run->is_placed && run->prepare_attempt(run->arg, &error)) {
		smd_outcome_fail(run, smd_failure_of_hosts(error.text));
		return;
	}
	if (run->is_placed) {
		begin_preparing(run);
		return;
	}
	smd_scaling_forget(run);
	forget_no_hosts(run);
	run->is_releasing = 0;
	run->is_released = 0;
	set_phase(run, SMD_PHASE_ALLOCATING);
	if (smd_hosts_allocate(&run->hosts, &error)) {
		set_no_hosts(run, error.text);
	}
}

/* All hosts are there. */
static void begin_on_hosts(struct smd_run *run)
{
	struct smd_error error = {""};

	if (run->limit_ns == 0) {
		run->limit_ns = smd_clock_ns();
	}
	if (smd_reducers_add(run, &error) || run->prepare_attempt(run->arg, &error)) {
		set_no_hosts(run, error.text);
	} else {
		begin_preparing(run);
	}
}

/* The job's last attempt, or its last one on these hosts, is over. */
static void begin_releasing(struct smd_run *run)
{
	set_phase(run, SMD_PHASE_RELEASING);
	smd_hosts_release(&run->hosts);
}

/* A host was lost while nothing ran: the next attempt begins on others. */
static void give_hosts_back(struct smd_run *run)
{
	if (!run->is_releasing) {
		run->is_releasing = 1;
		run->is_released = 0;
		smd_hosts_release(&run->hosts);
	}
	if (run->is_released) {
		run->is_placed = 0;
	}
}

static int keeps_hosts(const struct smd_run *run)
{
	return run->status.outcome == SMD_OUTCOME_RESTART && !run->hosts.has_lost;
}

/* Nothing of the attempt runs any more. */
static void end_attempt(struct smd_run *run)
{
	unsigned wait_s = smd_policy_backoff_s(run->status.job, run->status.restarts);

	if (run->status.outcome != SMD_OUTCOME_RESTART) {
		set_phase(run, SMD_PHASE_ENDED);
		return;
	}
	smd_announce_restart(&run->display, &run->stream, &run->status, run->no_hosts, wait_s);
	run->deadline_ns = seconds_from_now(wait_s);
	set_phase(run, SMD_PHASE_RESTARTING);
}

/* One step, if one is due; true when the phase changed. */
static int advance(struct smd_run *run)
{
	enum smd_job_phase before = run->status.phase;

	smd_outcome_decide(run);
	switch (run->status.phase) {
	case SMD_PHASE_ALLOCATING:
		if (run->status.outcome != SMD_OUTCOME_OPEN) {
			begin_releasing(run);
		} else if (run->is_placed) {
			begin_on_hosts(run);
		}
		break;
	case SMD_PHASE_PREPARING:
		if (run->status.outcome != SMD_OUTCOME_OPEN) {
			begin_stopping(run);
		} else if (smd_job_status_servers_run(&run->status)) {
			set_phase(run, SMD_PHASE_RUNNING);
			start_group(run, OTHERS);
		}
		break;
	case SMD_PHASE_RUNNING:
		if (run->status.outcome == SMD_OUTCOME_SUCCEEDED) {
			run->deadline_ns = seconds_from_now(run->grace_s);
			set_phase(run, SMD_PHASE_FINISHING);
		} else if (run->status.outcome != SMD_OUTCOME_OPEN) {
			begin_stopping(run);
		}
		break;
	case SMD_PHASE_FINISHING:
		if (!any_alive(run, OTHERS) || run->status.outcome != SMD_OUTCOME_SUCCEEDED ||
			smd_clock_ns() >= run->deadline_ns) {
			begin_stopping(run);
		}
		break;
	case SMD_PHASE_STOPPING:
		if (!any_alive(run, OTHERS)) {
			set_phase(run, SMD_PHASE_DRAINING);
			stop(run, SERVERS);
		}
		break;
	case SMD_PHASE_DRAINING:
		if (any_alive(run, SERVERS)) {
			break;
		}
		if (keeps_hosts(run)) {
			end_attempt(run);
		} else {
			begin_releasing(run);
		}
		break;
	case SMD_PHASE_RELEASING:
		if (run->is_released) {
			run->is_placed = 0;
			end_attempt(run);
			forget_no_hosts(run);
		}
		break;
	case SMD_PHASE_RESTARTING:
		if (run->status.outcome != SMD_OUTCOME_RESTART) {
			begin_releasing(run);
		} else if (run->is_placed && run->hosts.has_lost) {
			give_hosts_back(run);
		} else if (smd_clock_ns() >= run->deadline_ns) {
			reset(run);
			begin_attempt(run);
		}
		break;
	case SMD_PHASE_ENDED:
	case SMD_PHASE_COUNT:
		break;
	}
	return run->status.phase != before;
}

void smd_run_begin(struct smd_run *run)
{
	run->status.started_ns = smd_clock_ns();
	/* Time in a queue is no part of it. */
	run->limit_ns = run->hosts.engine->ops->can_wait ? 0 : run->status.started_ns;
	begin_attempt(run);
	smd_run_turn(run);
}

void smd_run_give_up(struct smd_run *run, const char *reason)
{
	run->status.failure = strdup(reason);
	run->status.outcome = SMD_OUTCOME_FAILED;
	set_phase(run, SMD_PHASE_ENDED);
}

void smd_run_turn(struct smd_run *run)
{
	int killing = run->status.interruptions > 1;

	smd_hosts_turn(&run->hosts);
	restart_replicas(run);
	smd_servers_turn(run);
	smd_scaling_turn(run);
	smd_server_list_turn(run); /* ranks that are started now read it */
	while (advance(run)) {
	}
	if (killing && run->status.phase != SMD_PHASE_ENDED) {
		stop(run, OTHERS);
		stop(run, SERVERS);
		kill_all(run);
	}
	smd_stream_flush(&run->stream);
	smd_console_flush(&run->console);
	if (run->changed && smd_clock_ns() - run->record.written_ns >= SMD_SECOND_NS) {
		write_record(run);
	}
}
