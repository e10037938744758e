/*
 * What flags do to a job: they change the CustomJob's document before it is decoded, so that a job
 * from flags obeys the rules of one from a file, and no one downstream knows the difference.
 */
#ifndef SMD_FRONTEND_JOB_EDIT_H
#define SMD_FRONTEND_JOB_EDIT_H

#include "orchestrator/document/decode.h"
#include "orchestrator/frontend/flag_items.h"
#include "orchestrator/job/job.h"

struct smd_job_edit {
	struct smd_node *job;  /* a CustomJob */
	struct smd_node *spec; /* its CustomJobSpec */
	struct smd_diagnostics *diagnostics;
	/* What a document has no place for. */
	char *code_dir;
	char *run_name;
	int has_shell_arguments;
	struct smd_flag_items requirements;
	struct smd_flag_items extra_packages;
	int ret; /* -ENOMEM once memory ran out */
};

void smd_job_edit_free(struct smd_job_edit *edit);

/* Moves what a document has no place for into the job that was decoded from it; -ENOMEM. */
int smd_job_edit_finish(struct smd_job_edit *edit, struct smd_job *job);

/* The object's member of that name, made when it is not there; NULL when it is no object. */
struct smd_node *smd_edit_object(struct smd_job_edit *edit, struct smd_node *parent,
	const char *name, struct smd_source_position at);

/* Puts a member in the place of one of that name. A NULL parent is left alone. */
struct smd_node *smd_edit_put(struct smd_job_edit *edit, struct smd_node *parent, const char *name,
	enum smd_node_type type, struct smd_source_position at);
void smd_edit_put_string(struct smd_job_edit *edit, struct smd_node *parent, const char *name,
	const char *text, struct smd_source_position at);
void smd_edit_put_strings(struct smd_job_edit *edit, struct smd_node *parent, const char *name,
	const struct smd_flag_items *items, struct smd_source_position at);

/* Says that a flag's value cannot be used; the text is gcloud's where gcloud has one. */
void smd_edit_refuse(struct smd_job_edit *edit, struct smd_source_position at, const char *format,
	...) __attribute__((format(printf, 3, 4)));

/*
 * The task of each pool that is used and is no reduction server: calls back with its containerSpec
 * or pythonPackageSpec.
 */
typedef void smd_edit_task(struct smd_job_edit *edit, struct smd_node *task, int is_container,
	const void *context, struct smd_source_position at);
void smd_edit_each_task(struct smd_job_edit *edit, smd_edit_task *change, const void *context,
	struct smd_source_position at);

/* A flag as it was given; the text is the command line's. */
struct smd_flag_value {
	const char *value;
	struct smd_source_position at;
};

enum smd_task_kind { SMD_TASK_ANY, SMD_TASK_CONTAINER, SMD_TASK_PACKAGE };

/* The variable for every task, in the place of one of that name. */
void smd_edit_put_variable(struct smd_job_edit *edit, const char *key, const char *value,
	struct smd_source_position at);

/* A label of the job, in the place of one of that name. */
void smd_edit_put_label(struct smd_job_edit *edit, const char *key, const char *value,
	struct smd_source_position at);

/* The flag's lists, all values one after the other, as a field of every task of that kind. */
void smd_edit_put_list(struct smd_job_edit *edit, const char *field, enum smd_task_kind kind,
	const struct smd_flag_value *values, size_t count);

#endif
