/* Has SQLite note down changes of state, and reads these notes. */
#include "orchestrator/store/notices.h"

#include <errno.h>

#include "orchestrator/store/database.h"

#define NOTE                                                                                       \
	"INSERT INTO notices (job, time, display_name, state, create_time, start_time, end_time,"  \
	" error_code, error_message, labels, kind, project, location) VALUES (NEW.id,"             \
	" NEW.update_time, NEW.display_name, NEW.state, NEW.create_time, NEW.start_time,"          \
	" NEW.end_time, NEW.error_code, NEW.error_message, NEW.labels, NEW.kind,"                  \
	" coalesce(NEW.project, 'local'), coalesce(NEW.location, 'local'));"

int smd_notices_want(struct smd_store *store, int is_wanted, struct smd_error *error)
{
	return smd_database_run(&store->database,
		is_wanted ? "CREATE TRIGGER IF NOT EXISTS notice_made AFTER INSERT ON jobs BEGIN " NOTE
			    " END;"
			    "CREATE TRIGGER IF NOT EXISTS notice_changed AFTER UPDATE OF state ON jobs"
			    " WHEN OLD.state <> NEW.state BEGIN " NOTE " END;"
			  : "DROP TRIGGER IF EXISTS notice_made;"
			    "DROP TRIGGER IF EXISTS notice_changed;",
		error);
}

static const char *text_of(sqlite3_stmt *row, int column)
{
	return (const char *)sqlite3_column_text(row, column);
}

static struct smd_stored_notice notice_of(sqlite3_stmt *row)
{
	return (struct smd_stored_notice){
		.id = sqlite3_column_int64(row, 0),
		.attempts = (unsigned)sqlite3_column_int(row, 1),
		.time = text_of(row, 2),
		.job = {.id = sqlite3_column_int64(row, 3),
			.display_name = text_of(row, 4),
			.state = text_of(row, 5),
			.create_time = text_of(row, 6),
			.start_time = text_of(row, 7),
			.end_time = text_of(row, 8),
			.update_time = text_of(row, 2),
			.error_code = sqlite3_column_int(row, 9),
			.error_message = text_of(row, 10),
			.labels = text_of(row, 11),
			.kind = sqlite3_column_int(row, 12) == SMD_STORED_TUNING_JOB
					? SMD_STORED_TUNING_JOB
					: SMD_STORED_CUSTOM_JOB,
			.project = text_of(row, 13),
			.location = text_of(row, 14)},
	};
}

int smd_notices_next(struct smd_store *store, int64_t now_s, smd_stored_notice_fn *take, void *arg,
	struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(&store->database, error,
		"SELECT id, attempts, time, job, display_name, state, create_time, start_time,"
		" end_time, error_code, error_message, labels, kind, project, location"
		" FROM notices n WHERE due_s <= ? AND NOT EXISTS"
		" (SELECT 1 FROM notices m WHERE m.job = n.job AND m.id < n.id)"
		" ORDER BY id LIMIT 1",
		"i", now_s);
	int code;
	int ret;

	if (!row) {
		return -EIO;
	}
	code = sqlite3_step(row);
	if (code == SQLITE_ROW) {
		struct smd_stored_notice notice = notice_of(row);

		take(arg, &notice);
	}
	ret = code == SQLITE_ROW    ? 1
	      : code == SQLITE_DONE ? 0
				    : smd_database_fail(&store->database, error);
	sqlite3_finalize(row);
	return ret;
}

int smd_notices_remove(struct smd_store *store, int64_t id, struct smd_error *error)
{
	return smd_database_do(
		&store->database, error, "DELETE FROM notices WHERE id = ?", "i", id);
}

int smd_notices_delay(struct smd_store *store, int64_t id, int64_t due_s, struct smd_error *error)
{
	return smd_database_do(&store->database, error,
		"UPDATE notices SET attempts = attempts + 1, due_s = ? WHERE id = ?", "ii", due_s,
		id);
}
