/* Reads the rows of the store, and finds the one that is meant. */
#include "orchestrator/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/store/database.h"
#include "orchestrator/store/last_record.h"
#include "orchestrator/store/order.h"
#include "orchestrator/store/process.h"
#include "orchestrator/store/queue.h"
#include "worker/agent/exit_record.h"

#define COLUMNS                                                                                    \
	"id, display_name, state, create_time, start_time, end_time, update_time, error_code,"     \
	" error_message, labels, directory, kind, coalesce(project, 'local'),"                     \
	" coalesce(location, 'local')"
#define LISTED                                                                                     \
	"id, display_name, state, create_time, start_time, end_time, update_time, 0, NULL, '{}',"  \
	" '', kind, coalesce(project, 'local'),"                                                   \
	" coalesce(location, 'local')" /* of the same order, all in one index */
#define LOCAL           "local"
#define NAME_PREFIX_SQL "'" NAME_PREFIX "'"
#define NAME_PREFIX     "projects/" LOCAL "/locations/" LOCAL "/"

#define CODE_CANCELLED 1 /* google.rpc.Code */

static const struct {
	const char *collection;
	const char *group;
	const char *noun;
} kinds[] = {
#define X(constant, collection, group, noun) [SMD_STORED_##constant] = {collection, group, noun},
	SMD_STORED_KINDS(X)
#undef X
};

const char *smd_stored_kind_collection(enum smd_stored_kind kind)
{
	return kinds[kind].collection;
}

const char *smd_stored_kind_group(enum smd_stored_kind kind)
{
	return kinds[kind].group;
}

const char *smd_stored_kind_noun(enum smd_stored_kind kind)
{
	return kinds[kind].noun;
}

void smd_store_name(char name[SMD_STORE_NAME_SIZE], enum smd_stored_kind kind, int64_t id)
{
	snprintf(name, SMD_STORE_NAME_SIZE, NAME_PREFIX "%s/%" PRId64, kinds[kind].collection, id);
}

void smd_stored_job_name(char name[SMD_STORE_NAME_SIZE], const struct smd_stored_job *job)
{
	snprintf(name, SMD_STORE_NAME_SIZE, "projects/%.64s/locations/%.64s/%s/%" PRId64,
		job->project ? job->project : LOCAL, job->location ? job->location : LOCAL,
		kinds[job->kind].collection, job->id);
}

