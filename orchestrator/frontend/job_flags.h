/*
 * The flags that describe a job: families of them that the front ends contribute, and the settings
 * of setting.h.
 *
 * A flag is a row; what was given of it changes the CustomJob's document before that is decoded.
 * Rows are applied in the order of smd_frontends, and of each family.
 */
#ifndef SMD_FRONTEND_JOB_FLAGS_H
#define SMD_FRONTEND_JOB_FLAGS_H

#include "orchestrator/frontend/frontend.h"
#include "orchestrator/frontend/job_edit.h"
#include "reduction_server/base/options.h"

struct smd_job_flags;

/* The topic of `summand help` that lists them. */
#define SMD_JOB_FLAGS_TOPIC "job-flags"

struct smd_job_flag {
	const char *name;    /* NULL: a group begins, of which help is the name */
	const char *metavar; /* NULL: a switch */
	const char *help;    /* one sentence; NULL: its group's name says all */
	/* Changes the document by the values, at least one; NULL: by itself it changes nothing. */
	void (*apply)(struct smd_job_edit *edit, const struct smd_job_flag *flag,
		const struct smd_flag_value *values, size_t count);
	const char *field; /* apply's: which of the document's fields */
	int gives_pools;   /* where it is given no spec is needed */
};

/* A row; what it leaves out is designated: .field = "args". */
#define SMD_FLAG(name_, metavar_, help_, apply_, ...)                                              \
	{                                                                                          \
		.name = (name_), .metavar = (metavar_), .help = (help_), .apply = (apply_),        \
		__VA_ARGS__                                                                        \
	}

/* A row of its own, before those of the group. */
#define SMD_FLAG_GROUP(name_) SMD_FLAG(NULL, NULL, (name_), NULL)

struct smd_flag_family {
	const struct smd_job_flag *rows;
	size_t count;
	/* What several flags say together, applied before any row; NULL: nothing. */
	void (*apply)(const struct smd_job_flags *flags, struct smd_job_edit *edit);
};

#define SMD_FLAG_FAMILY(rows_, ...)                                                                \
	{                                                                                          \
		.rows = (rows_), .count = sizeof(rows_) / sizeof((rows_)[0]), __VA_ARGS__          \
	}

/* The table is borrowed. */
int smd_job_flags_create(const struct smd_frontend *table, struct smd_job_flags **out);
void smd_job_flags_free(struct smd_job_flags *flags);

/* The command with its own options and, after them, these flags, which its --help does not list but
 * names their page. NULL: out of memory. */
const struct smd_command *smd_job_flags_command(
	struct smd_job_flags *flags, const struct smd_command *command);

/* Prints the page of all flags. 0 or -ENOMEM. */
int smd_job_flags_print_help(void);

/* The last value of a flag; its text is NULL when it was not given. */
struct smd_flag_value smd_job_flags_last(const struct smd_job_flags *flags, const char *name);

/* --config's value; NULL: not given. */
const char *smd_job_flags_config(const struct smd_job_flags *flags);

/* Whether a flag describes the worker pools, so that no spec is needed. */
int smd_job_flags_have_pools(const struct smd_job_flags *flags);

/*
 * Changes the document by all flags, and by the words after "--", which are arguments of its tasks.
 * A CustomJobSpec becomes a CustomJob, so that there is a place for all. What is no object is left
 * for the decoder to refuse. After errors in flags, which are in the diagnostics, it returns 0, so
 * that the document is checked too; -EINVAL if its pools are what these flags should have given.
 */
int smd_job_flags_apply(const struct smd_job_flags *flags, char **words, size_t nwords,
	struct smd_job_edit *edit, struct smd_node **document);

#endif
