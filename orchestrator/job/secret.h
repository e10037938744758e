/*
 * Values that are not for everybody's eyes: what is shown of a job has a mask in place of the
 * values of variables whose names say that they are secret. Replicas get the values themselves.
 */
#ifndef SMD_JOB_SECRET_H
#define SMD_JOB_SECRET_H

#include "orchestrator/job/job.h"

#define SMD_SECRET_MASK "(masked)"

/* What is said wherever something is masked. */
#define SMD_SECRET_REMARK                                                                          \
	"values of secrets are shown as " SMD_SECRET_MASK "; --show-secrets shows them"

/* Whether a variable of that name has a secret as its value: *TOKEN*, *KEY*, *SECRET*, *PASSWORD*
 * and the like, in any case; but NAME_FILE says where a secret is. */
int smd_secret_is_name(const char *name);

/* A copy of a JSON document in which {"name": NAME, "value": VALUE} of such names have the mask;
 * the caller owns a reference. *count is how many, and may be NULL. NULL: out of memory. */
json_t *smd_secret_mask_json(const json_t *document, size_t *count);

/* A job to be shown: it borrows all else from the job itself. What is made of it (references to
 * variables, specs within variables) has the mask too. */
struct smd_masked_job {
	struct smd_job job;
	size_t count; /* of masked values */
};

/* 0 or -ENOMEM. */
int smd_masked_job_open(struct smd_masked_job *masked, const struct smd_job *job);
void smd_masked_job_close(struct smd_masked_job *masked);

#endif
