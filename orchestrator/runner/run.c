/* Takes a job through its phases. */
#include "orchestrator/runner/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/policy.h"
#include "orchestrator/runner/record.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define SECOND_NS 1000000000u

/* After a first failure others are waited for so long, before one is called the cause. */
#define SETTLE_NS 200000000u

static uint64_t seconds_from_now(uint64_t seconds)
{
	return smd_clock_ns() + seconds * SECOND_NS;
}

const char *smd_run_state_name(const struct smd_run *run)
{
	static const char *const announced[] = {
#define X(name, usual, cancelled) [SMD_RUN_##name] = usual,
		SMD_RUN_PHASES(X)
#undef X
	};
	static const char *const when_cancelled[] = {
#define X(name, usual, cancelled) [SMD_RUN_##name] = cancelled,
		SMD_RUN_PHASES(X)
#undef X
	};

	if (run->outcome == SMD_OUTCOME_CANCELLED) {
		return when_cancelled[run->phase];
	}
	if (run->phase == SMD_RUN_ENDED) {
		return run->outcome == SMD_OUTCOME_SUCCEEDED ? "JOB_STATE_SUCCEEDED"
							     : "JOB_STATE_FAILED";
	}
	return announced[run->phase];
}

void smd_run_say(struct smd_run *run, const char *severity, const char *text)
{
	smd_stream_say(&run->stream, SMD_STREAM_SERVICE, severity, text, strlen(text));
}

/* The sentences of the message; what replicas have said themselves is in the stream already. */
static void say_failure(struct smd_run *run)
{
	const char *line = run->failure ? run->failure : "Job failed.";

	while (*line) {
		size_t length = strcspn(line, "\n");

		if (*line != ' ') {
			smd_stream_say(&run->stream, SMD_STREAM_SERVICE, "ERROR", line, length);
		}
		line += length + (line[length] == '\n');
	}
}

/* The sentences are those of Vertex AI. */
static void say_phase(struct smd_run *run, enum smd_run_phase phase)
{
	if (phase == SMD_RUN_PREPARING) {
		smd_run_say(run, "INFO", "Job is preparing.");
	} else if (phase == SMD_RUN_RUNNING) {
		smd_run_say(run, "INFO", "Job is running.");
	} else if (phase == SMD_RUN_ENDED && run->outcome == SMD_OUTCOME_SUCCEEDED) {
		smd_run_say(run, "INFO", "Job completed successfully.");
	} else if (phase == SMD_RUN_ENDED && run->outcome == SMD_OUTCOME_CANCELLED) {
		smd_run_say(run, "INFO", "Job was cancelled.");
	} else if (phase == SMD_RUN_ENDED) {
		say_failure(run);
	}
}

/* The sole writer of the phase. What is announced is on disk first. */
static void set_phase(struct smd_run *run, enum smd_run_phase phase)
{
	run->phase = phase;
	if (phase == SMD_RUN_RUNNING && !run->start_time[0]) {
		smd_timestamp(run->start_time);
	} else if (phase == SMD_RUN_ENDED) {
		smd_timestamp(run->end_time);
		run->ended_ns = smd_clock_ns();
		smd_jobdir_release(&run->dir);
	}
	smd_run_record(run);
	say_phase(run, phase);
	smd_log(SMD_LOG_DEBUG, "runner", "%s", smd_run_state_name(run));
}

void smd_run_apply(struct smd_run *run, struct smd_replica *replica, enum smd_replica_event event)
{
	if (smd_replica_apply(replica, event)) {
		run->changed = 1;
		run->display.dirty = 1;
	}
}

