/* The tables of the store, and how those of an older program become them. */
#include <errno.h>
#include <stddef.h>

#include "orchestrator/store/database.h"

/* Step N brings a database of version N to version N + 1. Steps are added, and never changed. */
static const char *const steps[] = {
	"CREATE TABLE jobs ("
	" id INTEGER PRIMARY KEY,"
	" display_name TEXT NOT NULL,"
	" state TEXT NOT NULL,"
	" create_time TEXT NOT NULL,"
	" start_time TEXT,"
	" end_time TEXT," /* NULL: the job has not ended */
	" update_time TEXT NOT NULL,"
	" error_code INTEGER NOT NULL DEFAULT 0,"
	" error_message TEXT,"
	" labels TEXT NOT NULL,"
	" directory TEXT NOT NULL);"
	"CREATE INDEX jobs_by_time ON jobs (create_time);"
	"CREATE INDEX jobs_open ON jobs (id) WHERE end_time IS NULL;"
	/* Apart, so that a list of jobs reads small rows. */
	"CREATE TABLE specs ("
	" id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,"
	" resource TEXT NOT NULL);",
	/* Who is to be asked to end the job, and since when it is to end. */
	"ALTER TABLE jobs ADD COLUMN guard_pid INTEGER;"
	"ALTER TABLE jobs ADD COLUMN guard_start INTEGER;"
	"ALTER TABLE jobs ADD COLUMN guard_boot TEXT;"
	"ALTER TABLE jobs ADD COLUMN cancel_time TEXT;",
	/* What the directory of a job that has ended takes, and whether its replicas have left
	 * files in it; NULL: it has not been measured. */
	"ALTER TABLE jobs ADD COLUMN bytes INTEGER;"
	"ALTER TABLE jobs ADD COLUMN has_outputs INTEGER;"
	"CREATE INDEX jobs_unmeasured ON jobs (id) WHERE end_time IS NOT NULL AND bytes IS NULL;"
	"CREATE INDEX jobs_ended ON jobs (end_time, has_outputs, bytes) WHERE end_time IS NOT NULL;"
	"CREATE INDEX jobs_by_directory ON jobs (directory);"
	/* All that a list of jobs reads, in its order: rows are where their random ids put them. */
	"DROP INDEX jobs_by_time;"
	"CREATE INDEX jobs_listed ON jobs (create_time DESC, id, display_name, state, start_time,"
	" end_time, update_time);",
	/* enum smd_stored_kind */
	"ALTER TABLE jobs ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;"
	"DROP INDEX jobs_listed;"
	"CREATE INDEX jobs_listed ON jobs (kind, create_time DESC, id, display_name, state,"
	" start_time, end_time, update_time);",
	/* Jobs that came through the service: whose they are there, and what they wait for. */
	"ALTER TABLE jobs ADD COLUMN project TEXT;"
	"ALTER TABLE jobs ADD COLUMN location TEXT;"
	"CREATE TABLE queue ("
	" id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,"
	" spec TEXT," /* with secrets; NULL: its runner has it, or it needs none any more */
	" cpus INTEGER NOT NULL,"
	" memory_bytes INTEGER NOT NULL,"
	" gpus INTEGER NOT NULL,"
	" devices TEXT," /* the GPUs that its runner was given */
	" priority INTEGER NOT NULL,"
	" max_wait_s INTEGER NOT NULL,"
	" timeout_s INTEGER NOT NULL);"
	"CREATE TABLE operations ("
	" id INTEGER PRIMARY KEY,"
	" resource TEXT NOT NULL,"
	" create_time TEXT NOT NULL);",
	/* Changes of state that a webhook has not been told of yet (notices.c). */
	"CREATE TABLE notices ("
	" id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" job INTEGER NOT NULL,"
	" time TEXT NOT NULL,"
	" display_name TEXT NOT NULL,"
	" state TEXT NOT NULL,"
	" create_time TEXT NOT NULL,"
	" start_time TEXT,"
	" end_time TEXT,"
	" error_code INTEGER NOT NULL,"
	" error_message TEXT,"
	" labels TEXT NOT NULL,"
	" kind INTEGER NOT NULL,"
	" project TEXT NOT NULL,"
	" location TEXT NOT NULL,"
	" attempts INTEGER NOT NULL DEFAULT 0,"
	" due_s INTEGER NOT NULL DEFAULT 0);"
	"CREATE INDEX notices_by_job ON notices (job);",
	/* Hosts on which replicas have failed (host_failures.c). */
	"CREATE TABLE host_failures ("
	" host TEXT PRIMARY KEY," /* as the file of hosts has it */
	" in_a_row INTEGER NOT NULL,"
	" last_s INTEGER NOT NULL) WITHOUT ROWID;",
	/* Jobs that make room for others (preemption.c): enum smd_preemption, and for which one. They
	 * may need their spec again, so that leaves with the job's end. */
	"ALTER TABLE queue ADD COLUMN preemption INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE queue ADD COLUMN preempted_by INTEGER;"
	"CREATE TRIGGER spec_leaves AFTER UPDATE OF end_time ON jobs"
	" WHEN NEW.end_time IS NOT NULL BEGIN"
	" UPDATE queue SET spec = NULL WHERE id = NEW.id; END;",
	/* All that jobs of a service are filtered by, too: a filter that few fit reads few rows. */
	"DROP INDEX jobs_listed;"
	"CREATE INDEX jobs_listed ON jobs (kind, create_time DESC, id, display_name, state,"
	" start_time, end_time, update_time, project, location, labels);",
	/* How often a job has made room, for which one the last time, and when that was. */
	"ALTER TABLE queue ADD COLUMN preemptions INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE queue ADD COLUMN last_preempted_by INTEGER;"
	"ALTER TABLE queue ADD COLUMN last_preemption_time TEXT;",
};

