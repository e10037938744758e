/* Puts what the runner has to say into words. The sentences about phases are those of Vertex AI. */
#include "orchestrator/runner/announce.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/runner/loss.h"
#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/policy.h"

#define RESTART_SIZE 64

static void say(struct smd_stream *stream, const char *severity, const char *text)
{
	smd_stream_say(stream, SMD_STREAM_SERVICE, severity, text, strlen(text));
}

/* Only the sentences: the replicas' own lines, which are indented, are in the stream already. */
static void say_failure(struct smd_stream *stream, const char *message)
{
	while (*message) {
		size_t length = strcspn(message, "\n");

		if (*message != ' ') {
			smd_stream_say(stream, SMD_STREAM_SERVICE, "ERROR", message, length);
		}
		message += length + (message[length] == '\n');
	}
}

static void say_outcome(struct smd_stream *stream, const struct smd_job_status *status)
{
	if (status->outcome == SMD_OUTCOME_SUCCEEDED) {
		say(stream, "INFO", "Job completed successfully.");
	} else if (status->outcome == SMD_OUTCOME_CANCELLED) {
		say(stream, "INFO", "Job was cancelled.");
	} else {
		say_failure(stream, status->failure ? status->failure : "Job failed.");
	}
}

void smd_announce_phase(struct smd_stream *stream, const struct smd_job_status *status)
{
	if (status->phase == SMD_PHASE_PREPARING) {
		say(stream, "INFO", "Job is preparing.");
	} else if (status->phase == SMD_PHASE_RUNNING) {
		say(stream, "INFO", "Job is running.");
	} else if (status->phase == SMD_PHASE_ENDED) {
		say_outcome(stream, status);
	}
}

void smd_announce_end(struct smd_display *display, struct smd_replica *replica)
{
	char sentence[SMD_OBITUARY_SIZE];

	if (replica->status_is_new) {
		smd_display_change(display, replica, "%s", replica->status);
		replica->status_is_new = 0;
	}
	smd_obituary_sentence(replica, sentence);
	if (replica->end.kind == SMD_EXIT_ERRNO) {
		smd_display_change(display, replica, "%s", sentence);
	} else {
		smd_display_change(display, replica, "%s%s after %.1f s",
			replica->state == SMD_REPLICA_STOPPED ? "stopped: " : "", sentence,
			smd_replica_elapsed(replica));
	}
}

void smd_announce_interrupt(
	struct smd_display *display, struct smd_stream *stream, int signo, unsigned grace_s)
{
	char text[SMD_OBITUARY_SIZE];

	snprintf(text, sizeof(text),
		"interrupted: replicas have up to %u s to end; %s ends them at once", grace_s,
		signo == SIGINT ? "Ctrl-C once more" : "a second signal");
	smd_display_print(display, "%s", text);
	say(stream, "NOTICE", text);
}

static int any_is_alive(const struct smd_job_status *status)
{
	for (size_t i = 0; i < status->count; i++) {
		if (smd_replica_is_alive(&status->replicas[i])) {
			return 1;
		}
	}
	return 0;
}

void smd_announce_stopping(
	struct smd_display *display, const struct smd_job_status *status, unsigned grace_s)
{
	char sentence[SMD_OBITUARY_SIZE];

	if (!display->is_brief || status->outcome != SMD_OUTCOME_FAILED || !status->decisive ||
		!any_is_alive(status)) {
		return;
	}
	smd_obituary_sentence(status->decisive, sentence);
	smd_display_print(display, "%s %s; the others have up to %u s to end",
		status->decisive->name, sentence, grace_s);
}

/* Of the budget that the end draws from. */
static void write_restart(char text[RESTART_SIZE], const struct smd_job *job,
	const struct smd_exit *end, const struct smd_restart_counts *counts, unsigned wait_s)
{
	size_t budget = smd_policy_budget(job, end);

	snprintf(text, RESTART_SIZE, "restart %u of %u in %u s", counts->drawn[budget] + 1,
		smd_policy_budget_size(job, budget), wait_s);
}

void smd_announce_replica_restart(struct smd_display *display, const struct smd_job *job,
	const struct smd_replica *replica, unsigned wait_s)
{
	char sentence[SMD_OBITUARY_SIZE];
	char next[RESTART_SIZE];

	write_restart(next, job, &replica->end, &replica->counts, wait_s);
	if (display->is_brief) {
		smd_obituary_sentence(replica, sentence);
		smd_display_print(display, "%s %s: %s", replica->name, sentence, next);
	} else {
		smd_display_change(display, replica, "%s", next);
	}
}

static void say_loss_before(
	struct smd_display *display, struct smd_stream *stream, const struct smd_replica *replica)
{
	char text[2 * SMD_OBITUARY_SIZE];

