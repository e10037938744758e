/* Has running jobs make room, and puts them back into the queue. */
#include "orchestrator/store/preemption.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/store/process.h"
#include "orchestrator/store/queue.h"

#define CANCELLING "JOB_STATE_CANCELLING"

/* ---- the beginning ---- */

static struct smd_process_mark guard_of(sqlite3_stmt *row, int column)
{
	struct smd_process_mark guard = {.pid = sqlite3_column_int64(row, column),
		.start = sqlite3_column_int64(row, column + 1)};
	const char *boot = (const char *)sqlite3_column_text(row, column + 2);

	snprintf(guard.boot, sizeof(guard.boot), "%s", boot ? boot : "");
	return guard;
}

/* 1: the guard is in `guard`, with pid 0 if it has none yet; 0: there is none of that id. */
static int read_guard(const struct smd_database *database, int64_t id,
	struct smd_process_mark *guard, struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(database, error,
		"SELECT coalesce(guard_pid, 0), guard_start, guard_boot FROM jobs WHERE id = ?", "i",
		id);
	int ret = row ? 0 : -EIO;
	int code = row ? sqlite3_step(row) : SQLITE_ERROR;

	if (code == SQLITE_ROW) {
		*guard = guard_of(row, 0);
		ret = 1;
	} else if (row && code != SQLITE_DONE) {
		ret = smd_database_fail(database, error);
	}
	sqlite3_finalize(row);
	return ret;
}

/* A guard that is not there yet finds the mark when it records itself. */
static int signal_guard(int64_t id, const struct smd_process_mark *guard, struct smd_error *error)
{
	int ret = guard->pid ? smd_process_signal(guard, SIGTERM) : 0;

	return ret ? smd_error_set(error, -ret, "%" PRId64 ": its runner, process %" PRId64 ": %s", id,
			     guard->pid, strerror(-ret))
		   : 0;
}

int smd_queue_preempt(struct smd_store *store, int64_t id, int64_t other, struct smd_error *error)
{
	struct smd_process_mark guard;
	int ret = smd_database_do(&store->database, error,
		"UPDATE queue SET preempted_by = ?1 WHERE id = ?2 AND preempted_by IS NULL"
		" AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = ?2 AND end_time IS NULL"
		" AND state <> '" SMD_STATE_QUEUED "' AND cancel_time IS NULL)",
		"ii", other, id);

	if (ret) {
		return ret;
	}
	if (sqlite3_changes(store->database.connection) == 0) {
		return -EALREADY;
	}
	ret = read_guard(&store->database, id, &guard, error);
	return ret > 0 ? signal_guard(id, &guard, error) : ret;
}

int smd_queue_preemptions(struct smd_store *store, int64_t id, struct smd_preemptions *out,
	struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(&store->database, error,
		"SELECT coalesce(preempted_by, 0), preemptions, coalesce(last_preempted_by, 0),"
		" coalesce(last_preemption_time, '') FROM queue JOIN jobs USING (id)"
		" WHERE id = ?",
		"i", id);
	int code = row ? sqlite3_step(row) : SQLITE_ERROR;
	int ret = 0;

	*out = (struct smd_preemptions){.count = 0};
	if (code == SQLITE_ROW) {
		out->makes_room_for = sqlite3_column_int64(row, 0);
		out->count = (unsigned)sqlite3_column_int(row, 1);
		out->last_by = sqlite3_column_int64(row, 2);
		snprintf(out->last_time, sizeof(out->last_time), "%s",
			(const char *)sqlite3_column_text(row, 3));
	} else if (code != SQLITE_DONE) {
		ret = row ? smd_database_fail(&store->database, error) : -EIO;
	}
	sqlite3_finalize(row);
	return ret;
}

int smd_queue_preempt_again(struct smd_store *store, struct smd_error *error)
{
	sqlite3_stmt *rows = smd_database_prepare(&store->database, error,
		"SELECT j.id, coalesce(guard_pid, 0), guard_start, guard_boot"
		" FROM jobs j JOIN queue q ON q.id = j.id WHERE end_time IS NULL"
		" AND preempted_by IS NOT NULL AND state NOT IN (?, ?)",
		"ss", SMD_STATE_QUEUED, CANCELLING);
	int code = SQLITE_DONE;
	int ret = rows ? 0 : -EIO;

	while (!ret && (code = sqlite3_step(rows)) == SQLITE_ROW) {
		struct smd_process_mark guard = guard_of(rows, 1);

		/* One that has gone meanwhile is settled. */
		(void)signal_guard(sqlite3_column_int64(rows, 0), &guard, NULL);
	}
	if (!ret && code != SQLITE_DONE) {
		ret = smd_database_fail(&store->database, error);
	}
	sqlite3_finalize(rows);
	return ret;
}

/* ---- the end ---- */

static int wait_again(const struct smd_database *database, int64_t id, struct smd_error *error)
{
	char now[SMD_TIMESTAMP_SIZE];
	int ret;

	smd_timestamp(now);
	ret = smd_database_do(database, error,
		"UPDATE jobs SET state = '" SMD_STATE_QUEUED "', start_time = NULL, update_time = ?,"
		" error_code = 0, error_message = NULL, guard_pid = NULL, guard_start = NULL,"
		" guard_boot = NULL WHERE id = ?",
		"si", now, id);
	return ret ? ret
		   : smd_database_do(database, error,
			     "UPDATE queue SET preemptions = preemptions + 1,"
			     " last_preempted_by = preempted_by, last_preemption_time = ?,"
			     " preempted_by = NULL, devices = NULL WHERE id = ?",
			     "si", now, id);
}

int smd_preemption_end(const struct smd_database *database, int64_t id,
	char reason[SMD_PREEMPTION_REASON_SIZE], struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(database, error,
		"SELECT preemption, preempted_by FROM jobs j JOIN queue q ON q.id = j.id"
		" WHERE j.id = ? AND end_time IS NULL AND cancel_time IS NULL"
		" AND preempted_by IS NOT NULL",
		"i", id);
	int code = row ? sqlite3_step(row) : SQLITE_ERROR;
	int ret = 0;

	*reason = '\0';
	if (code == SQLITE_ROW && sqlite3_column_int(row, 0) == SMD_PREEMPTION_REQUEUE) {
		ret = 1;
	} else if (code == SQLITE_ROW) {
		snprintf(reason, SMD_PREEMPTION_REASON_SIZE,
			"The job was preempted: job %" PRId64 ", of a higher priority, needed its room.",
			(int64_t)sqlite3_column_int64(row, 1));
	} else if (code != SQLITE_DONE) {
		ret = row ? smd_database_fail(database, error) : -EIO;
	}
	sqlite3_finalize(row);
	if (ret > 0) {
		ret = wait_again(database, id, error);
		ret = ret ? ret : 1;
	}
	return ret;
}
