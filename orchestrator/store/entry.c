/* Adds a job's row, and changes it. */
#include "orchestrator/store/entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "orchestrator/store/database.h"
#include "orchestrator/store/preemption.h"
#include "orchestrator/store/process.h"
#include "orchestrator/store/queue.h"
#include "orchestrator/store/runner_lock.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/log.h"

#define ID_MIN    INT64_C(1000000000000000000) /* 19 digits */
#define ID_COUNT  UINT64_C(8000000000000000000)
#define IDS_MAX   16 /* to try */
#define NEW_STATE "JOB_STATE_PENDING"
#define NO_LABELS "{}"

int smd_entry_draw_id(int64_t *id, struct smd_error *error)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		return smd_error_set(error, EIO, "a random number is needed: %s", strerror(errno));
	}
	*id = ID_MIN + (int64_t)(number % ID_COUNT);
	return 0;
}

/* An id that no job has or is about to have; the entry holds its lock then. */
static int take_id(struct smd_entry *entry, struct smd_error *error)
{
	for (int i = 0; i < IDS_MAX; i++) {
		int ret = smd_entry_draw_id(&entry->id, error);

		if (ret) {
			return ret;
		}
		entry->lock_fd = smd_runner_lock_take(entry->state_dir, entry->id);
		if (entry->lock_fd != -EAGAIN) {
			break;
		}
	}
	return entry->lock_fd >= 0 ? 0
				   : smd_error_set(error, -entry->lock_fd,
					     "%s/runners: must be writable and take locks: %s",
					     entry->state_dir, strerror(-entry->lock_fd));
}

