/* Forgets a job: its directory, then its row. */
#include "orchestrator/store/deletion.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/store/database.h"
#include "orchestrator/store/entry.h"
#include "orchestrator/store/job_folder.h"
#include "orchestrator/store/runner_lock.h"

#define KEPT "10000"

/* A job that has ended may still be writing its last words. */
static int await_runner(const char *state_dir, int64_t id, int waits)
{
	int fd = smd_runner_lock_open(state_dir);
	int ret = fd < 0 ? fd : -EINTR;

	if (fd >= 0 && !waits) {
		ret = smd_runner_lock_is_held(fd, id);
		ret = ret > 0 ? -EAGAIN : ret;
	}
	while (ret == -EINTR) {
		ret = smd_runner_lock_wait(fd, id);
	}
	if (fd >= 0) {
		close(fd);
	}
	return ret;
}

static int remove_folder(const char *directory, struct smd_error *error)
{
	int fd = smd_job_folder_lock(directory);
	int ret = fd < 0 ? fd : smd_job_folder_remove(directory);

	if (fd >= 0) {
		close(fd);
	}
	if (ret == -EBUSY) {
		return smd_error_set(error, EBUSY, "%s: another job is running in it", directory);
	}
	if (ret && ret != -ENOENT) {
		return smd_error_set(error, -ret, "%s: not all of it could be removed: %s",
			directory, strerror(-ret));
	}
	return 0;
}

int smd_job_delete(struct smd_store *store, const char *state_dir, const struct smd_stored_job *job,
	int waits, struct smd_error *error)
{
	int is_own = smd_job_folder_is_own(state_dir, job->directory);
	int ret;

	if (!job->end_time) {
		return smd_error_set(error, EINPROGRESS, "%s is %s: it must have ended",
			job->display_name, job->state);
	}
	ret = is_own ? await_runner(state_dir, job->id, waits) : 0;
	if (ret == -EAGAIN) {
		return ret;
	}
	if (ret) {
		return smd_error_set(error, -ret, "%s/runners: %s", state_dir, strerror(-ret));
	}
	ret = is_own ? remove_folder(job->directory, error) : 0;
	return ret ? ret : smd_store_remove(store, job->id, error);
}

int smd_deletion_add(
	struct smd_store *store, struct smd_stored_deletion *deletion, struct smd_error *error)
{
	int ret = smd_entry_draw_id(&deletion->id, error);

	if (ret) {
		return ret;
	}
	smd_timestamp(deletion->create_time);
	ret = smd_database_do(&store->database, error,
		"DELETE FROM operations WHERE id IN"
		" (SELECT id FROM operations ORDER BY create_time DESC LIMIT -1 OFFSET " KEPT ")",
		"");
	return ret ? ret
		   : smd_database_do(&store->database, error,
			     "INSERT INTO operations (id, resource, create_time) VALUES (?, ?, ?)",
			     "iss", deletion->id, deletion->resource, deletion->create_time);
}

int smd_deletion_find(struct smd_store *store, int64_t id, struct smd_stored_deletion *out,
	struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(&store->database, error,
		"SELECT resource, create_time FROM operations WHERE id = ?", "i", id);
	int ret = row ? 0 : -EIO;

	if (!ret && sqlite3_step(row) == SQLITE_ROW) {
		out->id = id;
		snprintf(out->resource, sizeof(out->resource), "%s",
			(const char *)sqlite3_column_text(row, 0));
		snprintf(out->create_time, sizeof(out->create_time), "%s",
			(const char *)sqlite3_column_text(row, 1));
	} else if (!ret) {
		ret = smd_error_set(error, ENOENT, "%" PRId64 ": there is no such operation", id);
	}
	sqlite3_finalize(row);
	return ret;
}
