/* Finds the jobs whose runner's lock is free, and ends them by the last that was recorded of them.
 */
#include "orchestrator/store/abandoned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/store/database.h"
#include "orchestrator/store/last_record.h"
#include "orchestrator/store/preemption.h"
#include "orchestrator/store/runner_lock.h"
#include "worker/agent/exit_record.h"

/* google.rpc.Code */
#define CODE_CANCELLED 1
#define CODE_UNKNOWN   2

/* Jobs that have not ended and whose runner is gone. */
struct abandoned {
	int runners_fd;
	struct abandoned_job {
		enum smd_stored_kind kind;
		int64_t id;
		char *directory;
		char update_time[SMD_TIMESTAMP_SIZE];
	} * jobs;
	size_t count;
};

static int take_abandoned(void *arg, const struct smd_stored_job *job)
{
	struct abandoned *abandoned = arg;
	struct abandoned_job *last;
	void *jobs;

	if (smd_runner_lock_is_held(abandoned->runners_fd, job->id) != 0) {
		return 0;
	}
	jobs = realloc(abandoned->jobs, (abandoned->count + 1) * sizeof(*abandoned->jobs));
	if (!jobs) {
		return -ENOMEM;
	}
	abandoned->jobs = jobs;
	last = &abandoned->jobs[abandoned->count++];
	*last = (struct abandoned_job){
		.kind = job->kind, .id = job->id, .directory = strdup(job->directory)};
	snprintf(last->update_time, sizeof(last->update_time), "%s", job->update_time);
	return last->directory ? 0 : -ENOMEM;
}

static int end_by_record(
	struct smd_store *store, int64_t id, const json_t *record, struct smd_error *error)
{
	const json_t *of = json_object_get(record, "error");
	char now[SMD_TIMESTAMP_SIZE];

	smd_timestamp(now);
	return smd_database_do(&store->database, error,
		"UPDATE jobs SET state = ?, end_time = ?, update_time = ?, error_code = ?,"
		" error_message = ? WHERE id = ? AND end_time IS NULL",
		"sssisi", json_string_value(json_object_get(record, "state")),
		json_string_value(json_object_get(record, "endTime")), now,
		(int64_t)json_integer_value(json_object_get(of, "code")),
		json_string_value(json_object_get(of, "message")), id);
}

/* `reason`: for which job it made room; empty: it did not. */
static int end_without_record(
	struct smd_store *store, int64_t id, const char *reason, struct smd_error *error)
{
	char now[SMD_TIMESTAMP_SIZE];

	smd_timestamp(now);
	return smd_database_do(&store->database, error,
		"UPDATE jobs SET end_time = ?1, update_time = ?1,"
		" state = iif(cancel_time IS NULL AND ?2 = '', 'JOB_STATE_FAILED',"
		" 'JOB_STATE_CANCELLED'),"
		" error_code = iif(cancel_time IS NULL AND ?2 = '', ?3, ?4),"
		" error_message = CASE WHEN ?2 <> '' THEN ?2"
		" WHEN cancel_time IS NOT NULL THEN 'The job was cancelled.'"
		" ELSE 'Its runner ended without a word: it was killed, or the machine was"
		" restarted.' END"
		" WHERE id = ?5 AND end_time IS NULL",
		"ssiii", now, reason, (int64_t)CODE_UNKNOWN, (int64_t)CODE_CANCELLED, id);
}

static int is_cancelled(const json_t *record)
{
	const char *state = json_string_value(json_object_get(record, "state"));

	return state && strcmp(state, "JOB_STATE_CANCELLED") == 0;
}

static int end_row(
	struct smd_store *store, const struct abandoned_job *job, struct smd_error *error)
{
	char reason[SMD_PREEMPTION_REASON_SIZE] = "";
	char name[SMD_STORE_NAME_SIZE];
	json_t *record;
	int ret = 0;

	smd_store_name(name, job->kind, job->id);
	record = smd_last_record_read(job->directory, name);
	if (!record || is_cancelled(record)) {
		ret = smd_preemption_end(&store->database, job->id, reason, error);
	}
	if (ret == 0) {
		ret = record && !*reason ? end_by_record(store, job->id, record, error)
					 : end_without_record(store, job->id, reason, error);
	}
	json_decref(record);
	return ret < 0 ? ret : 0;
}

/* 1: nobody has written the row since it was read. */
static int is_as_read(
	struct smd_store *store, const struct abandoned_job *job, struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(&store->database, error,
		"SELECT 1 FROM jobs WHERE id = ? AND end_time IS NULL AND update_time = ?", "is",
		job->id, job->update_time);
	int code = row ? sqlite3_step(row) : SQLITE_ERROR;
	int ret = code == SQLITE_ROW    ? 1
		  : code == SQLITE_DONE ? 0
		  : row                 ? smd_database_fail(&store->database, error)
					: -EIO;

	sqlite3_finalize(row);
	return ret;
}

/* The lock was free after the row was read. But in between its runner may have ended it, or
 * somebody else may have settled it, and then another runner may have it by now: then it stays. */
static int end_job(
	struct smd_store *store, const struct abandoned_job *job, struct smd_error *error)
{
	int ret = smd_database_run(&store->database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	ret = is_as_read(store, job, error);
	ret = ret > 0 ? end_row(store, job, error) : ret;
	ret = ret ? ret : smd_database_run(&store->database, "COMMIT", error);
	if (ret) {
		smd_database_run(&store->database, "ROLLBACK", NULL);
	}
	return ret;
}

int smd_abandoned_end(struct smd_store *store, struct smd_error *error)
{
	struct abandoned abandoned = {.runners_fd = smd_runner_lock_open(store->state_dir)};
	int ret;

	if (abandoned.runners_fd < 0) {
		return smd_error_set(error, -abandoned.runners_fd, "%s/runners: %s",
			store->state_dir, strerror(-abandoned.runners_fd));
	}
	ret = smd_store_each_begun(store, take_abandoned, &abandoned, error);
	for (size_t i = 0; i < abandoned.count; i++) {
		ret = ret ? ret : end_job(store, &abandoned.jobs[i], error);
		free(abandoned.jobs[i].directory);
	}
	free(abandoned.jobs);
	close(abandoned.runners_fd);
	return ret;
}