	snprintf(text, sizeof(text), "before that, the reduction server %s %s", replica->name,
		replica->loss->sentence);
	smd_display_print(display, "%s", text);
	say(stream, "WARNING", text);
}

void smd_announce_restart(struct smd_display *display, struct smd_stream *stream,
	const struct smd_job_status *status, const char *no_hosts, unsigned wait_s)
{
	const struct smd_replica *cause = status->decisive;
	char sentence[SMD_OBITUARY_SIZE];
	char text[2 * SMD_OBITUARY_SIZE];
	char next[RESTART_SIZE];

	write_restart(next, status->job, smd_job_status_cause(status), &status->counts, wait_s);
	if (cause) {
		smd_obituary_sentence(cause, sentence);
		snprintf(text, sizeof(text), "%s %s: %s", cause->name, sentence, next);
	} else {
		snprintf(text, sizeof(text), "%s: %s", no_hosts ? no_hosts : "no hosts", next);
	}
	smd_display_print(display, "%s", text);
	say(stream, "WARNING", text);
	for (size_t i = 0; i < status->count; i++) {
		if (status->replicas[i].loss && &status->replicas[i] != cause) {
			say_loss_before(display, stream, &status->replicas[i]);
		}
	}
}

static void say_next(const struct smd_job_status *status, const struct smd_replica *replica,
	int wait_s, char *text, size_t size)
{
	if (wait_s < 0) {
		snprintf(text, size, "it stays down after %u restarts within %d minutes",
			replica->loss->restarts, SMD_LOSS_WINDOW_S / 60);
	} else if (replica->restart_ns) {
		snprintf(text, size, "it is started again in %d s (%u of %d)", wait_s,
			replica->loss->restarts, status->job->server_restarts);
	} else {
		snprintf(text, size, "its host is gone, and it is not started on another");
	}
}

void smd_announce_loss(struct smd_display *display, struct smd_stream *stream,
	const struct smd_job_status *status, const struct smd_replica *replica, int wait_s)
{
	char next[128];
	char text[2 * SMD_OBITUARY_SIZE];

	say_next(status, replica, wait_s, next, sizeof(next));
	snprintf(text, sizeof(text),
		"%s %s: training goes on with the other %d of %d reduction servers; %s",
		replica->name, replica->loss->sentence, smd_job_status_serving(status),
		status->nservers, next);
	smd_display_print(display, "%s", text);
	say(stream, "WARNING", text);
}

void smd_announce_late_server(struct smd_display *display, struct smd_stream *stream,
	const struct smd_replica *replica, unsigned timeout_s)
{
	char text[SMD_OBITUARY_SIZE];

	snprintf(text, sizeof(text), "%s was not ready within %u s after its restart, and is ended",
		replica->name, timeout_s);
	smd_display_print(display, "%s", text);
	say(stream, "WARNING", text);
}

void smd_announce_return(struct smd_display *display, struct smd_stream *stream,
	const struct smd_job_status *status, const struct smd_replica *replica)
{
	char text[SMD_OBITUARY_SIZE];

	snprintf(text, sizeof(text), "%s serves%s", replica->name,
		smd_job_status_was_told(status, replica)
			? " again: ranks take it in where they can"
			: ": ranks take it in where they can");
	smd_display_print(display, "%s", text);
	say(stream, "INFO", text);
}

void smd_announce_scaling(struct smd_display *display, struct smd_stream *stream, const char *text)
{
	smd_display_print(display, "%s", text);
	say(stream, "NOTICE", text);
}

void smd_announce_left_out(
	struct smd_display *display, struct smd_stream *stream, const char *hosts)
{
	char *text;

	if (asprintf(&text, "hosts left out, because replicas have failed there: %s", hosts) >= 0) {
		smd_display_print(display, "%s", text);
		say(stream, "WARNING", text);
		free(text);
	}
}

void smd_announce_absent(struct smd_display *display, struct smd_stream *stream, const char *reason)
{
	char text[2 * SMD_OBITUARY_SIZE];

	snprintf(text, sizeof(text), "left out, because the other hosts suffice: %s", reason);
	smd_display_print(display, "%s", text);
	say(stream, "WARNING", text);
}

void smd_announce_waiting(
	struct smd_display *display, struct smd_stream *stream, const char *reason)
{
	char text[2 * SMD_OBITUARY_SIZE];

	snprintf(text, sizeof(text), "waiting for hosts: %s", reason);
	smd_display_print(display, "%s", text);
	say(stream, "INFO", text);
}

void smd_announce_lost_host(
	struct smd_display *display, struct smd_stream *stream, const char *reason)
{
	smd_display_print(display, "%s", reason);
	say(stream, "WARNING", reason);
}
