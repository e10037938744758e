/* Checks a spec's accelerators against the machine catalogue. */
#include "orchestrator/cli/machines.h"

#include "orchestrator/document/decode.h"

#define TEXT_MAX 512

const struct smd_node *smd_machines_pools(const struct smd_node *document)
{
	const struct smd_node *spec = smd_node_member(document, "jobSpec");

	spec = spec ? spec : smd_node_member(document, "trialJobSpec");
	return smd_node_member(spec ? spec : document, "workerPoolSpecs");
}

static void check_pool(const struct smd_catalogue *catalogue, const struct smd_job_pool *pool,
	const struct smd_node *node, struct smd_diagnostics *diagnostics)
{
	const struct smd_node *machine = smd_node_member(node, "machineSpec");
	const struct smd_node *type = machine ? smd_node_member(machine, "acceleratorType") : NULL;
	const struct smd_node *count =
		machine ? smd_node_member(machine, "acceleratorCount") : NULL;
	enum smd_machine_part wrong;
	char text[TEXT_MAX];

	if (!type || pool->replica_count == 0 || !pool->machine_type || !pool->accelerator_type ||
		pool->accelerator_count == 0) {
		return;
	}
	wrong = smd_catalogue_check_accelerators(catalogue, pool->machine_type,
		pool->accelerator_type, pool->accelerator_count, text, sizeof(text));
	if (wrong != SMD_MACHINE_RIGHT) {
		smd_error_at_value(diagnostics,
			wrong == SMD_MACHINE_ACCELERATOR_COUNT && count ? count : type, "%s", text);
	}
}

void smd_machines_check(const struct smd_catalogue *catalogue, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics)
{
	const struct smd_node *pools = smd_machines_pools(document);

	for (const struct smd_node *pool = pools ? pools->first : NULL; pool; pool = pool->next) {
		if (pool->index < SMD_JOB_POOLS_MAX) {
			check_pool(catalogue, &job->pools[pool->index], pool, diagnostics);
		}
	}
}
