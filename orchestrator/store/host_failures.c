/* Counts failures of hosts. */
#include "orchestrator/store/host_failures.h"

#include <errno.h>
#include <time.h>

#include "orchestrator/store/database.h"

static int add(const struct smd_database *database, const char *host, unsigned failures,
	unsigned *in_a_row, struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(database, error,
		"INSERT INTO host_failures (host, in_a_row, last_s) VALUES (?, ?, ?)"
		" ON CONFLICT (host) DO UPDATE SET in_a_row = in_a_row + excluded.in_a_row,"
		" last_s = excluded.last_s RETURNING in_a_row",
		"sii", host, (int64_t)failures, (int64_t)time(NULL));
	int ret = row ? 0 : -EIO;

	if (!ret && sqlite3_step(row) == SQLITE_ROW) {
		*in_a_row = (unsigned)sqlite3_column_int64(row, 0);
		ret = sqlite3_step(row) == SQLITE_DONE ? 0 : smd_database_fail(database, error);
	} else if (!ret) {
		ret = smd_database_fail(database, error);
	}
	sqlite3_finalize(row);
	return ret;
}

int smd_host_failures_add(const char *state_dir, const char *host, unsigned failures,
	unsigned *in_a_row, struct smd_error *error)
{
	struct smd_database database;
	int ret = smd_database_open(&database, state_dir, error);

	if (!ret) {
		ret = add(&database, host, failures, in_a_row, error);
		smd_database_close(&database);
	}
	return ret;
}

int smd_host_failures_forget(
	const char *state_dir, const char *const *hosts, size_t count, struct smd_error *error)
{
	struct smd_database database;
	int ret = smd_database_open(&database, state_dir, error);

	if (ret) {
		return ret;
	}
	for (size_t i = 0; i < count && !ret; i++) {
		ret = smd_database_do(
			&database, error, "DELETE FROM host_failures WHERE host = ?", "s", hosts[i]);
	}
	smd_database_close(&database);
	return ret;
}

int smd_host_failures_each(const char *state_dir, unsigned in_a_row, int64_t after_s,
	smd_host_failures_fn *take, void *arg, struct smd_error *error)
{
	struct smd_database database;
	sqlite3_stmt *rows;
	int code = SQLITE_DONE;
	int ret = smd_database_open(&database, state_dir, error);

	if (ret) {
		return ret;
	}
	rows = smd_database_prepare(&database, error,
		"SELECT host, in_a_row, last_s FROM host_failures WHERE in_a_row >= ?"
		" AND last_s > ? ORDER BY host",
		"ii", (int64_t)in_a_row, after_s);
	ret = rows ? 0 : -EIO;
	while (!ret && (code = sqlite3_step(rows)) == SQLITE_ROW) {
		ret = take(arg, (const char *)sqlite3_column_text(rows, 0),
			(unsigned)sqlite3_column_int64(rows, 1), sqlite3_column_int64(rows, 2));
	}
	if (!ret && code != SQLITE_DONE) {
		ret = smd_database_fail(&database, error);
	}
	sqlite3_finalize(rows);
	smd_database_close(&database);
	return ret;
}