static int open_by(const char *state_dir,
	int (*open_database)(
		struct smd_database *database, const char *state_dir, struct smd_error *error),
	struct smd_store **out, struct smd_error *error)
{
	struct smd_store *store = calloc(1, sizeof(*store));
	int ret = store ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	if (ret) {
		return ret;
	}
	store->state_dir = strdup(state_dir);
	if (!store->state_dir) {
		ret = smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = ret ? ret : open_database(&store->database, state_dir, error);
	if (ret) {
		free(store->state_dir);
		free(store);
		return ret;
	}
	*out = store;
	return 0;
}

int smd_store_open(const char *state_dir, struct smd_store **out, struct smd_error *error)
{
	return open_by(state_dir, smd_database_open, out, error);
}

int smd_store_open_to_read(const char *state_dir, struct smd_store **out, struct smd_error *error)
{
	return open_by(state_dir, smd_database_open_to_read, out, error);
}

void smd_store_close(struct smd_store *store)
{
	if (store) {
		smd_database_close(&store->database);
		free(store->state_dir);
		free(store);
	}
}

static const char *text_of(sqlite3_stmt *row, int column)
{
	return (const char *)sqlite3_column_text(row, column);
}

static struct smd_stored_job job_of(sqlite3_stmt *row)
{
	return (struct smd_stored_job){
		.id = sqlite3_column_int64(row, 0),
		.display_name = text_of(row, 1),
		.state = text_of(row, 2),
		.create_time = text_of(row, 3),
		.start_time = text_of(row, 4),
		.end_time = text_of(row, 5),
		.update_time = text_of(row, 6),
		.error_code = sqlite3_column_int(row, 7),
		.error_message = text_of(row, 8),
		.labels = text_of(row, 9),
		.directory = text_of(row, 10),
		.kind = sqlite3_column_int(row, 11) == SMD_STORED_TUNING_JOB
				? SMD_STORED_TUNING_JOB
				: SMD_STORED_CUSTOM_JOB,
		.project = text_of(row, 12),
		.location = text_of(row, 13),
	};
}

/* Finishes the statement. *count is how many rows there were. */
static int each_row(struct smd_store *store, sqlite3_stmt *rows, smd_stored_job_fn *take, void *arg,
	size_t *count, struct smd_error *error)
{
	int ret = rows ? 0 : -EIO;
	int code = SQLITE_DONE;

	*count = 0;
	while (!ret && (code = sqlite3_step(rows)) == SQLITE_ROW) {
		struct smd_stored_job job = job_of(rows);

		++*count;
		ret = take(arg, &job);
	}
	if (!ret && code != SQLITE_DONE) {
		ret = smd_database_fail(&store->database, error);
	}
	sqlite3_finalize(rows);
	return ret;
}

int smd_store_each(struct smd_store *store, enum smd_stored_kind kind,
	enum smd_store_columns columns, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	const char *statement = columns == SMD_STORE_ALL
					? "SELECT " COLUMNS
					  " FROM jobs WHERE kind = ? ORDER BY create_time DESC, id"
					: "SELECT " LISTED
					  " FROM jobs WHERE kind = ? ORDER BY create_time DESC, id";
	size_t count;

	return each_row(store,
		smd_database_prepare(&store->database, error, statement, "i", (int64_t)kind), take,
		arg, &count, error);
}

#define FITS                                                                                       \
	"job_fits(id, display_name, state, create_time, start_time, end_time, update_time,"        \
	" labels, coalesce(project, 'local'), coalesce(location, 'local'))"
#define FITS_VALUES 10

static const char *text_among(sqlite3_value **values, int i)
{
	return (const char *)sqlite3_value_text(values[i]);
}

/* All of it is in the index of lists, so SQLite asks before it looks for the row. */
static void answer_fits(sqlite3_context *context, int count, sqlite3_value **values)
{
	const struct smd_store_selection *selection = sqlite3_user_data(context);
	const struct smd_stored_job job = {
		.kind = selection->kind,
		.id = sqlite3_value_int64(values[0]),
		.display_name = text_among(values, 1),
		.state = text_among(values, 2),
		.create_time = text_among(values, 3),
		.start_time = text_among(values, 4),
		.end_time = text_among(values, 5),
		.update_time = text_among(values, 6),
		.labels = text_among(values, 7),
		.directory = "",
		.project = text_among(values, 8),
		.location = text_among(values, 9),
	};

	(void)count;
	sqlite3_result_int(context, selection->fits(selection->fits_arg, &job));
}

static int allow_fits(struct smd_store *store, const struct smd_store_selection *selection,
	struct smd_error *error)
{
	sqlite3 *connection = store->database.connection;

	return selection->fits && sqlite3_create_function(connection, "job_fits", FITS_VALUES,
					  SQLITE_UTF8, (void *)selection, answer_fits, NULL, NULL)
		       ? smd_database_fail(&store->database, error)
		       : 0;
}

int smd_store_each_of(struct smd_store *store, const struct smd_store_selection *selection,
	smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	char *ordered = smd_store_order_write(&selection->order, selection->after);
	char *statement = ordered ? sqlite3_mprintf("SELECT " COLUMNS " FROM jobs WHERE kind = ?1"
						    " AND (?2 IS NULL OR"
						    " coalesce(project, 'local') = ?2)"
						    " AND (?3 IS NULL OR"
						    " coalesce(location, 'local') = ?3)%s%s",
					    selection->fits ? " AND " FITS : "", ordered)
				  : NULL;
	size_t count;
	int ret = statement ? allow_fits(store, selection, error)
			    : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	ret = ret ? ret
		  : each_row(store,
			    smd_database_prepare(&store->database, error, statement, "iss",
				    (int64_t)selection->kind, selection->project,
				    selection->location),
			    take, arg, &count, error);
	sqlite3_free(statement);
	sqlite3_free(ordered);
	return ret;
}

int smd_store_each_begun(
	struct smd_store *store, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	size_t count;

	return each_row(store,
		smd_database_prepare(&store->database, error,
			"SELECT " COLUMNS " FROM jobs WHERE end_time IS NULL"
			" AND state <> '" SMD_STATE_QUEUED "'", /* nobody runs it yet */
			""),
		take, arg, &count, error);
}

int64_t smd_store_version(struct smd_store *store)
{
	sqlite3_stmt *row = smd_database_prepare(&store->database, NULL, "PRAGMA data_version", "");
	int64_t version =
		row && sqlite3_step(row) == SQLITE_ROW ? sqlite3_column_int64(row, 0) : -1;

	sqlite3_finalize(row);
	return version;
}

int smd_store_get(struct smd_store *store, int64_t id, smd_stored_job_fn *take, void *arg,
	struct smd_error *error)
{
	size_t count;
	int ret = each_row(store,
		smd_database_prepare(&store->database, error,
			"SELECT " COLUMNS " FROM jobs WHERE id = ?", "i", id),
		take, arg, &count, error);

