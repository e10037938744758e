/* CLUSTER_SPEC: the whole cluster by worker pool, and the replica's place in it. */
#include <errno.h>
#include <stdio.h>

#include "orchestrator/contract/contract.h"

/* Only pools with replicas have a key, and a pool keeps its number whatever is before it. */
int smd_cluster_spec_prepare(struct smd_contract *contract)
{
	const struct smd_job *job = contract->job;
	json_t *cluster = json_object();
	int failed = !cluster;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !failed; pool++) {
		char key[SMD_REPLICA_NAME_MAX];

		if (job->pools[pool].replica_count > 0) {
			snprintf(key, sizeof(key), "workerpool%d", pool);
			failed = json_object_set_new(cluster, key,
				smd_placement_pool_json(job, contract->placement, pool));
		}
	}
	if (!failed) {
		contract->cluster = json_dumps(cluster, JSON_COMPACT);
		contract->spec = json_dumps(job->spec, JSON_COMPACT);
	}
	json_decref(cluster);
	return contract->cluster && contract->spec ? 0 : -ENOMEM;
}

int smd_cluster_spec_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out)
{
	const char *trial = contract->job->trial;

	return smd_environment_set(out, "CLUSTER_SPEC",
		"{\"cluster\":%s,\"environment\":\"cloud\","
		"\"task\":{\"type\":\"workerpool%d\",\"index\":%d%s%s%s},\"job\":%s}",
		contract->cluster, pool, index, trial ? ",\"trial\":\"" : "", trial ? trial : "",
		trial ? "\"" : "", contract->spec);
}
