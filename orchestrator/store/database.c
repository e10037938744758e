/* Opens the database, and runs statements. */
#include "orchestrator/store/database.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FILE_NAME "jobs.db"
#define FILE_MODE 0600
#define BUSY_MS   10000 /* others hold the lock for as long as a row takes */

#define CIFS_MAGIC   0xff534d42
#define LUSTRE_MAGIC 0x0bd00bd0

/* SQLite's own number is that of its second attempt, to read. */
static int is_read_only(const struct smd_database *database)
{
	return access(database->path, W_OK) && errno == EROFS;
}

int smd_database_fail(const struct smd_database *database, struct smd_error *error)
{
	static const struct {
		int code;
		int number;
	} codes[] = {
		{SQLITE_NOMEM, ENOMEM},
		{SQLITE_FULL, ENOSPC},
		{SQLITE_BUSY, EBUSY},
		{SQLITE_READONLY, EROFS},
		{SQLITE_CANTOPEN, EACCES},
		{SQLITE_PERM, EACCES},
		{SQLITE_CORRUPT, EUCLEAN},
		{SQLITE_NOTADB, EUCLEAN},
	};
	int code = sqlite3_errcode(database->connection) & 0xff;
	int number = EIO;
	int system = 0;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == code) {
			number = codes[i].number;
		}
	}
	if (number == EIO || number == EACCES) {
		system =
			is_read_only(database) ? EROFS : sqlite3_system_errno(database->connection);
	}
	return smd_error_set(error, system ? system : number, "%s: %s%s%s%s", database->path,
		sqlite3_errmsg(database->connection), system ? ": " : "",
		system ? strerror(system) : "",
		number == EUCLEAN ? "; move it away, and the jobs of it are in their directories "
				    "alone"
				  : "");
}

int smd_database_run(
	const struct smd_database *database, const char *statements, struct smd_error *error)
{
	return sqlite3_exec(database->connection, statements, NULL, NULL, NULL)
		       ? smd_database_fail(database, error)
		       : 0;
}

static sqlite3_stmt *prepare(const struct smd_database *database, struct smd_error *error,
	const char *text, const char *types, va_list values)
{
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(database->connection, text, -1, &statement, NULL);

	for (int i = 0; code == SQLITE_OK && types[i]; i++) {
		code = types[i] == 'i'
			       ? sqlite3_bind_int64(statement, i + 1, va_arg(values, int64_t))
			       : sqlite3_bind_text(statement, i + 1, va_arg(values, const char *),
					 -1, SQLITE_STATIC);
	}
	if (code != SQLITE_OK) {
		smd_database_fail(database, error);
		sqlite3_finalize(statement);
		return NULL;
	}
	return statement;
}

sqlite3_stmt *smd_database_prepare(const struct smd_database *database, struct smd_error *error,
	const char *statement, const char *types, ...)
{
	sqlite3_stmt *prepared;
	va_list values;

	va_start(values, types);
	prepared = prepare(database, error, statement, types, values);
	va_end(values);
	return prepared;
}

int smd_database_do(const struct smd_database *database, struct smd_error *error,
	const char *statement, const char *types, ...)
{
	sqlite3_stmt *prepared;
	va_list values;
	int ret = 0;

	va_start(values, types);
	prepared = prepare(database, error, statement, types, values);
	va_end(values);
	if (!prepared) {
		return -EIO;
	}
	if (sqlite3_step(prepared) != SQLITE_DONE) {
		ret = smd_database_fail(database, error);
	}
	sqlite3_finalize(prepared);
	return ret;
}

/* A write-ahead log needs memory that all processes share, and so one machine. */
static int is_on_network(const char *path)
{
	static const unsigned long network[] = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC,
		CIFS_MAGIC, LUSTRE_MAGIC, CODA_SUPER_MAGIC, AFS_SUPER_MAGIC, CEPH_SUPER_MAGIC,
		V9FS_MAGIC, FUSE_SUPER_MAGIC, OCFS2_SUPER_MAGIC};
	struct statfs status;

	if (statfs(path, &status)) {
		return 1;
	}
	for (size_t i = 0; i < sizeof(network) / sizeof(network[0]); i++) {
		if ((unsigned long)status.f_type == network[i]) {
			return 1;
		}
	}
	return 0;
}

