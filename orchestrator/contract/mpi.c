/*
 * OMPI_*: a process's place as Open MPI's mpirun tells it, for programs that read it there.
 *
 * A launcher on each node gets none: if it is mpirun, it sets them itself.
 */
#include "orchestrator/contract/contract.h"

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
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !ret; i++) {
		ret = smd_environment_set(out, variables[i].name, "%d", variables[i].value);
	}
	return ret;
}