/* Whether this end decides the job's outcome, as long as that is open. */
static int is_decisive(struct smd_run *run, struct smd_replica *replica)
{
	if (replica->state == SMD_REPLICA_FAILED) {
		return !smd_run_schedule_replica(run, replica);
	}
	return replica->state == SMD_REPLICA_SUCCEEDED &&
	       (replica->role == SMD_ROLE_REDUCTION_SERVER ||
		       smd_policy_is_success(run->job, run->replicas, run->count));
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

/*
 * Whether `replica` decides rather than the one found so far: the one that ended first does. Only,
 * when one is killed the others soon end by themselves, because they miss it, and may even be seen
 * first; so of two failures that settle together, the killed one is the cause.
 */
static int comes_before(const struct smd_replica *replica, const struct smd_replica *found)
{
	if (replica->state == SMD_REPLICA_FAILED && found->state == SMD_REPLICA_FAILED &&
		was_killed(replica) != was_killed(found)) {
		return was_killed(replica);
	}
	return strcmp(replica->end.end_time, found->end.end_time) < 0;
}

static void take_decisive(struct smd_run *run, const struct smd_replica *replica)
{
	if (!run->decisive || comes_before(replica, run->decisive)) {
		run->decisive = replica;
	}
	if (run->settled_ns == 0) {
		run->settled_ns = smd_clock_ns() + SETTLE_NS;
	}
}

void smd_run_take_end(struct smd_run *run, struct smd_replica *replica)
{
	const struct smd_exit *end = &replica->end;
	int ok = end->kind == SMD_EXIT_CODE && end->value == 0;
	char sentence[SMD_OBITUARY_SIZE];

	replica->pid = 0;
	replica->ended_ns = smd_clock_ns();
	smd_run_apply(run, replica, ok ? SMD_REPLICA_EVENT_EXIT_OK : SMD_REPLICA_EVENT_EXIT_BAD);
	if (replica->status_is_new) {
		smd_display_change(&run->display, replica, "%s", replica->status);
		replica->status_is_new = 0;
	}
	smd_obituary_sentence(replica, sentence);
	if (end->kind == SMD_EXIT_ERRNO) {
		smd_display_change(&run->display, replica, "%s", sentence);
	} else {
		smd_display_change(&run->display, replica, "%s%s after %.1f s",
			replica->state == SMD_REPLICA_STOPPED ? "stopped: " : "", sentence,
			smd_replica_elapsed(replica));
	}
	if (run->outcome == SMD_OUTCOME_OPEN && is_decisive(run, replica)) {
		take_decisive(run, replica);
	}
}

enum group { SERVERS, OTHERS };

static int is_of(const struct smd_replica *replica, enum group group)
{
	return smd_replica_is_server(replica) == (group == SERVERS);
}

static int any_alive(const struct smd_run *run, enum group group)
{
	for (size_t i = 0; i < run->count; i++) {
		if (is_of(&run->replicas[i], group) && smd_replica_is_alive(&run->replicas[i])) {
			return 1;
		}
	}
	return 0;
}

/* A replica that could not be started decides the outcome: no more are started then. */
static void launch(struct smd_run *run, enum group group)
{
	for (size_t i = 0; i < run->count && !run->decisive; i++) {
		if (is_of(&run->replicas[i], group)) {
			smd_run_launch(run, &run->replicas[i]);
		}
	}
}

static void stop(struct smd_run *run, enum group group)
{
	for (size_t i = 0; i < run->count; i++) {
		struct smd_replica *replica = &run->replicas[i];

		if (is_of(replica, group) && smd_replica_is_alive(replica) &&
			replica->state != SMD_REPLICA_STOPPING) {
			smd_run_end(run, replica, SIGTERM);
			smd_run_apply(run, replica, SMD_REPLICA_EVENT_STOP);
		}
	}
}

static void kill_all(struct smd_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		if (smd_replica_is_alive(&run->replicas[i])) {
			smd_run_end(run, &run->replicas[i], SIGKILL);
		}
	}
}

static int servers_are_running(const struct smd_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		if (is_of(&run->replicas[i], SERVERS) &&
			run->replicas[i].state != SMD_REPLICA_RUNNING) {
			return 0;
		}
	}
	return 1;
}

