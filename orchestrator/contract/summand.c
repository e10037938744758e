/* SUMMAND_*: the replica's own name, and where its workers find their reduction servers. */
#include <errno.h>
#include <stdio.h>

#include "orchestrator/contract/contract.h"

int smd_summand_prepare(struct smd_contract *contract)
{
	const struct smd_pool *pool = &contract->job->pools[2];
	size_t length;
	FILE *list;
	int failed;

	if (pool->role != SMD_ROLE_REDUCTION_SERVER || pool->replica_count == 0) {
		return 0;
	}
	list = open_memstream(&contract->reduction_servers, &length);
	if (!list) {
		return -ENOMEM;
	}
	for (int i = 0; i < pool->replica_count; i++) {
		fprintf(list, "%s%s", i ? "," : "", contract->placement->endpoints[2][i]);
	}
	failed = ferror(list);
	failed |= fclose(list);
	return failed ? -ENOMEM : 0;
}

int smd_summand_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out)
{
	char name[SMD_REPLICA_NAME_MAX];
	int ret;

	smd_replica_name(name, pool, index);
	ret = smd_environment_set(out, "SUMMAND_JOB_ID", "%s", contract->job->id);
	ret = ret ? ret : smd_environment_set(out, "SUMMAND_REPLICA", "%s", name);
	if (!ret && pool < 2 && contract->reduction_servers) {
		ret = smd_environment_set(
			out, "SUMMAND_REDUCTION_SERVERS", "%s", contract->reduction_servers);
	}
	return ret;
}
