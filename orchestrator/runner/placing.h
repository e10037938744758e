/* Which replica runs on which host: pure functions of the job and what the hosts say. */
#ifndef SMD_RUNNER_PLACING_H
#define SMD_RUNNER_PLACING_H

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

#define SMD_PLACE_NO_POOL SMD_JOB_POOLS_MAX

/* A host as far as that matters. */
struct smd_place {
	const char *name; /* for messages */
	int pool;         /* the only one whose replicas it takes; -1: any; SMD_PLACE_NO_POOL: none */
	int slots;        /* 0: as many as there are replicas */
	int gpus;         /* how many it has */
};

/* The slots that a replica of the pool takes of a host. */
int smd_placing_slots(const struct smd_job *job, int pool);

/*
 * Fills host_of[pool][index] with a host's position in `places`, pool by pool and in the order of
 * the hosts: each replica goes where the one before it is, as long as there are slots, and GPUs
 * unless replicas may share them. Pools without replicas have NULL. The caller frees the arrays. 0;
 * -ENOSPC with a text when a replica finds no place, or -ENOMEM.
 */
int smd_placing_decide(const struct smd_job *job, const struct smd_place *places, size_t count,
	int may_share, int *host_of[SMD_JOB_POOLS_MAX], struct smd_error *error);

#endif