static void describe_end(const struct smd_run *run, FILE *text)
{
	const struct smd_exit *end = &run->decisive->end;
	int ended_well = end->kind == SMD_EXIT_CODE && end->value == 0;
	char sentence[SMD_OBITUARY_SIZE];

	smd_obituary_sentence(run->decisive, sentence);
	fprintf(text, "The replica %s %s%s.\n", run->decisive->name, sentence,
		ended_well ? " before the job ended" : "");
	smd_obituary_print_tail(run->decisive, &run->dir, text);
}

static void describe_late(const struct smd_run *run, FILE *text)
{
	for (size_t i = 0; i < run->count; i++) {
		const struct smd_replica *replica = &run->replicas[i];

		if (replica->state == SMD_REPLICA_STARTING || replica->restart_ns) {
			fprintf(text, "The replica %s was not ready within %u second%s.\n",
				replica->name, run->ready_timeout_s,
				run->ready_timeout_s == 1 ? "" : "s");
			smd_obituary_print_tail(replica, &run->dir, text);
		}
	}
}

static void describe_timeout(const struct smd_run *run, FILE *text)
{
	fprintf(text, "The job did not end within its timeout of %lld second%s.\n",
		(long long)run->job->timeout_s, run->job->timeout_s == 1 ? "" : "s");
}

static void fail(struct smd_run *run, void (*describe)(const struct smd_run *, FILE *))
{
	size_t length;
	FILE *text = open_memstream(&run->failure, &length);

	if (text) {
		describe(run, text);
		fclose(text);
	}
	run->outcome = SMD_OUTCOME_FAILED;
	run->changed = 1;
}

static void describe_wait(const struct smd_run *run, FILE *text)
{
	fprintf(text, "The job was not running within its maxWaitDuration of %lld second%s.\n",
		(long long)run->job->max_wait_s, run->job->max_wait_s == 1 ? "" : "s");
}

static int is_over(const struct smd_run *run, int64_t limit_s)
{
	return limit_s > 0 && (smd_clock_ns() - run->started_ns) / SECOND_NS >= (uint64_t)limit_s;
}

static void settle(struct smd_run *run)
{
	if (is_success(run->decisive)) {
		run->outcome = SMD_OUTCOME_SUCCEEDED;
	} else if (smd_clock_ns() < run->settled_ns) {
		return;
	} else if (smd_run_may_restart(run)) {
		run->outcome = SMD_OUTCOME_RESTART;
	} else {
		fail(run, describe_end);
	}
}

/* Decides the outcome, once; only an interruption overrides a success, which it cuts short, and a
 * restart. */
static void decide(struct smd_run *run)
{
	int is_final = run->outcome == SMD_OUTCOME_SUCCEEDED || run->outcome == SMD_OUTCOME_FAILED;

	if (run->interruptions > 0 && run->outcome != SMD_OUTCOME_FAILED) {
		run->outcome = SMD_OUTCOME_CANCELLED;
	} else if (is_final || run->outcome == SMD_OUTCOME_CANCELLED) {
		return;
	} else if (run->outcome == SMD_OUTCOME_OPEN && run->decisive) {
		settle(run);
	} else if (is_over(run, run->job->timeout_s)) {
		fail(run, describe_timeout);
	} else if (run->phase == SMD_RUN_PREPARING && smd_clock_ns() >= run->deadline_ns &&
		   !servers_are_running(run)) {
		fail(run, describe_late);
	} else if (!run->start_time[0] && is_over(run, run->job->max_wait_s)) {
		fail(run, describe_wait);
	}
}

static void begin_stopping(struct smd_run *run)
{
	set_phase(run, SMD_RUN_STOPPING);
	stop(run, OTHERS);
	if (run->outcome != SMD_OUTCOME_SUCCEEDED) {
		stop(run, SERVERS);
	}
}

