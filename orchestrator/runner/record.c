/* Writes state.json, from which others learn how the job is. */
#include "orchestrator/runner/record.h"

#include <string.h>

#include "orchestrator/runner/loss.h"
#include "orchestrator/runner/obituary.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

/* google.rpc.Code */
#define CODE_CANCELLED 1
#define CODE_UNKNOWN   2

static void set_text(json_t *object, const char *key, const char *text)
{
	if (text && *text) {
		json_object_set_new(object, key, json_string(text));
	}
}

static json_t *replica_record(
	const struct smd_job_status *status, const struct smd_replica *replica)
{
	json_t *record = json_object();

	set_text(record, "name", replica->name);
	set_text(record, "role", smd_role_name(replica->role));
	set_text(record, "state", smd_replica_state_name(replica->state));
	set_text(record, "status", replica->status);
	json_object_set_new(
		record, "restarts", json_integer(smd_job_status_restarts_of(status, replica)));
	if (replica->ended_ns) {
		char sentence[SMD_OBITUARY_SIZE];

		smd_obituary_sentence(replica, sentence);
		set_text(record, "end", sentence);
	}
	if (replica->progress.is_there) {
		json_object_set_new(record, "progress", smd_replica_progress_record(&replica->progress));
	}
	if (json_object_size(replica->figures) > 0) {
		json_object_set(record, "figures", replica->figures);
	}
	if (replica->loss) {
		json_object_set_new(record, "losses", json_integer(replica->loss->count));
		set_text(record, "lastLoss", replica->loss->sentence);
	}
	return record;
}

/* google.rpc.Status; 0: no error. */
static int error_code(enum smd_outcome outcome)
{
	return outcome == SMD_OUTCOME_FAILED      ? CODE_UNKNOWN
	       : outcome == SMD_OUTCOME_CANCELLED ? CODE_CANCELLED
						  : 0;
}

static const char *error_message(enum smd_outcome outcome, const char *message)
{
	if (outcome == SMD_OUTCOME_FAILED) {
		return message ? message : "The job failed.";
	}
	return outcome == SMD_OUTCOME_CANCELLED ? "The job was cancelled." : NULL;
}

static json_t *error_record(enum smd_outcome outcome, const char *message)
{
	return error_code(outcome) ? json_pack("{s:i, s:s}", "code", error_code(outcome), "message",
					     error_message(outcome, message))
				   : NULL;
}

/* With the answer to the last request to change their number (store/scale_request.h). */
static json_t *servers_record(const struct smd_job_status *status)
{
	json_t *record = json_pack("{s:i, s:i}", "replicaCount", status->nservers, "runningCount",
		smd_job_status_serving(status));

	if (status->nreducers > 0) {
		json_object_set_new(record, "reducerCount", json_integer(status->nreducers));
	}
	set_text(record, "request", status->scale_request);
	set_text(record, "refused", status->scale_refused);
	return record;
}

/* The job is as far as the replica that is least far. */
static const struct smd_replica_progress *progress_of(const struct smd_job_status *status)
{
	const struct smd_replica_progress *least = NULL;

	for (size_t i = 0; i < status->count; i++) {
		const struct smd_replica_progress *progress = &status->replicas[i].progress;

		if (progress->is_there && (!least || smd_replica_progress_is_behind(progress, least))) {
			least = progress;
		}
	}
	return least;
}