/* The row, the spec, and that earlier jobs no longer have the directory: all or nothing. */
static int insert(const struct smd_database *database, const struct smd_entry *entry,
	enum smd_stored_kind kind, const char *display_name, const char *directory,
	const char *labels, const char *resource, struct smd_error *error)
{
	int ret = smd_database_run(database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	ret = smd_database_do(database, error, "UPDATE jobs SET directory = '' WHERE directory = ?",
		"s", directory);
	ret = ret ? ret
		  : smd_database_do(database, error,
			    "INSERT INTO jobs (id, display_name, state, create_time, update_time,"
			    " labels, directory, kind)"
			    " VALUES (?, ?, '" NEW_STATE "', ?, ?, ?, ?, ?)",
			    "isssssi", entry->id, display_name, entry->create_time,
			    entry->create_time, labels, directory, (int64_t)kind);
	ret = ret ? ret
		  : smd_database_do(database, error,
			    "INSERT INTO specs (id, resource) VALUES (?, ?)", "is", entry->id,
			    resource);
	ret = ret ? ret : smd_database_run(database, "COMMIT", error);
	if (ret) {
		smd_database_run(database, "ROLLBACK", NULL);
	}
	return ret;
}

static int add(struct smd_entry *entry, enum smd_stored_kind kind, const json_t *resource,
	const char *display_name, const char *directory, struct smd_error *error)
{
	const json_t *map = json_object_get(resource, "labels");
	char *labels = json_is_object(map) ? json_dumps(map, JSON_COMPACT) : strdup(NO_LABELS);
	char *text = json_dumps(resource, JSON_COMPACT | JSON_REAL_PRECISION(17));
	struct smd_database database;
	int ret = labels && text ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	ret = ret ? ret : smd_database_open(&database, entry->state_dir, error);
	if (!ret) {
		ret = insert(&database, entry, kind, display_name, directory, labels, text, error);
		smd_database_close(&database);
	}
	free(labels);
	free(text);
	return ret;
}

int smd_entry_open(struct smd_entry *entry, enum smd_stored_kind kind, const json_t *resource,
	const char *display_name, const char *directory, struct smd_error *error)
{
	int ret;

	*entry = (struct smd_entry){.lock_fd = -1, .state = NEW_STATE};
	smd_timestamp(entry->create_time);
	ret = smd_state_dir_open(&entry->state_dir, error);
	ret = ret ? ret : take_id(entry, error);
	if (!ret) {
		smd_store_name(entry->name, kind, entry->id);
		memcpy(entry->shown_name, entry->name, sizeof(entry->shown_name));
		ret = add(entry, kind, resource, display_name, directory, error);
	}
	if (ret) {
		smd_entry_close(entry);
	}
	return ret;
}

static int keep_directory(struct smd_entry *entry, const char *directory, struct smd_error *error)
{
	if (!*directory) {
		return 0;
	}
	entry->directory = strdup(directory);
	return entry->directory ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
}

/* -EALREADY: it does not wait any more. */
static int read_queued(struct smd_entry *entry, struct smd_error *error)
{
	struct smd_database database;
	sqlite3_stmt *row;
	int ret = smd_database_open(&database, entry->state_dir, error);

	if (ret) {
		return ret;
	}
	row = smd_database_prepare(&database, error,
		"SELECT create_time, kind, directory, update_time, project, location FROM jobs WHERE id = ?"
		" AND state = '" SMD_STATE_QUEUED "'",
		"i", entry->id);
	if (row && sqlite3_step(row) == SQLITE_ROW) {
		snprintf(entry->create_time, sizeof(entry->create_time), "%s",
			(const char *)sqlite3_column_text(row, 0));
		snprintf(entry->queue_time, sizeof(entry->queue_time), "%s",
			(const char *)sqlite3_column_text(row, 3));
		smd_store_name(
			entry->name, (enum smd_stored_kind)sqlite3_column_int(row, 1), entry->id);
		smd_stored_job_name(entry->shown_name,
			&(struct smd_stored_job){.id = entry->id,
				.kind = (enum smd_stored_kind)sqlite3_column_int(row, 1),
				.project = (const char *)sqlite3_column_text(row, 4),
				.location = (const char *)sqlite3_column_text(row, 5)});
		ret = keep_directory(entry, (const char *)sqlite3_column_text(row, 2), error);
	} else {
		ret = smd_error_set(error, EALREADY, "it waits no longer");
	}
	sqlite3_finalize(row);
	smd_database_close(&database);
	return ret;
}

int smd_entry_open_queued(struct smd_entry *entry, int64_t id, struct smd_error *error)
{
	int ret;

	*entry = (struct smd_entry){.id = id, .lock_fd = -1, .state = SMD_STATE_QUEUED};
	ret = smd_state_dir_open(&entry->state_dir, error);
	if (!ret) {
		entry->lock_fd = smd_runner_lock_take(entry->state_dir, id);
		ret = entry->lock_fd >= 0 ? 0
		      : entry->lock_fd == -EAGAIN
			      ? smd_error_set(error, EAGAIN,
					"another runner has the job, and this one is not needed")
			      : smd_error_set(error, -entry->lock_fd, "%s/runners: %s",
					entry->state_dir, strerror(-entry->lock_fd));
	}
	ret = ret ? ret : read_queued(entry, error);
	if (ret) {
		smd_entry_close(entry);
	}
	return ret;
}

/* The row, and that neither the queue has the spec nor earlier jobs the directory. */
static int begin(const struct smd_database *database, const struct smd_entry *entry,
	const char *directory, const char *devices, struct smd_error *error)
{
	char now[SMD_TIMESTAMP_SIZE];
	int ret = smd_database_run(database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	smd_timestamp(now);
	ret = smd_database_do(database, error, "UPDATE jobs SET directory = '' WHERE directory = ?",
		"s", directory);
	ret = ret ? ret
		  : smd_database_do(database, error,
			    "UPDATE jobs SET state = '" NEW_STATE "', directory = ?,"
			    " update_time = ? WHERE id = ? AND state = '" SMD_STATE_QUEUED "'",
			    "ssi", directory, now, entry->id);
	if (!ret && sqlite3_changes(database->connection) != 1) {
		ret = smd_error_set(error, EALREADY, "it waits no longer");
	}
	ret = ret ? ret
		  : smd_database_do(database, error,
			    "UPDATE queue SET devices = ?, spec = CASE preemption WHEN ? THEN spec"
			    " END WHERE id = ?",
			    "sii", devices, (int64_t)SMD_PREEMPTION_REQUEUE, entry->id);
	ret = ret ? ret : smd_database_run(database, "COMMIT", error);
	if (ret) {
		smd_database_run(database, "ROLLBACK", NULL);
	}
	return ret;
}

int smd_entry_begin(struct smd_entry *entry, const char *directory, const char *devices,
	struct smd_error *error)
{
	struct smd_database database;
	int ret = smd_database_open(&database, entry->state_dir, error);

	if (ret) {
		return ret;
	}
	ret = begin(&database, entry, directory, devices, error);
	smd_database_close(&database);
	if (!ret) {
		snprintf(entry->state, sizeof(entry->state), "%s", NEW_STATE);
	}
	return ret;
}

void smd_entry_close(struct smd_entry *entry)
{
	if (entry->lock_fd >= 0) {
		close(entry->lock_fd);
	}
	free(entry->state_dir);
	free(entry->directory);
	entry->state_dir = NULL;
	entry->directory = NULL;
	entry->lock_fd = -1;
}

static int is_cancelled(
	const struct smd_database *database, int64_t id, int *cancelled, struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(database, error,
		"SELECT cancel_time IS NOT NULL OR preempted_by IS NOT NULL"
		" FROM jobs j LEFT JOIN queue q ON q.id = j.id WHERE j.id = ?",
		"i", id);
	int ret = 0;

	if (!row) {
		return -EIO;
	}
	if (sqlite3_step(row) == SQLITE_ROW) {
		*cancelled = sqlite3_column_int(row, 0);
	} else {
		ret = smd_database_fail(database, error);
	}
	sqlite3_finalize(row);
	return ret;
}

/* Whoever cancels the job after this finds the guard; who has cancelled it before is found here. */
static int write_guard(const struct smd_entry *entry, const struct smd_process_mark *mark,
	int *cancelled, struct smd_error *error)
{
	struct smd_database database;
	int ret = smd_database_open(&database, entry->state_dir, error);

	if (ret) {
		return ret;
	}
	ret = smd_database_do(&database, error,
		"UPDATE jobs SET guard_pid = ?, guard_start = ?, guard_boot = ? WHERE id = ?",
		"iisi", mark->pid, mark->start, mark->boot, entry->id);
	ret = ret ? ret : is_cancelled(&database, entry->id, cancelled, error);
	smd_database_close(&database);
	return ret;
}

int smd_entry_take(struct smd_entry *entry)
{
	struct smd_process_mark mark;
	struct smd_error error = {""};
	int cancelled = 0;
	int ret = smd_process_mark_own(&mark);

	ret = ret ? smd_error_set(&error, -ret, "/proc/self/stat: %s", strerror(-ret))
		  : write_guard(entry, &mark, &cancelled, &error);
	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "`cancel` will not find this job's runner: %s",
			error.text);
	}
	return ret ? ret : cancelled;
}

