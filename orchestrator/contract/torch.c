/*
 * MASTER_ADDR, RANK and their kin: torch.distributed's rendezvous.
 *
 * Per process, a replica's every process is a rank. Per node, its one command is a launcher that
 * starts the ranks (torchrun, torch.distributed.launch, Lightning, accelerate): ranks are those of
 * nodes, LOCAL_RANK stays unset, because Lightning takes it as the sign that somebody else starts
 * the processes, and PET_* are torchrun's own options as variables. With one mpirun for all
 * replicas a rank learns its place from that: its replica knows only which node it is.
 */
#include "orchestrator/contract/contract.h"

/* Vertex AI sets none where there is nobody to meet; a job that asks for PyTorch gets them. */
static int is_wanted(const struct smd_contract *contract)
{
	return contract->job->distribution == SMD_DISTRIBUTION_PYTORCH ||
	       smd_world_size(contract) > 1 || contract->job->processes_per_replica > 1;
}

static int add_process(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	int ret = smd_environment_set(out, "LOCAL_RANK", "%d", position->process);

	return ret ? ret
		   : smd_environment_set(out, "LOCAL_WORLD_SIZE", "%d", contract->node_processes);
}

static int add_launcher(const struct smd_contract *contract, int node, struct smd_environment *out)
{
	int ret = smd_environment_set(out, "PET_NNODES", "%d", contract->nodes);

	ret = ret ? ret
		  : smd_environment_set(
			    out, "PET_NPROC_PER_NODE", "%d", contract->job->processes_per_replica);
	ret = ret ? ret : smd_environment_set(out, "PET_NODE_RANK", "%d", node);
	ret = ret ? ret : smd_environment_set(out, "PET_MASTER_ADDR", "%s", contract->master_host);
	return ret ? ret : smd_environment_set(out, "PET_MASTER_PORT", "%u", contract->master_port);
}

static int add_rank(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	int ret = smd_environment_set(out, "RANK", "%d", smd_world_rank(contract, position));

	return ret ? ret : smd_environment_set(out, "WORLD_SIZE", "%d", smd_world_size(contract));
}

int smd_torch_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out)
{
	int node;
	int ret;

	if (!smd_world_has(position) || !is_wanted(contract)) {
		return 0;
	}
	node = smd_world_node(contract, position);
	ret = smd_environment_set(out, "MASTER_ADDR", "%s", contract->master_host);
	ret = ret ? ret : smd_environment_set(out, "MASTER_PORT", "%u", contract->master_port);
	if (!ret && contract->job->launch != SMD_LAUNCH_MPIRUN) {
		ret = add_rank(contract, position, out);
	}
	/* Vertex AI leaves these unset, and a program that reads them then takes node 0 for itself
	 * on every replica. */
	ret = ret ? ret : smd_environment_set(out, "NODE_RANK", "%d", node);
	ret = ret ? ret : smd_environment_set(out, "GROUP_RANK", "%d", node);
	if (ret || contract->job->launch == SMD_LAUNCH_MPIRUN) {
		return ret;
	}
	return contract->job->launch == SMD_LAUNCH_NODE ? add_launcher(contract, node, out)
							: add_process(contract, position, out);
}
