/*
 * --worker-pool-spec: a worker pool as keys and values.
 */
#ifndef SMD_FRONTEND_GCLOUD_POOL_FLAG_H
#define SMD_FRONTEND_GCLOUD_POOL_FLAG_H

#include "orchestrator/frontend/job_edit.h"

/* The worker pools as one --worker-pool-spec each describes them, in the place of all others; an
 * empty value is an empty pool. */
void smd_edit_pools(struct smd_job_edit *edit, const struct smd_flag_value *flags, size_t count);

#endif
