/* CLUSTER_SPEC: the whole cluster by worker pool, and the replica's place in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define NAME     "CLUSTER_SPEC"
#define REST_MAX 160 /* bytes of the longest object around cluster, spec and trial */

/* Only pools with replicas have a key, and a pool keeps its number whatever is before it. */
static json_t *cluster_of(const struct smd_contract *contract)
{
	const struct smd_job *job = contract->job;
	json_t *cluster = json_object();
	int failed = !cluster;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !failed; pool++) {
		char key[SMD_REPLICA_NAME_MAX];
		json_t *list;

		if (job->pools[pool].replica_count == 0) {
			continue;
		}
		list = json_array();
		snprintf(key, sizeof(key), "workerpool%d", pool);
		failed = !list || smd_placement_append_pool(job, contract->placement, pool, list) ||
			 json_object_set(cluster, key, list);
		json_decref(list);
	}
	if (failed) {
		json_decref(cluster);
		return NULL;
	}
	return cluster;
}

int smd_cluster_spec_prepare(struct smd_contract *contract)
{
	const char *trial = contract->job->trial;
	json_t *cluster = cluster_of(contract);
	size_t length;

	contract->cluster = cluster ? json_dumps(cluster, JSON_COMPACT) : NULL;
	json_decref(cluster);
	if (!contract->cluster) {
		return -ENOMEM;
	}
	length = strlen(contract->cluster) + (trial ? strlen(trial) : 0);
	if (!smd_contract_fits_with_spec(contract, NAME, length + REST_MAX)) {
		free(contract->cluster);
		contract->cluster = NULL;
	}
	return 0;
}

int smd_cluster_spec_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	const char *trial = contract->job->trial;
	char ports[32] = "";

	if (!contract->cluster) {
		return 0;
	}
	if (contract->job->job_encoding == SMD_JOB_ENCODING_STRING) {
		snprintf(ports, sizeof(ports), ",\"open_ports\":[%u]", contract->master_port);
	}
	return smd_environment_set(out, NAME,
		"{\"cluster\":%s,\"environment\":\"cloud\","
		"\"task\":{\"type\":\"workerpool%d\",\"index\":%d%s%s%s}%s%s}",
		contract->cluster, position->pool, position->index, trial ? ",\"trial\":\"" : "",
		trial ? trial : "", trial ? "\"" : "", contract->spec, ports);
}