	if (!ret && count == 0) {
		return smd_error_set(error, ENOENT, "%" PRId64 ": there is no such job", id);
	}
	return ret;
}

/* Jobs that fit a word: the first is the one that is meant if no other fits. */
struct matches {
	int64_t id;
	size_t count;
	smd_stored_job_fn *take;
	void *arg;
};

static int take_match(void *arg, const struct smd_stored_job *job)
{
	struct matches *matches = arg;

	if (matches->count++ == 0) {
		matches->id = job->id;
	}
	return matches->count <= SMD_STORE_MATCHES ? matches->take(matches->arg, job) : 0;
}

static int is_resource_name(const char *word)
{
	return strncmp(word, "projects/", sizeof("projects/") - 1) == 0 &&
	       strstr(word, "/locations/");
}

static int find_where(struct smd_store *store, enum smd_stored_kind kind, const char *condition,
	const char *word, struct matches *matches, struct smd_error *error)
{
	char *statement = sqlite3_mprintf(
		"SELECT " COLUMNS " FROM jobs WHERE kind = ?2 AND (%s) ORDER BY create_time DESC",
		condition);
	size_t count;
	int ret;

	if (!statement) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = each_row(store,
		smd_database_prepare(&store->database, error, statement, "si", word, (int64_t)kind),
		take_match, matches, &count, error);
	sqlite3_free(statement);
	if (!ret && count > 1) {
		ret = smd_error_set(
			error, EEXIST, "%.128s: %zu jobs fit; name one by its id", word, count);
	}
	return ret ? ret : (count == 1 ? 0 : -ENOENT);
}

/* By the name that it has in the store, or that which the service shows. */
static int find_name(struct smd_store *store, enum smd_stored_kind kind, const char *name,
	struct matches *matches, struct smd_error *error)
{
	const char *id = strrchr(name, '/') + 1;
	char *condition = sqlite3_mprintf(
		"id = CAST(%Q AS INTEGER) AND ?1 IN (" NAME_PREFIX_SQL " || '%s/' || id,"
		" 'projects/' || coalesce(project, '" LOCAL "') || '/locations/'"
		" || coalesce(location, '" LOCAL "') || '/%s/' || id)",
		id, kinds[kind].collection, kinds[kind].collection);
	int ret = condition ? find_where(store, kind, condition, name, matches, error)
			    : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	sqlite3_free(condition);
	return ret;
}

int smd_store_find(struct smd_store *store, enum smd_stored_kind kind, const char *word,
	int64_t *id, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	static const char *const conditions[] = {
		"CAST(id AS TEXT) = ?1", "display_name = ?1",
		("substr(CAST(id AS TEXT), 1, length(?1)) = ?1"
		 " OR substr(display_name, 1, length(?1)) = ?1"), /* one */
	};
	struct matches matches = {.take = take, .arg = arg};
	int is_name = is_resource_name(word);
	int ret = is_name ? find_name(store, kind, word, &matches, error) : -ENOENT;

	for (size_t i = 0; !is_name && *word && ret == -ENOENT &&
			   i < sizeof(conditions) / sizeof(conditions[0]);
		i++) {
		ret = find_where(store, kind, conditions[i], word, &matches, error);
	}
	*id = matches.id;
	return ret == -ENOENT
		       ? smd_error_set(error, ENOENT,
				 "%.128s: there is no such job; `summand %s list%s` shows "
				 "those of %.256s",
				 word, kinds[kind].group, is_name ? " --uri" : "", store->state_dir)
		       : ret;
}

/* 0, or -ENOMEM. */
static int set_state(json_t *resource, const struct smd_stored_job *job)
{
	char name[SMD_STORE_NAME_SIZE];
	const struct {
		const char *key;
		const char *text;
	} fields[] = {
		{"displayName", *job->display_name ? job->display_name : NULL},
		{"state", job->state},
		{"createTime", job->create_time},
		{"startTime", job->start_time},
		{"endTime", job->end_time},
		{"updateTime", job->update_time},
	};
	int failed;

	smd_stored_job_name(name, job);
	failed = json_object_set_new(resource, "name", json_string(name));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!fields[i].text) {
			json_object_del(resource, fields[i].key);
		} else if (json_object_set_new(
				   resource, fields[i].key, json_string(fields[i].text))) {
			failed = 1;
		}
	}
	if (strcmp(job->labels, "{}") != 0) {
		failed |= json_object_set_new(resource, "labels", json_loads(job->labels, 0, NULL));
	}
	json_object_del(resource, "error");
	if (job->error_message) {
		failed |= json_object_set_new(resource, "error",
			json_pack("{s:i, s:s}", "code", job->error_code, "message",
				job->error_message));
	}
	return failed ? -ENOMEM : 0;
}

