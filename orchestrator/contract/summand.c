/* SUMMAND_*: the process's own name, and how workers find their reduction servers and are let in.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "orchestrator/contract/contract.h"

#define SERVERS "SUMMAND_REDUCTION_SERVERS"

int smd_summand_prepare(struct smd_contract *contract)
{
	const struct smd_job_pool *pool = &contract->job->pools[2];
	const char *comma = "";
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
		if (smd_placement_has_server(contract->placement, i)) {
			fprintf(list, "%s%s", comma, contract->placement->endpoints[2][i]);
			comma = ",";
		}
	}
	failed = ferror(list);
	failed |= fclose(list);
	if (!failed && !smd_contract_fits(contract, SERVERS, length, SMD_FEWER_SERVERS)) {
		free(contract->reduction_servers);
		contract->reduction_servers = NULL;
	}
	return failed ? -ENOMEM : 0;
}

int smd_summand_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	int processes = smd_job_processes(contract->job, position->pool);
	const char *run_id = contract->placement->job_id;
	const char *token_file =
		smd_placement_token_file(contract->placement, position->pool, position->index);
	const char *servers_file = smd_placement_servers_file(
		contract->placement, position->pool, position->index);
	char name[SMD_REPLICA_NAME_MAX];
	int ret;

	smd_replica_name(name, position->pool, position->index);
	ret = smd_environment_set(out, "SUMMAND_JOB_ID", "%s", run_id ? run_id : contract->job->id);
	ret = ret ? ret : smd_environment_set(out, "SUMMAND_REPLICA", "%s", name);
	if (!ret && contract->output_dir) {
		ret = smd_environment_set(out, "SUMMAND_OUTPUT_DIR", "%s", contract->output_dir);
	}
	if (!ret && processes > 1) {
		ret = smd_environment_set(out, "SUMMAND_PROCESS", "%d", position->process);
	}
	if (!ret && smd_world_has(position) && contract->reduction_servers) {
		ret = smd_environment_set(out, SERVERS, "%s", contract->reduction_servers);
	}
	if (!ret && smd_world_has(position) && servers_file && contract->reduction_servers) {
		ret = smd_environment_set(out, "SUMMAND_SERVERS_FILE", "%s", servers_file);
	}
	if (!ret && smd_world_has(position) && token_file && smd_job_has_servers(contract->job)) {
		ret = smd_environment_set(out, "SUMMAND_TOKEN_FILE", "%s", token_file);
	}
	return ret;
}
