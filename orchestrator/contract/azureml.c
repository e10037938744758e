/*
 * AZUREML_*, AZ_BATCH_* and their kin: what programs on Azure Machine Learning look for.
 *
 * DeepSpeed and others take AZUREML_EXPERIMENT_ID as the sign that they are there, and then find
 * their master in AZ_BATCH_MASTER_NODE, or on a single node in AZ_BATCHAI_MPI_MASTER_NODE.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "orchestrator/contract/contract.h"

#define BATCH_MASTER_PORT 6000
#define NODE_LIST         "AZ_BATCH_NODE_LIST"
#define HOST_LIST         "AZ_BATCH_HOST_LIST"

static int write_hosts(const struct smd_contract *contract, char separator, FILE *list)
{
	for (int pool = 0; pool <= 1; pool++) {
		for (int i = 0; i < contract->job->pools[pool].replica_count; i++) {
			char *host = smd_endpoint_host(contract->placement->endpoints[pool][i]);

			if (!host) {
				return -ENOMEM;
			}
			if (pool > 0 || i > 0) {
				fputc(separator, list);
			}
			fputs(host, list);
			free(host);
		}
	}
	return 0;
}

static int prepare_list(
	struct smd_contract *contract, const char *name, char separator, char **list)
{
	size_t length;
	FILE *file = open_memstream(list, &length);
	int failed;

	if (!file) {
		return -ENOMEM;
	}
	failed = write_hosts(contract, separator, file) || ferror(file);
	failed |= fclose(file);
	if (!failed && !smd_contract_fits(contract, name, length, SMD_FEWER_REPLICAS)) {
		free(*list);
		*list = NULL;
	}
	return failed ? -ENOMEM : 0;
}

int smd_azureml_prepare(struct smd_contract *contract)
{
	int ret = prepare_list(contract, NODE_LIST, ';', &contract->node_list);

	return ret ? ret : prepare_list(contract, HOST_LIST, ',', &contract->host_list);
}

static int add_run(const struct smd_contract *contract, struct smd_environment *out)
{
	const struct smd_job *job = contract->job;
	int ret = smd_environment_set(
		out, "AZUREML_RUN_ID", "%s", job->run_name ? job->run_name : job->id);

	ret = ret ? ret : smd_environment_set(out, "AZUREML_EXPERIMENT_ID", "%s", job->id);
	ret = ret ? ret
		  : smd_environment_set(
			    out, "AZUREML_NODE_COUNT", "%d", smd_job_replica_count(job));
	return ret ? ret : smd_environment_set(out, "NODE_COUNT", "%d", smd_job_replica_count(job));
}

/* On Azure a job on one node has no AZ_BATCH_MASTER_NODE. */
static int add_master(const struct smd_contract *contract, struct smd_environment *out)
{
	unsigned port = contract->placement->master_port;
	int ret =
		smd_environment_set(out, "AZ_BATCHAI_MPI_MASTER_NODE", "%s", contract->master_host);

	if (!ret && contract->nodes > 1) {
		ret = smd_environment_set(out, "AZ_BATCH_MASTER_NODE", "%s:%u",
			contract->master_host, port ? port : BATCH_MASTER_PORT);
	}
	return ret;
}

static int add_node(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	int gpus = contract->job->pools[position->pool].accelerator_count;
	int node = smd_world_node(contract, position);
	int ret = smd_environment_set(
		out, "AZ_BATCH_IS_CURRENT_NODE_MASTER", "%s", node == 0 ? "true" : "false");

	ret = ret ? ret : smd_environment_set(out, "AZ_BATCHAI_TASK_INDEX", "%d", node);
	if (!ret && contract->node_list) {
		ret = smd_environment_set(out, NODE_LIST, "%s", contract->node_list);
	}
	if (!ret && contract->host_list) {
		ret = smd_environment_set(out, HOST_LIST, "%s", contract->host_list);
	}
	if (!ret && gpus > 0) {
		ret = smd_environment_set(out, "AZ_BATCHAI_GPU_COUNT", "%d", gpus);
		ret = ret ? ret : smd_environment_set(out, "GPU_PER_NODE_COUNT", "%d", gpus);
	}
	return ret;
}

int smd_azureml_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	int ret = add_run(contract, out);

	if (ret || !smd_world_has(position)) {
		return ret;
	}
	ret = add_master(contract, out);
	return ret ? ret : add_node(contract, position, out);
}