static json_t *read_spec(struct smd_store *store, int64_t id, struct smd_error *error)
{
	sqlite3_stmt *row = smd_database_prepare(
		&store->database, error, "SELECT resource FROM specs WHERE id = ?", "i", id);
	json_t *spec = NULL;

	if (row && sqlite3_step(row) == SQLITE_ROW) {
		spec = json_loads(text_of(row, 0), 0, NULL);
	}
	if (!spec) {
		smd_error_set(error, ENOENT, "%" PRId64 ": its spec is not in the store", id);
	}
	sqlite3_finalize(row);
	return spec;
}

/* Those that the job's own record has. A trial cannot go on when its job has ended. */
static void set_trials(json_t *resource, const struct smd_stored_job *job)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *trials;
	json_t *trial;
	size_t i;

	smd_store_name(name, job->kind, job->id);
	trials = smd_last_record_trials(job->directory, name);
	json_array_foreach (trials, i, trial) {
		if (job->end_time && !json_object_get(trial, "endTime")) {
			json_object_set_new(trial, "state", json_string("INFEASIBLE"));
			json_object_set_new(trial, "endTime", json_string(job->end_time));
			json_object_set_new(trial, "infeasibleReason",
				json_string("the tuning job ended before it did"));
		}
	}
	json_object_del(resource, "trials"); /* of the spec: it may be what `describe` printed */
	if (trials) {
		json_object_set_new(resource, "trials", trials);
	}
}

json_t *smd_store_resource(
	struct smd_store *store, const struct smd_stored_job *job, struct smd_error *error)
{
	json_t *resource = json_pack("{s:s}", "name", "");
	json_t *spec = read_spec(store, job->id, error);

	if (!resource || !spec || json_object_update(resource, spec) || set_state(resource, job)) {
		smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		json_decref(resource);
		resource = NULL;
	}
	if (resource && job->kind == SMD_STORED_TUNING_JOB) {
		set_trials(resource, job);
	}
	json_decref(spec);
	return resource;
}

int smd_store_remove(struct smd_store *store, int64_t id, struct smd_error *error)
{
	return smd_database_do(&store->database, error, "DELETE FROM jobs WHERE id = ?", "i", id);
}

/* The guard of a job that has not ended and is to end; its pid is 0 if it has none yet. */
static int mark_cancelled(struct smd_store *store, int64_t id, struct smd_process_mark *guard,
	struct smd_error *error)
{
	char now[SMD_TIMESTAMP_SIZE];
	sqlite3_stmt *row;
	int code;

	smd_timestamp(now);
	row = smd_database_prepare(&store->database, error,
		"UPDATE jobs SET cancel_time = coalesce(cancel_time, ?)"
		" WHERE id = ? AND end_time IS NULL"
		" RETURNING coalesce(guard_pid, 0), guard_start, coalesce(guard_boot, '')",
		"si", now, id);
	if (!row) {
		return -EIO;
	}
	code = sqlite3_step(row);
	if (code == SQLITE_ROW) {
		guard->pid = sqlite3_column_int64(row, 0);
		guard->start = sqlite3_column_int64(row, 1);
		snprintf(guard->boot, sizeof(guard->boot), "%s", text_of(row, 2));
	}
	sqlite3_finalize(row);
	if (code == SQLITE_DONE) {
		return smd_error_set(error, EALREADY,
			"%" PRId64 ": must not have ended, and has; `summand custom-jobs describe` "
			"says how",
			id);
	}
	return code == SQLITE_ROW ? 0 : smd_database_fail(&store->database, error);
}

int smd_store_cancel(struct smd_store *store, int64_t id, struct smd_error *error)
{
	struct smd_process_mark guard;
	int ret = smd_queue_end(
		store, id, "JOB_STATE_CANCELLED", CODE_CANCELLED, "The job was cancelled.", error);

	if (ret != -EALREADY) { /* it waited, and has no runner */
		return ret;
	}
	ret = mark_cancelled(store, id, &guard, error);

	if (ret || guard.pid == 0) {
		return ret;
	}
	ret = smd_process_signal(&guard, SIGTERM);
	return ret ? smd_error_set(error, -ret,
			     "%" PRId64 ": its runner must be a process that this one sees, and "
			     "process %" PRId64 " is not: cancel it on its own machine, or in its "
			     "own container",
			     id, guard.pid)
		   : 0;
}
