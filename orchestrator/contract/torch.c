/* MASTER_ADDR, RANK and their kin: torch.distributed's rendezvous, one process per replica. */
#include <errno.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

#define VERTEX_MASTER_PORT 3333

/* torch.distributed spans the chief and the workers; other pools are outside its world. */
static int world_size(const struct smd_job *job)
{
	return job->pools[0].replica_count + job->pools[1].replica_count;
}

/* "host:port" or "[v6 address]:port": the host alone. */
int smd_torch_prepare(struct smd_contract *contract)
{
	const char *endpoint;
	const char *colon;
	size_t length;

	if (world_size(contract->job) < 2) {
		return 0;
	}
	endpoint = contract->placement->endpoints[0][0];
	colon = strrchr(endpoint, ':');
	length = colon ? (size_t)(colon - endpoint) : strlen(endpoint);
	if (length > 2 && endpoint[0] == '[' && endpoint[length - 1] == ']') {
		endpoint++;
		length -= 2;
	}
	contract->master_host = strndup(endpoint, length);
	return contract->master_host ? 0 : -ENOMEM;
}

int smd_torch_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out)
{
	const struct smd_job *job = contract->job;
	unsigned port = contract->placement->master_port;
	int rank = pool == 0 ? index : job->pools[0].replica_count + index;
	int ret;

	if (!contract->master_host || pool > 1) {
		return 0;
	}
	ret = smd_environment_set(out, "MASTER_ADDR", "%s", contract->master_host);
	ret = ret ? ret
		  : smd_environment_set(out, "MASTER_PORT", "%u", port ? port : VERTEX_MASTER_PORT);
	ret = ret ? ret : smd_environment_set(out, "RANK", "%d", rank);
	ret = ret ? ret : smd_environment_set(out, "WORLD_SIZE", "%d", world_size(job));
	/* Vertex AI leaves these unset, and a program that reads them then takes node 0 for itself
	 * on every replica. */
	ret = ret ? ret : smd_environment_set(out, "NODE_RANK", "%d", rank);
	ret = ret ? ret : smd_environment_set(out, "GROUP_RANK", "%d", rank);
	ret = ret ? ret : smd_environment_set(out, "LOCAL_RANK", "0");
	return ret ? ret : smd_environment_set(out, "LOCAL_WORLD_SIZE", "1");
}
