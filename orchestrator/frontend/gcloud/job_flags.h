/*
 * The flags that describe a job: gcloud's of `custom-jobs create` and `local-run`, some that gcloud
 * lacks, and the settings of spec/setting.h.
 */
#ifndef SMD_FRONTEND_GCLOUD_JOB_FLAGS_H
#define SMD_FRONTEND_GCLOUD_JOB_FLAGS_H

#include "orchestrator/frontend/gcloud/job_edit.h"
#include "reduction_server/base/options.h"

struct smd_job_flags;

int smd_job_flags_create(struct smd_job_flags **out);
void smd_job_flags_free(struct smd_job_flags *flags);

/* The command with its own options and, after them, these flags. */
const struct smd_command *smd_job_flags_command(
	struct smd_job_flags *flags, const struct smd_command *command);

/* --config's value; NULL: not given. */
const char *smd_job_flags_config(const struct smd_job_flags *flags);

/* Whether a flag describes the worker pools, so that no spec is needed. */
int smd_job_flags_have_pools(const struct smd_job_flags *flags);

/* Whether any flag was given that changes a job. */
int smd_job_flags_are_given(const struct smd_job_flags *flags);

/* Changes the job by all flags, and by the words after "--", which are arguments of its tasks. */
void smd_job_flags_apply(
	const struct smd_job_flags *flags, char **words, size_t nwords, struct smd_job_edit *edit);

#endif
