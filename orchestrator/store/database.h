/*
 * SQLite, as the store uses it: a connection, and statements whose values are bound in one call.
 * Inside the room only.
 */
#ifndef SMD_STORE_DATABASE_H
#define SMD_STORE_DATABASE_H

#include <sqlite3.h>

#include "reduction_server/base/error.h"

struct smd_database {
	sqlite3 *connection;
	char *path;
};

/* store.h */
struct smd_store {
	struct smd_database database;
	char *state_dir;
};

/* Opens the file and brings it to this program's schema (schema.c). 0, or -errno with a text. */
int smd_database_open(
	struct smd_database *database, const char *state_dir, struct smd_error *error);
/* Opens one that cannot be written, of this program's schema. */
int smd_database_open_to_read(
	struct smd_database *database, const char *state_dir, struct smd_error *error);
void smd_database_close(struct smd_database *database);

/* -errno for what SQLite has last said, with a text. */
int smd_database_fail(const struct smd_database *database, struct smd_error *error);

/* Runs statements without values. 0, or -errno with a text. */
int smd_database_run(
	const struct smd_database *database, const char *statements, struct smd_error *error);

/* Prepares a statement and binds its values: one character of `types` for each, 'i' an int64_t, 's'
 * a text that stays where it is, or NULL. NULL: the reason is in the error. */
sqlite3_stmt *smd_database_prepare(const struct smd_database *database, struct smd_error *error,
	const char *statement, const char *types, ...);

/* Prepares, runs and finishes a statement that has no rows. 0, or -errno with a text. */
int smd_database_do(const struct smd_database *database, struct smd_error *error,
	const char *statement, const char *types, ...);

/* Brings the database to this program's schema. 0, or -errno with a text. */
int smd_schema_apply(const struct smd_database *database, struct smd_error *error);

/* -EPROTO with a text: it is of another program's schema; or another -errno. */
int smd_schema_check(const struct smd_database *database, struct smd_error *error);

#endif
