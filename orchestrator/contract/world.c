/* The world of ranks: the processes of the chief and the workers; other pools are outside it. */
#include <errno.h>

#include "orchestrator/contract/contract.h"

#define VERTEX_MASTER_PORT  3333
#define AZUREML_MASTER_PORT 6105

int smd_world_prepare(struct smd_contract *contract)
{
	const struct smd_job *job = contract->job;

	contract->nodes = job->pools[0].replica_count + job->pools[1].replica_count;
	contract->node_processes = smd_job_processes(job, 0);
	contract->master_port = contract->placement->master_port;
	if (contract->master_port == 0) {
		contract->master_port = job->platform == SMD_PLATFORM_AZUREML ? AZUREML_MASTER_PORT
									      : VERTEX_MASTER_PORT;
	}
	contract->master_host = smd_endpoint_host(contract->placement->endpoints[0][0]);
	return contract->master_host ? 0 : -ENOMEM;
}

int smd_world_has(const struct smd_position *position)
{
	return position->pool <= 1;
}

int smd_world_size(const struct smd_contract *contract)
{
	return contract->nodes * contract->node_processes;
}

int smd_world_node(const struct smd_contract *contract, const struct smd_position *position)
{
	return position->pool == 0 ? position->index
				   : contract->job->pools[0].replica_count + position->index;
}

int smd_world_rank(const struct smd_contract *contract, const struct smd_position *position)
{
	return smd_world_node(contract, position) * contract->node_processes + position->process;
}
