/*
 * The ranks of this host, and what started them: torchrun, mpirun's daemon, srun's, ...
 *
 * What this launcher may use is what all of them share; what a rank has besides, or lacks, it has
 * been given alone.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_LOCAL_RANKS_H
#define SMD_NCCL_PLUGIN_COLLNET_LOCAL_RANKS_H

#include <sys/types.h>

struct smd_local_ranks {
	unsigned count; /* 1: no launcher says how many */
	pid_t launcher; /* 0: it is not in sight, as from a container for each rank */
};

void smd_local_ranks_find(struct smd_local_ranks *ranks);

#endif
