/*
 * OMPI_*: a process's place as Open MPI's mpirun tells it, for programs that read it there; or what
 * summand-mpi needs to have one mpirun start the processes of all replicas.
 *
 * A launcher gets none of the first: if it is mpirun, it sets them itself.
 */
#include <errno.h>
#include <stdlib.h>

#include "orchestrator/contract/contract.h"

/* All replicas with their addresses, for the chief. */
static int add_nodes(const struct smd_contract *contract, struct smd_environment *out)
{
	char *text = NULL;
	size_t length = 0;
	FILE *list = open_memstream(&text, &length);
	int failed = !list;
	int ret;

	for (int pool = 0; list && pool <= 1; pool++) {
		for (int i = 0; i < contract->job->pools[pool].replica_count; i++) {
			char name[SMD_REPLICA_NAME_MAX];

			smd_replica_name(name, pool, i);
			fprintf(list, "%s%s=%s", pool || i ? "," : "", name,
				contract->placement->endpoints[pool][i]);
		}
	}
	failed |= list && fclose(list);
	ret = failed ? -ENOMEM : smd_environment_set(out, "SUMMAND_MPI_NODES", "%s", text);
	free(text);
	return ret;
}

static int add_mpirun(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	const char *token =
		smd_placement_token_file(contract->placement, position->pool, position->index);
	int ret = position->pool == 0 ? add_nodes(contract, out) : 0;

	return ret || !token ? ret
			     : smd_environment_set(out, "SUMMAND_MPI_TOKEN_FILE", "%s", token);
}

int smd_mpi_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	const struct {
		const char *name;
		int value;
	} variables[] = {
		{"OMPI_COMM_WORLD_RANK", smd_world_rank(contract, position)},
		{"OMPI_COMM_WORLD_SIZE", smd_world_size(contract)},
		{"OMPI_COMM_WORLD_LOCAL_RANK", position->process},
		{"OMPI_COMM_WORLD_LOCAL_SIZE", contract->node_processes},
		/* Open MPI's is the rank among the node's processes, not that of the node. */
		{"OMPI_COMM_WORLD_NODE_RANK", position->process},
		{"OMPI_UNIVERSE_SIZE", smd_world_size(contract)},
	};
	int ret = 0;

	if (!smd_world_has(position) || contract->job->launch == SMD_LAUNCH_NODE) {
		return 0;
	}
	if (contract->job->launch == SMD_LAUNCH_MPIRUN) {
		return add_mpirun(contract, position, out);
	}
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !ret; i++) {
		ret = smd_environment_set(out, variables[i].name, "%d", variables[i].value);
	}
	return ret;
}