static int update(const struct smd_database *database, const struct smd_entry *entry,
	const struct smd_entry_change *change, const char *message, struct smd_error *error)
{
	char now[SMD_TIMESTAMP_SIZE];

	smd_timestamp(now);
	return smd_database_do(database, error,
		"UPDATE jobs SET state = ?, start_time = ?, end_time = ?, update_time = ?,"
		" error_code = ?, error_message = ? WHERE id = ? AND end_time IS NULL",
		"ssssisi", change->state, change->start_time, change->end_time, now,
		(int64_t)change->error_code, message, entry->id);
}

/* A job that was asked to end may have been asked by another one, which needs its room. */
static int end_cancelled(const struct smd_database *database, struct smd_entry *entry,
	const struct smd_entry_change *change, struct smd_error *error)
{
	char reason[SMD_PREEMPTION_REASON_SIZE];
	int ret = smd_database_run(database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	ret = smd_preemption_end(database, entry->id, reason, error);
	entry->waits_again = ret > 0;
	if (ret == 0) {
		ret = update(database, entry, change, *reason ? reason : change->error_message, error);
	}
	ret = ret < 0 ? ret : smd_database_run(database, "COMMIT", error);
	if (ret) {
		smd_database_run(database, "ROLLBACK", NULL);
	}
	return ret;
}

static int write_change(struct smd_entry *entry, const struct smd_entry_change *change,
	struct smd_error *error)
{
	struct smd_database database;
	int ret = smd_database_open(&database, entry->state_dir, error);

	if (ret) {
		return ret;
	}
	ret = strcmp(change->state, "JOB_STATE_CANCELLED") == 0
		      ? end_cancelled(&database, entry, change, error)
		      : update(&database, entry, change, change->error_message, error);
	smd_database_close(&database);
	return ret;
}

void smd_entry_write(struct smd_entry *entry, const struct smd_entry_change *change)
{
	struct smd_error error = {""};
	int ret;

	if (entry->is_ended || strcmp(entry->state, change->state) == 0) {
		return;
	}
	ret = write_change(entry, change, &error);
	if (ret && ret != entry->error) {
		smd_log(SMD_LOG_WARN, "runner",
			"the job store has not been told that the job is %s: %s", change->state,
			error.text);
	}
	entry->error = ret;
	if (!ret) {
		snprintf(entry->state, sizeof(entry->state), "%s", change->state);
		entry->is_ended = change->end_time != NULL;
	}
}
