/* Adds jobs to the queue, reads it, and ends jobs that wait in it. */
#include "orchestrator/store/queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/store/database.h"
#include "orchestrator/store/entry.h"

static int insert_row(const struct smd_database *database, const struct smd_new_job *job,
	const char *labels, const char *resource, struct smd_error *error)
{
	int ret = smd_database_do(database, error,
		"INSERT INTO jobs (id, display_name, state, create_time, update_time, labels,"
		" directory, kind, project, location)"
		" VALUES (?, ?, '" SMD_STATE_QUEUED "', ?, ?, ?, '', ?, ?, ?)",
		"issssiss", job->id, job->display_name, job->create_time, job->create_time, labels,
		(int64_t)job->kind, job->project, job->location);

	ret = ret ? ret
		  : smd_database_do(database, error,
			    "INSERT INTO specs (id, resource) VALUES (?, ?)", "is", job->id,
			    resource);
	return ret ? ret
		   : smd_database_do(database, error,
			     "INSERT INTO queue (id, spec, cpus, memory_bytes, gpus, priority,"
			     " max_wait_s, timeout_s, preemption)"
			     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			     "isiiiiiii", job->id, job->spec, job->demand.cpus,
			     job->demand.memory_bytes, job->demand.gpus, (int64_t)job->priority,
			     job->max_wait_s, job->timeout_s, (int64_t)job->preemption);
}

static int insert(
	const struct smd_database *database, struct smd_new_job *job, struct smd_error *error)
{
	const json_t *map = json_object_get(job->resource, "labels");
	char *labels = json_is_object(map) ? json_dumps(map, JSON_COMPACT) : strdup("{}");
	char *text = json_dumps(job->resource, JSON_COMPACT | JSON_REAL_PRECISION(17));
	int ret = labels && text ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	ret = ret ? ret : smd_entry_draw_id(&job->id, error);
	if (!ret) {
		smd_timestamp(job->create_time);
		ret = insert_row(database, job, labels, text, error);
	}
	free(labels);
	free(text);
	return ret;
}

int smd_queue_add(
	struct smd_store *store, struct smd_new_job *jobs, size_t count, struct smd_error *error)
{
	int ret = smd_database_run(&store->database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	for (size_t i = 0; !ret && i < count; i++) {
		ret = insert(&store->database, &jobs[i], error);
	}
	ret = ret ? ret : smd_database_run(&store->database, "COMMIT", error);
	if (ret) {
		smd_database_run(&store->database, "ROLLBACK", NULL);
	}
	return ret;
}

static struct smd_queued_job job_of(sqlite3_stmt *row)
{
	return (struct smd_queued_job){
		.id = sqlite3_column_int64(row, 0),
		.is_waiting = sqlite3_column_int(row, 1),
		.demand = {.cpus = sqlite3_column_int64(row, 2),
			.memory_bytes = sqlite3_column_int64(row, 3),
			.gpus = sqlite3_column_int64(row, 4)},
		.priority = sqlite3_column_int(row, 5),
		.max_wait_s = sqlite3_column_int64(row, 6),
		.timeout_s = sqlite3_column_int64(row, 7),
		.wait_time = (const char *)sqlite3_column_text(row, 8),
		.begin_time = (const char *)sqlite3_column_text(row, 9),
		.devices = (const char *)sqlite3_column_text(row, 10),
		.project = (const char *)sqlite3_column_text(row, 11),
		.preemption = (enum smd_preemption)sqlite3_column_int(row, 12),
		.is_preempted = sqlite3_column_int(row, 13),
	};
}

int smd_queue_each(
	struct smd_store *store, smd_queued_job_fn *take, void *arg, struct smd_error *error)
{
	sqlite3_stmt *rows = smd_database_prepare(&store->database, error,
		"SELECT j.id, j.state = '" SMD_STATE_QUEUED "', cpus, memory_bytes, gpus, priority,"
		" max_wait_s, timeout_s, update_time,"
		" CASE WHEN j.state <> '" SMD_STATE_QUEUED "'"
		" THEN coalesce(start_time, update_time) END, devices, coalesce(project, 'local'),"
		" preemption, preempted_by IS NOT NULL"
		" FROM jobs j JOIN queue q ON q.id = j.id WHERE end_time IS NULL"
		" ORDER BY create_time, j.id",
		"");
	int ret = rows ? 0 : -EIO;
	int code = SQLITE_DONE;

	while (!ret && (code = sqlite3_step(rows)) == SQLITE_ROW) {
		struct smd_queued_job job = job_of(rows);

		ret = take(arg, &job);
	}
	if (!ret && code != SQLITE_DONE) {
		ret = smd_database_fail(&store->database, error);
	}
	sqlite3_finalize(rows);
	return ret;
}

int smd_queue_read_spec(struct smd_store *store, int64_t id, enum smd_stored_kind *kind,
	char **spec, struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(&store->database, error,
		"SELECT spec, kind FROM queue q JOIN jobs j ON q.id = j.id"
		" WHERE q.id = ? AND state = '" SMD_STATE_QUEUED "'",
		"i", id);
	int ret = row ? 0 : -EIO;

	if (!ret && sqlite3_step(row) == SQLITE_ROW) {
		*kind = (enum smd_stored_kind)sqlite3_column_int(row, 1);
		*spec = strdup((const char *)sqlite3_column_text(row, 0));
		ret = *spec ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	} else if (!ret) {
		ret = smd_error_set(error, ENOENT, "%" PRId64 ": it waits no longer", id);
	}
	sqlite3_finalize(row);
	return ret;
}

/* Its spec leaves the queue by a trigger: who finds the job ended finds no spec of it. */
static int end_row(const struct smd_database *database, int64_t id, const char *state, int code,
	const char *message, struct smd_error *error)
{
	char now[SMD_TIMESTAMP_SIZE];
	int ret;

	smd_timestamp(now);
	ret = smd_database_do(database, error,
		"UPDATE jobs SET state = ?, end_time = ?, update_time = ?, error_code = ?,"
		" error_message = ? WHERE id = ? AND state = '" SMD_STATE_QUEUED "'",
		"sssisi", state, now, now, (int64_t)code, message, id);
	if (!ret && sqlite3_changes(database->connection) == 0) {
		return -EALREADY;
	}
	return ret;
}

int smd_queue_end(struct smd_store *store, int64_t id, const char *state, int code,
	const char *message, struct smd_error *error)
{
	int ret = smd_database_run(&store->database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	ret = end_row(&store->database, id, state, code, message, error);
	ret = ret ? ret : smd_database_run(&store->database, "COMMIT", error);
	if (ret) {
		smd_database_run(&store->database, "ROLLBACK", NULL);
	}
	return ret;
}
