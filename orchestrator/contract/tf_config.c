/* TF_CONFIG: the cluster as TensorFlow names it, on every replica of a distributed job. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define NAME     "TF_CONFIG"
#define REST_MAX 160 /* the longest that stands around cluster, spec, id and trial */

/* The name of a role's task. */
static const char *task_type(const struct smd_job *job, enum smd_role role)
{
	switch (role) {
	case SMD_ROLE_CHIEF:
		if (job->platform == SMD_PLATFORM_AZUREML) {
			return "worker"; /* the first of them; there is no chief */
		}
		return job->chief_name == SMD_CHIEF_NAME_MASTER ? "master" : "chief";
	case SMD_ROLE_WORKER:
		return "worker";
	case SMD_ROLE_PARAMETER_SERVER:
		return "ps";
	case SMD_ROLE_EVALUATOR:
		return "evaluator";
	case SMD_ROLE_REDUCTION_SERVER:
		return "reduction_server";
	case SMD_ROLE_COUNT:
		break;
	}
	return NULL;
}

/* Whether the role's replicas are listed in the cluster. TensorFlow waits for every task that is
 * listed, and neither an evaluator nor a reduction server joins its cluster. */
static int is_member(enum smd_role role)
{
	return role != SMD_ROLE_EVALUATOR && role != SMD_ROLE_REDUCTION_SERVER;
}

static int append_pool(const struct smd_contract *contract, int pool, json_t *cluster)
{
	const struct smd_job *job = contract->job;
	const char *type = task_type(job, job->pools[pool].role);
	json_t *list;

	if (job->pools[pool].replica_count == 0 || !is_member(job->pools[pool].role)) {
		return 0;
	}
	list = json_object_get(cluster, type);
	if (!list) {
		list = json_array();
		if (json_object_set_new(cluster, type, list)) {
			return -ENOMEM;
		}
	}
	return smd_placement_append_pool(job, contract->placement, pool, list);
}

int smd_tf_config_prepare(struct smd_contract *contract)
{
	const struct smd_job *job = contract->job;
	json_t *cluster;
	size_t length;
	int failed;

	if (smd_job_replica_count(job) < 2) {
		return 0;
	}
	cluster = json_object();
	failed = !cluster;
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !failed; pool++) {
		failed = append_pool(contract, pool, cluster);
	}
	if (!failed) {
		contract->tf_cluster = json_dumps(cluster, JSON_COMPACT | JSON_SORT_KEYS);
	}
	json_decref(cluster);
	if (!contract->tf_cluster) {
		return -ENOMEM;
	}
	length = strlen(contract->tf_cluster) + strlen(job->id) +
		 (job->trial ? strlen(job->trial) : 0);
	if (!smd_contract_fits_with_spec(contract, NAME, length + REST_MAX)) {
		free(contract->tf_cluster);
		contract->tf_cluster = NULL;
	}
	return 0;
}

int smd_tf_config_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	const struct smd_job *job = contract->job;
	const char *type = task_type(job, job->pools[position->pool].role);
	const char *trial = job->trial;

	if (!contract->tf_cluster) {
		return 0;
	}
	if (job->platform == SMD_PLATFORM_AZUREML) {
		int is_worker = smd_world_has(position);

		return smd_environment_set(out, NAME,
			"{\"cluster\":%s,\"task\":{\"type\":\"%s\",\"index\":%d},"
			"\"environment\":\"cloud\"}",
			contract->tf_cluster, type,
			is_worker ? smd_world_node(contract, position) : position->index);
	}
	return smd_environment_set(out, NAME,
		"{\"cluster\":%s,\"environment\":\"cloud\"%s,"
		"\"task\":{\"cloud\":\"%s\",\"index\":%d%s%s%s,\"type\":\"%s\"}}",
		contract->tf_cluster, contract->spec, job->id, position->index,
		trial ? ",\"trial\":\"" : "", trial ? trial : "", trial ? "\"" : "", type);
}