#define VERSION ((int)(sizeof(steps) / sizeof(steps[0])))

static int read_version(const struct smd_database *database, int *version, struct smd_error *error)
{
	sqlite3_stmt *statement = smd_database_prepare(database, error, "PRAGMA user_version", "");
	int ret = 0;

	if (!statement) {
		return -EIO;
	}
	if (sqlite3_step(statement) == SQLITE_ROW) {
		*version = sqlite3_column_int(statement, 0);
	} else {
		ret = smd_database_fail(database, error);
	}
	sqlite3_finalize(statement);
	return ret;
}

static int take_steps(const struct smd_database *database, int version, struct smd_error *error)
{
	char *pragma = sqlite3_mprintf("PRAGMA user_version=%d", VERSION);
	int ret = pragma ? 0 : smd_error_set(error, ENOMEM, "out of memory");

	for (int i = version; !ret && i < VERSION; i++) {
		ret = smd_database_run(database, steps[i], error);
	}
	ret = ret ? ret : smd_database_run(database, pragma, error);
	sqlite3_free(pragma);
	return ret;
}

/* All steps at once, or none: another process may be at it too, and either may be killed. */
static int migrate(const struct smd_database *database, struct smd_error *error)
{
	int version = 0;
	int ret = smd_database_run(database, "BEGIN IMMEDIATE", error);

	if (ret) {
		return ret;
	}
	ret = read_version(database, &version, error);
	ret = ret ? ret : take_steps(database, version, error);
	if (ret) {
		smd_database_run(database, "ROLLBACK", NULL);
		return ret;
	}
	return smd_database_run(database, "COMMIT", error);
}

static int check_version(const struct smd_database *database, int *version, struct smd_error *error)
{
	int ret = read_version(database, version, error);

	if (!ret && *version > VERSION) {
		return smd_error_set(error, EPROTO,
			"%s: must have schema %d or older, got %d of a newer summand: use that "
			"one, or name another state directory in SUMMAND_STATE_DIR",
			database->path, VERSION, *version);
	}
	return ret;
}

int smd_schema_check(const struct smd_database *database, struct smd_error *error)
{
	int version = 0;
	int ret = check_version(database, &version, error);

	return ret || version == VERSION
		       ? ret
		       : smd_error_set(error, EPROTO,
				 "%s: must have schema %d where it cannot be written, got %d",
				 database->path, VERSION, version);
}

int smd_schema_apply(const struct smd_database *database, struct smd_error *error)
{
	int version = 0;
	int ret = check_version(database, &version, error);

	return ret || version == VERSION ? ret : migrate(database, error);
}
