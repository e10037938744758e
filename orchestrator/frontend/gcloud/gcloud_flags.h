/*
 * The flags of `gcloud ai custom-jobs` and `gcloud ai hp-tuning-jobs` that describe jobs, and some
 * that gcloud lacks.
 */
#ifndef SMD_FRONTEND_GCLOUD_GCLOUD_FLAGS_H
#define SMD_FRONTEND_GCLOUD_GCLOUD_FLAGS_H

#include "orchestrator/frontend/job_flags.h"

extern const struct smd_flag_family smd_gcloud_pool_flags; /* the worker pools themselves */
extern const struct smd_flag_family smd_gcloud_job_flags;  /* what changes them, and the job */

#endif