static json_t *job_record(const struct smd_job_status *status)
{
	const struct smd_replica_progress *progress = progress_of(status);
	json_t *record = json_object();
	json_t *replicas = json_array();
	char now[SMD_TIMESTAMP_SIZE];

	smd_timestamp(now);
	set_text(record, "name", status->name);
	set_text(record, "id", status->job->id);
	set_text(record, "displayName", status->job->display_name);
	set_text(record, "state", smd_job_state_name(status));
	set_text(record, "createTime", status->create_time);
	set_text(record, "startTime", status->start_time);
	set_text(record, "endTime", status->end_time);
	set_text(record, "updateTime", now);
	json_object_set_new(record, "error", error_record(status->outcome, status->failure));
	if (progress) {
		json_object_set_new(record, "progress", smd_replica_progress_record(progress));
	}
	for (size_t i = 0; i < status->count; i++) {
		json_array_append_new(replicas, replica_record(status, &status->replicas[i]));
	}
	json_object_set_new(record, "replicas", replicas);
	if (status->left_out) {
		set_text(record, "hostsLeftOut", status->left_out);
	}
	if (smd_job_has_servers(status->job)) {
		json_object_set_new(record, "reductionServers", servers_record(status));
	}
	return record;
}

static const char *given(const char *time)
{
	return *time ? time : NULL;
}

static void write_entry(struct smd_entry *entry, const struct smd_job_status *status)
{
	const struct smd_entry_change change = {.state = smd_job_state_name(status),
		.start_time = given(status->start_time),
		.end_time = given(status->end_time),
		.error_code = error_code(status->outcome),
		.error_message = error_message(status->outcome, status->failure)};

	smd_entry_write(entry, &change);
}

void smd_record_write(struct smd_record *record, const struct smd_job_status *status)
{
	json_t *document = job_record(status);
	int ret = smd_jobdir_write_json(record->dir, SMD_RECORD, document);

	if (ret && ret != record->error) { /* once, and not each second */
		smd_log(SMD_LOG_WARN, "runner", "%s/" SMD_RECORD ": cannot be written: %s",
			record->dir->path, strerror(-ret));
	}
	record->error = ret;
	record->written_ns = smd_clock_ns();
	json_decref(document);
	if (record->entry) {
		write_entry(record->entry, status);
	}
}

static void stop_replica(json_t *replica)
{
	static const enum smd_replica_state alive[] = {
		SMD_REPLICA_STARTING, SMD_REPLICA_RUNNING, SMD_REPLICA_STOPPING};
	const char *state = json_string_value(json_object_get(replica, "state"));

	for (size_t i = 0; state && i < sizeof(alive) / sizeof(alive[0]); i++) {
		if (strcmp(state, smd_replica_state_name(alive[i])) == 0) {
			set_text(replica, "state", smd_replica_state_name(SMD_REPLICA_STOPPED));
			return;
		}
	}
}

static void amend_entry(struct smd_entry *entry, const json_t *record, enum smd_outcome outcome,
	const char *state, const char *now, const char *message)
{
	const struct smd_entry_change change = {.state = state,
		.start_time = json_string_value(json_object_get(record, "startTime")),
		.end_time = now,
		.error_code = error_code(outcome),
		.error_message = error_message(outcome, message)};

	smd_entry_write(entry, &change);
}

void smd_record_amend(const struct smd_jobdir *dir, struct smd_entry *entry,
	enum smd_outcome outcome, const char *message)
{
	json_t *record = smd_jobdir_read_json(dir, SMD_RECORD_MAX, SMD_RECORD);
	const char *state =
		outcome == SMD_OUTCOME_CANCELLED ? "JOB_STATE_CANCELLED" : "JOB_STATE_FAILED";
	char now[SMD_TIMESTAMP_SIZE];
	json_t *replica;
	size_t i;

	smd_jobdir_release(dir);
	smd_timestamp(now);
	if (entry) {
		amend_entry(entry, record, outcome, state, now, message);
	}
	if (!json_is_object(record)) {
		json_decref(record);
		return; /* there was no room for it, or a replica has removed it */
	}
	set_text(record, "state", state);
	set_text(record, "endTime", now);
	set_text(record, "updateTime", now);
	json_object_set_new(record, "error", error_record(outcome, message));
	json_array_foreach (json_object_get(record, "replicas"), i, replica) {
		stop_replica(replica);
	}
	smd_jobdir_write_json(dir, SMD_RECORD, record);
	json_decref(record);
}
