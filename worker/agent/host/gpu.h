/*
 * The GPUs of this machine, dealt out to the replicas of one job.
 */
#ifndef SMD_AGENT_HOST_GPU_H
#define SMD_AGENT_HOST_GPU_H

#include <stddef.h>

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

struct smd_gpus {
	char **ids; /* as CUDA_VISIBLE_DEVICES has them */
	size_t count;
	int wanted;                   /* by the whole job; 0: it asks for none */
	int first[SMD_JOB_POOLS_MAX]; /* where the pool's part begins */
	int each[SMD_JOB_POOLS_MAX];  /* of a replica of the pool */
};

/* Finds the GPUs that `visible` lists as CUDA_VISIBLE_DEVICES does, or all of the machine's if it
 * is NULL. 0 or -ENOMEM. */
int smd_gpus_find(struct smd_gpus *gpus, const char *visible);

/* Gives each replica the accelerators that its pool asks for, or that its machine type has. 0;
 * -EBUSY with a text when there are fewer than are asked for, unless replicas may share them. */
int smd_gpus_deal(
	struct smd_gpus *gpus, const struct smd_job *job, int may_share, struct smd_error *error);

/* The same for some of the job's replicas: `counts` of each pool. `where` is what has the GPUs, in
 * messages: "this machine". */
int smd_gpus_deal_some(struct smd_gpus *gpus, const struct smd_job *job,
	const int counts[SMD_JOB_POOLS_MAX], int may_share, const char *where,
	struct smd_error *error);

/* The replica's GPUs as a value of CUDA_VISIBLE_DEVICES, which the caller frees; "" for none. NULL:
 * out of memory. */
char *smd_gpus_of(const struct smd_gpus *gpus, int pool, int index);

void smd_gpus_clear(struct smd_gpus *gpus);

#endif
