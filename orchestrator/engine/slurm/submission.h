/* The command lines by which Slurm is asked: pure functions of what is wanted. */
#ifndef SMD_ENGINE_SLURM_SUBMISSION_H
#define SMD_ENGINE_SLURM_SUBMISSION_H

#include "orchestrator/engine/engine.h"

/* What a job's hosts are held by, for sbatch's standard input. The caller frees it. NULL: out of
 * memory. */
char *smd_slurm_holder(const struct smd_allocation_request *request);

/* Beyond the replicas' grace period: for agents to end once they have lost their runner. */
#define SMD_SLURM_LINGER_S 30

/* Words of a command line, which the caller frees with smd_argv_free(). NULL: out of memory. The
 * job has the mark as its comment. */
char **smd_slurm_submission(const struct smd_allocation_request *request,
	const struct smd_slurm_options *options, const char *mark);

/* A step that starts an agent on each of a component's hosts. */
struct smd_slurm_step_request {
	const char *job;
	const char *agent;
	const char *gres; /* of each host; "" */
	int group;        /* the component's number in a heterogeneous job; -1: it is none */
	int nhosts;
	int linger_s; /* for agents to end by themselves when the runner has died */
	int shares;   /* there may be other steps on the hosts */
};

char **smd_slurm_step_words(const struct smd_slurm_step_request *request);

/* The worker pools that have replicas, in order: component i is of pool pools[i]. */
int smd_slurm_pools(const struct smd_allocation_request *request, int pools[SMD_JOB_POOLS_MAX]);

/* This process's variables without those that Slurm has set for it, and those that change what its
 * commands do. NULL: out of memory. */
char **smd_slurm_environment(void);

#endif
