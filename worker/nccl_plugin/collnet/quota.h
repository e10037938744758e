/*
 * How much of the host's processors control groups let a rank use (cgroups, version 2 and 1), as of
 * a container with a limit.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_QUOTA_H
#define SMD_NCCL_PLUGIN_COLLNET_QUOTA_H

#include <stdint.h>

#include "worker/nccl_plugin/collnet/local_ranks.h"

#define SMD_QUOTA_NONE UINT64_MAX

/*
 * In thousandths of a processor. Of each group that this process is in, or that is around that: a
 * group that the launcher is in too holds all ranks, so a rank has its part; another one is the
 * rank's own.
 */
uint64_t smd_quota_find(const struct smd_local_ranks *ranks);

/* The same, of the groups in this file (/proc/self/cgroup) and the launcher's in that, mounted in
 * this folder. */
uint64_t smd_quota_find_in(
	const char *groups, const char *launchers, const char *mount, unsigned nranks);

#endif