static void begin_attempt(struct smd_run *run)
{
	run->deadline_ns = seconds_from_now(run->ready_timeout_s);
	set_phase(run, SMD_RUN_PREPARING);
	launch(run, SERVERS);
}

/* Nothing of the attempt runs any more. */
static void end_attempt(struct smd_run *run)
{
	unsigned wait_s = smd_policy_backoff_s(run->job, run->restarts);
	char sentence[SMD_OBITUARY_SIZE];
	char notice[2 * SMD_OBITUARY_SIZE];

	if (run->outcome != SMD_OUTCOME_RESTART) {
		set_phase(run, SMD_RUN_ENDED);
		return;
	}
	smd_obituary_sentence(run->decisive, sentence);
	snprintf(notice, sizeof(notice), "%s %s: restart %u of %d in %u s", run->decisive->name,
		sentence, run->restarts + 1, run->job->max_restarts, wait_s);
	smd_display_print(&run->display, "%s", notice);
	smd_run_say(run, "WARNING", notice);
	run->deadline_ns = seconds_from_now(wait_s);
	set_phase(run, SMD_RUN_RESTARTING);
}

/* One step, if one is due; true when the phase changed. */
static int advance(struct smd_run *run)
{
	enum smd_run_phase before = run->phase;

	decide(run);
	switch (run->phase) {
	case SMD_RUN_PREPARING:
		if (run->outcome != SMD_OUTCOME_OPEN) {
			begin_stopping(run);
		} else if (servers_are_running(run)) {
			set_phase(run, SMD_RUN_RUNNING);
			launch(run, OTHERS);
		}
		break;
	case SMD_RUN_RUNNING:
		if (run->outcome == SMD_OUTCOME_SUCCEEDED) {
			run->deadline_ns = seconds_from_now(run->grace_s);
			set_phase(run, SMD_RUN_FINISHING);
		} else if (run->outcome != SMD_OUTCOME_OPEN) {
			begin_stopping(run);
		}
		break;
	case SMD_RUN_FINISHING:
		if (!any_alive(run, OTHERS) || run->outcome != SMD_OUTCOME_SUCCEEDED ||
			smd_clock_ns() >= run->deadline_ns) {
			begin_stopping(run);
		}
		break;
	case SMD_RUN_STOPPING:
		if (!any_alive(run, OTHERS)) {
			set_phase(run, SMD_RUN_DRAINING);
			stop(run, SERVERS);
		}
		break;
	case SMD_RUN_DRAINING:
		if (!any_alive(run, SERVERS) && !run->has_orphans) {
			end_attempt(run);
		}
		break;
	case SMD_RUN_RESTARTING:
		if (run->outcome != SMD_OUTCOME_RESTART) {
			set_phase(run, SMD_RUN_ENDED);
		} else if (smd_clock_ns() >= run->deadline_ns) {
			smd_run_reset(run);
			begin_attempt(run);
		}
		break;
	case SMD_RUN_ENDED:
	case SMD_RUN_PHASE_COUNT:
		break;
	}
	return run->phase != before;
}

void smd_run_begin(struct smd_run *run)
{
	run->started_ns = smd_clock_ns();
	begin_attempt(run);
	smd_run_turn(run);
}

void smd_run_give_up(struct smd_run *run, const char *reason)
{
	run->failure = strdup(reason);
	run->outcome = SMD_OUTCOME_FAILED;
	set_phase(run, SMD_RUN_ENDED);
}

void smd_run_turn(struct smd_run *run)
{
	int killing = run->interruptions > 1;

	smd_run_reap(run);
	smd_run_end_overdue(run);
	smd_run_restart_replicas(run);
	while (advance(run)) {
	}
	if (killing && run->phase != SMD_RUN_ENDED) {
		stop(run, OTHERS);
		stop(run, SERVERS);
		kill_all(run);
	}
	smd_stream_flush(&run->stream);
	if (run->changed && smd_clock_ns() - run->recorded_ns >= SECOND_NS) {
		smd_run_record(run);
	}
}
