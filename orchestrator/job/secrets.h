/*
 * Secrets that a job refers to by name: $(secret:NAME) in the value of a variable is the content of
 * the file NAME in a folder that its owner alone can read (specs/design/service.md, "Security").
 *
 * Only the variables of a replica's process ever have the values; a job, what is shown of it and what
 * is stored have the references.
 */
#ifndef SMD_JOB_SECRETS_H
#define SMD_JOB_SECRETS_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

#define SMD_SECRET_MIN 4 /* bytes: fewer are in any line of a log */
#define SMD_SECRET_MAX 65536

struct smd_secrets {
	struct smd_secret_value {
		char *name;
		char *value;
	} *list;
	size_t count;
};

/* Whether a text is such a reference and nothing else. */
int smd_secret_is_reference(const char *text);

/* Whether the job refers to any. */
int smd_secrets_are_needed(const struct smd_job *job);

/* Whether the folder can be one of secrets. 0, or -errno with a text. */
int smd_secrets_check_folder(const char *folder, struct smd_error *error);

/*
 * Reads those that the job refers to; each is there once. `folder` is NULL where there is none. 0, or
 * -errno with a text that says what must hold: for the folder and its files, that they are this
 * user's and nobody else can read them; for references, that they are in values of variables, and no
 * argument has them, because others can read command lines.
 */
int smd_secrets_read(const char *folder, const struct smd_job *job, struct smd_secrets *out,
	struct smd_error *error);

/* Wipes the values. */
void smd_secrets_clear(struct smd_secrets *secrets);

/* The job with values in the place of references; it borrows all else. 0 or -ENOMEM. */
int smd_secrets_resolve(
	const struct smd_secrets *secrets, const struct smd_job *job, struct smd_job *out);
void smd_secrets_resolved_clear(struct smd_job *resolved);

#endif