/* SQLite gives the files beside it the same mode. One that is there is not opened: to close it
 * would drop the locks of SQLite. */
static int make_file(const char *path, struct smd_error *error)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);

	if (fd < 0) {
		return errno == EEXIST
			       ? 0
			       : smd_error_set(error, errno, "%s: %s", path, strerror(errno));
	}
	close(fd);
	return 0;
}

static int connect_file(struct smd_database *database, struct smd_error *error)
{
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
	int ret = make_file(database->path, error);

	if (ret) {
		return ret;
	}
	if (sqlite3_open_v2(database->path, &database->connection, flags, NULL)) {
		return smd_database_fail(database, error);
	}
	sqlite3_busy_timeout(database->connection, BUSY_MS);
	ret = smd_database_run(database,
		is_on_network(database->path) ? "PRAGMA journal_mode=DELETE"
					      : "PRAGMA journal_mode=WAL",
		error);
	/* What is said has been on the disk before. */
	ret = ret ? ret
		  : smd_database_run(
			    database, "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON", error);
	return ret ? ret : smd_schema_apply(database, error);
}

/* As a URI, whose parameters no path may add to. NULL: out of memory. */
static char *write_uri(const char *path, const char *parameters)
{
	char *uri = malloc(sizeof("file:") + 3 * strlen(path) + strlen(parameters));
	size_t used;

	if (!uri) {
		return NULL;
	}
	used = (size_t)sprintf(uri, "file:");
	for (; *path; path++) {
		used += (size_t)sprintf(uri + used,
			isalnum((unsigned char)*path) || *path == '/' ? "%c" : "%%%02X",
			(unsigned char)*path);
	}
	strcpy(uri + used, parameters);
	return uri;
}

/* What is in the log alone would be missed without it. */
static int has_log(const struct smd_database *database)
{
	struct stat status;
	char *path;
	int has;

	if (asprintf(&path, "%s-wal", database->path) < 0) {
		return 1;
	}
	has = stat(path, &status) == 0 && status.st_size > 0;
	free(path);
	return has;
}

static int connect_to_read(struct smd_database *database, struct smd_error *error)
{
	const int flags =
		SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_URI;
	/* Without a place for the log's memory nobody else can write either. */
	char *uri = write_uri(database->path, has_log(database) ? "" : "?immutable=1");
	int code = uri ? sqlite3_open_v2(uri, &database->connection, flags, NULL) : SQLITE_NOMEM;

	free(uri);
	if (!database->connection) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	if (code) {
		return smd_database_fail(database, error);
	}
	sqlite3_busy_timeout(database->connection, BUSY_MS);
	return smd_schema_check(database, error);
}

static int open_by(struct smd_database *database, const char *state_dir,
	int (*connect)(struct smd_database *database, struct smd_error *error),
	struct smd_error *error)
{
	int ret;

	*database = (struct smd_database){.connection = NULL};
	if (asprintf(&database->path, "%s/" FILE_NAME, state_dir) < 0) {
		database->path = NULL;
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = connect(database, error);
	if (ret) {
		smd_database_close(database);
	}
	return ret;
}

int smd_database_open(struct smd_database *database, const char *state_dir, struct smd_error *error)
{
	return open_by(database, state_dir, connect_file, error);
}

int smd_database_open_to_read(
	struct smd_database *database, const char *state_dir, struct smd_error *error)
{
	return open_by(database, state_dir, connect_to_read, error);
}

void smd_database_close(struct smd_database *database)
{
	sqlite3_close(database->connection);
	free(database->path);
	*database = (struct smd_database){.connection = NULL};
}
