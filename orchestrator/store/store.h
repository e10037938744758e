/*
 * The job store: one row for each job of a user, in a SQLite database in the state directory
 * (specs/design/jobs-store.md).
 *
 * A job's runner writes its row (entry.h); everything else here reads it, or changes what no runner
 * writes. A connection belongs to one process: it is opened, used and closed, and never taken
 * through a fork.
 */
#ifndef SMD_STORE_STORE_H
#define SMD_STORE_STORE_H

#include <jansson.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_STORE_NAME_SIZE 256

/* X(constant, the collection in resource names, the command group, what one is called): in the
 * order of their numbers in the store. */
#define SMD_STORED_KINDS(X)                                                                        \
	X(CUSTOM_JOB, "customJobs", "custom-jobs", "CustomJob")                                    \
	X(TUNING_JOB, "hyperparameterTuningJobs", "hp-tuning-jobs", "HyperparameterTuningJob")

enum smd_stored_kind {
#define X(constant, collection, group, noun) SMD_STORED_##constant,
	SMD_STORED_KINDS(X)
#undef X
};

#define SMD_STORE_MATCHES 5

struct smd_store;

/* A row; its texts are valid until the next one. */
struct smd_stored_job {
	enum smd_stored_kind kind;
	int64_t id; /* 19 digits, as Vertex AI's */
	const char *display_name;
	const char *state; /* JOB_STATE_... */
	const char *create_time;
	const char *start_time; /* NULL: it was never RUNNING */
	const char *end_time;   /* NULL: it has not ended */
	const char *update_time;
	int error_code;            /* google.rpc.Code */
	const char *error_message; /* NULL: none */
	const char *labels;        /* a JSON object */
	const char *directory;     /* of logs and records; empty: a later job has it now, or it has
				      not begun */
	const char *resource_name; /* NULL: the id makes it */
	/* Whose it is in the service; "local" where it came without one. */
	const char *project;
	const char *location;
};

const char *smd_stored_kind_collection(enum smd_stored_kind kind);
const char *smd_stored_kind_group(enum smd_stored_kind kind);
const char *smd_stored_kind_noun(enum smd_stored_kind kind);

/* "projects/local/locations/local/customJobs/ID" */
void smd_store_name(char name[SMD_STORE_NAME_SIZE], enum smd_stored_kind kind, int64_t id);

/* The name that others know it by: with its project and location, which the service has given it.
 * Its own records have the one above. */
void smd_stored_job_name(char name[SMD_STORE_NAME_SIZE], const struct smd_stored_job *job);

/* Opens the store of the state directory, makes it if it is not there, and brings it to this
 * program's schema. 0, or -errno with a text: -EPROTO for one of a newer program. */
int smd_store_open(const char *state_dir, struct smd_store **out, struct smd_error *error);

/* Opens one that is there and cannot be written, to read it. */
int smd_store_open_to_read(const char *state_dir, struct smd_store **out, struct smd_error *error);
void smd_store_close(struct smd_store *store);

/* Another number whenever another connection has written; -1: it is not known. */
int64_t smd_store_version(struct smd_store *store);

/* 0 to go on. */
typedef int smd_stored_job_fn(void *arg, const struct smd_stored_job *job);

enum smd_store_columns {
	SMD_STORE_LISTED, /* without error, labels and directory, which a list seldom shows */
	SMD_STORE_ALL
};

/* Calls back with all jobs of a kind, the newest first, until one of the calls returns other than
 * 0, which is then returned. -errno with a text. */
int smd_store_each(struct smd_store *store, enum smd_stored_kind kind,
	enum smd_store_columns columns, smd_stored_job_fn *take, void *arg,
	struct smd_error *error);

/* The same with those of any kind that have left the queue and have not ended. */
int smd_store_each_begun(
	struct smd_store *store, smd_stored_job_fn *take, void *arg, struct smd_error *error);

/* What jobs are sorted by. X(constant, the key's name in the API, its member) */
#define SMD_STORE_KEYS(X)                                                                          \
	X(CREATE_TIME, "createTime", create_time)                                                \
	X(START_TIME, "startTime", start_time)                                                   \
	X(END_TIME, "endTime", end_time)                                                         \
	X(UPDATE_TIME, "updateTime", update_time)                                                \
	X(DISPLAY_NAME, "displayName", display_name)                                             \
	X(STATE, "state", state)

enum smd_store_key {
#define X(constant, name, member) SMD_STORE_BY_##constant,
	SMD_STORE_KEYS(X)
#undef X
};

#define SMD_STORE_ORDER_MAX 7 /* each key once, and one more */

/* The first key that differs decides; a job that lacks a key is before those that have it. Jobs that
 * are equal by all keys are in the order of their ids. */
struct smd_store_order {
	struct smd_store_order_key {
		enum smd_store_key key;
		int is_descending;
	} keys[SMD_STORE_ORDER_MAX];
	size_t count;
};

/* The key's value; "": the job has none. */
const char *smd_store_key_of(const struct smd_stored_job *job, enum smd_store_key key);

/* Where a page of jobs begins: behind a job of these values, one for each key, and of this id. */
struct smd_store_position {
	const char *values[SMD_STORE_ORDER_MAX];
	int64_t id;
};

/* Some jobs of a kind, in an order. */
struct smd_store_selection {
	enum smd_stored_kind kind;
	const char *project;  /* NULL: any */
	const char *location; /* the same */
	struct smd_store_order order;
	const struct smd_store_position *after; /* NULL: from the beginning */
	/* Whether a job is one of them, by what it has without error and directory, which is asked
	 * before anything else of it is read; NULL: all are. */
	smd_stored_job_fn *fits;
	void *fits_arg;
};

/* As smd_store_each(), with these alone. */
int smd_store_each_of(struct smd_store *store, const struct smd_store_selection *selection,
	smd_stored_job_fn *take, void *arg, struct smd_error *error);

/* The one job. -ENOENT with a text: it is not there. */
int smd_store_get(struct smd_store *store, int64_t id, smd_stored_job_fn *take, void *arg,
	struct smd_error *error);

/*
 * The job of a kind that a word of the command line means: its id, its resource name, its display
 * name, or what id or display name begins with, if one job alone fits. Calls back with those that
 * fit, the newest first and no more than SMD_STORE_MATCHES. -ENOENT, or -EEXIST where several fit,
 * with a text.
 */
int smd_store_find(struct smd_store *store, enum smd_stored_kind kind, const char *word,
	int64_t *id, smd_stored_job_fn *take, void *arg, struct smd_error *error);

/* The CustomJob: the job as it was given, with its name, state, times and error. The caller owns a
 * reference. NULL: the reason is in the error. */
json_t *smd_store_resource(
	struct smd_store *store, const struct smd_stored_job *job, struct smd_error *error);

/* Asks the job to end: durably, and by a signal to its guard if it has one yet. -EALREADY with a
 * text: it has ended; -ESRCH: its guard is not to be reached from here. */
int smd_store_cancel(struct smd_store *store, int64_t id, struct smd_error *error);

/* Forgets the job. 0, or -errno with a text. */
int smd_store_remove(struct smd_store *store, int64_t id, struct smd_error *error);

#endif
