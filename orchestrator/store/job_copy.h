/*
 * A row of the store with texts of its own, which stays when the next one is read.
 */
#ifndef SMD_STORE_JOB_COPY_H
#define SMD_STORE_JOB_COPY_H

#include "orchestrator/store/store.h"

struct smd_job_copy {
	struct smd_stored_job job;
	char *text; /* holds them */
};

/* Copies a row into a struct smd_job_copy. 0 or -ENOMEM. */
int smd_job_copy_take(void *copy, const struct smd_stored_job *job);
void smd_job_copy_free(struct smd_job_copy *copy);

#endif
