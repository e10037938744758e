/*
 * The GPUs of trials that run at once: each of these lanes has its own.
 */
#ifndef SMD_TUNING_LANE_H
#define SMD_TUNING_LANE_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

/* Deals this machine's GPUs to as many lanes as the job has trials at once: *out ends with NULL,
 * and has a value of CUDA_VISIBLE_DEVICES for each; it is NULL where trials use no GPUs. 0, or
 * -EBUSY with a text where there are too few, unless lanes may share them. */
int smd_lanes_open(const struct smd_job *job, int may_share, char ***out, struct smd_error *error);
void smd_lanes_close(char **lanes);

#endif
