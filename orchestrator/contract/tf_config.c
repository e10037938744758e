/* TF_CONFIG: the cluster as TensorFlow names it, on every replica of a distributed job. */
#include <errno.h>

#include "orchestrator/contract/contract.h"

/* The name of a role's task; NULL: the role has no part in TensorFlow's cluster at all. */
static const char *task_type(enum smd_role role)
{
	switch (role) {
	case SMD_ROLE_CHIEF:
		return "chief";
	case SMD_ROLE_WORKER:
		return "worker";
	case SMD_ROLE_PARAMETER_SERVER:
		return "ps";
	case SMD_ROLE_EVALUATOR:
		return "evaluator";
	case SMD_ROLE_REDUCTION_SERVER: /* MultiWorkerMirroredStrategy refuses a cluster with ps */
	case SMD_ROLE_COUNT:
		break;
	}
	return NULL;
}

int smd_tf_config_prepare(struct smd_contract *contract)
{
	const struct smd_job *job = contract->job;
	json_t *cluster;
	int failed;

	if (smd_job_replica_count(job) < 2) {
		return 0;
	}
	cluster = json_object();
	failed = !cluster;
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !failed; pool++) {
		const char *type = task_type(job->pools[pool].role);

		/* TensorFlow never counts an evaluator as a part of the cluster. */
		if (job->pools[pool].replica_count > 0 && type &&
			job->pools[pool].role != SMD_ROLE_EVALUATOR) {
			failed = json_object_set_new(cluster, type,
				smd_placement_pool_json(job, contract->placement, pool));
		}
	}
	if (!failed) {
		contract->tf_cluster = json_dumps(cluster, JSON_COMPACT | JSON_SORT_KEYS);
	}
	json_decref(cluster);
	return contract->tf_cluster ? 0 : -ENOMEM;
}

int smd_tf_config_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out)
{
	const struct smd_job *job = contract->job;
	const char *type = task_type(job->pools[pool].role);
	const char *trial = job->trial;

	if (!contract->tf_cluster || !type) {
		return 0;
	}
	return smd_environment_set(out, "TF_CONFIG",
		"{\"cluster\":%s,\"environment\":\"cloud\",\"job\":%s,"
		"\"task\":{\"cloud\":\"%s\",\"index\":%d%s%s%s,\"type\":\"%s\"}}",
		contract->tf_cluster, contract->spec, job->id, index, trial ? ",\"trial\":\"" : "",
		trial ? trial : "", trial ? "\"" : "", type);
}
