/* Asks the kernel what this process may use, and what its launcher may. */
#include "worker/nccl_plugin/collnet/processors.h"

#include <stdbool.h>
#include <unistd.h>

#include "worker/nccl_plugin/collnet/local_ranks.h"
#include "worker/nccl_plugin/collnet/quota.h"

static unsigned least(unsigned a, uint64_t b)
{
	return a < b ? a : (unsigned)b;
}

unsigned smd_processors_part(const struct smd_processors *processors)
{
	unsigned part = least(processors->usable, processors->pool / processors->nranks);

	return least(part, processors->quota / 1000);
}

unsigned smd_processors_pool(const cpu_set_t *own, const cpu_set_t *launchers, unsigned online)
{
	cpu_set_t both;

	if (!launchers) {
		return online;
	}
	CPU_AND(&both, own, launchers);
	return CPU_EQUAL(&both, own) ? (unsigned)CPU_COUNT(launchers) : online;
}

unsigned smd_processors_own(void)
{
	unsigned online = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	struct smd_processors processors;
	struct smd_local_ranks ranks;
	cpu_set_t launchers;
	cpu_set_t own;
	bool seen;

	if (sched_getaffinity(0, sizeof(own), &own) != 0) {
		return 1;
	}
	smd_local_ranks_find(&ranks);
	seen = ranks.launcher &&
	       sched_getaffinity(ranks.launcher, sizeof(launchers), &launchers) == 0;
	processors.usable = (unsigned)CPU_COUNT(&own);
	processors.pool = smd_processors_pool(&own, seen ? &launchers : NULL, online);
	processors.nranks = ranks.count;
	processors.quota = smd_quota_find(&ranks);
	return smd_processors_part(&processors);
}
