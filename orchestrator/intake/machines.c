/* Checks a spec's machines and their accelerators against the machine catalogue. */
#include "orchestrator/intake/machines.h"

#include <string.h>

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

static int is_used(const struct smd_job_pool *pool)
{
	return pool->replica_count > 0 && pool->machine_type;
}

/* Whether an earlier pool has the same machine type, and what is to be said of it was said there.
 */
static int was_met(const struct smd_job *job, int index)
{
	for (int i = 0; i < index; i++) {
		if (is_used(&job->pools[i]) &&
			strcmp(job->pools[i].machine_type, job->pools[index].machine_type) == 0) {
			return 1;
		}
	}
	return 0;
}

static void warn_of_unknown(const struct smd_catalogue *catalogue, const char *machine_type,
	const struct smd_node *type, struct smd_diagnostics *diagnostics)
{
	const char *near = smd_catalogue_suggest(catalogue, machine_type);

	smd_warning_at_value(diagnostics, type,
		"%s is not in the catalogue, so its accelerators and bandwidth cannot be "
		"checked%s%s%s",
		machine_type, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static void warn_of_unnamed(const struct smd_machine *machine, const struct smd_node *type,
	struct smd_diagnostics *diagnostics)
{
	smd_warning_at_value(diagnostics, type,
		"%s has %d %s, which Vertex AI wants named; add acceleratorType: %s and "
		"acceleratorCount: %d",
		machine->name, machine->accelerators, machine->accelerator_type,
		machine->accelerator_type, machine->accelerators);
}

static void warn_of_pool(const struct smd_catalogue *catalogue, const struct smd_job *job,
	const struct smd_node *node, struct smd_diagnostics *diagnostics)
{
	const struct smd_job_pool *pool = &job->pools[node->index];
	const struct smd_node *spec = smd_node_member(node, "machineSpec");
	const struct smd_node *type = spec ? smd_node_member(spec, "machineType") : NULL;
	struct smd_machine machine;

	if (!type || !is_used(pool)) {
		return;
	}
	if (smd_catalogue_find(catalogue, pool->machine_type, NULL, 0, &machine)) {
		if (!was_met(job, (int)node->index)) {
			warn_of_unknown(catalogue, pool->machine_type, type, diagnostics);
		}
	} else if (!machine.is_azure && machine.accelerators > 0 && !pool->accelerator_type) {
		warn_of_unnamed(&machine, type, diagnostics);
	}
}

void smd_machines_warn(const struct smd_catalogue *catalogue, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics)
{
	const struct smd_node *pools = smd_machines_pools(document);

	for (const struct smd_node *pool = pools ? pools->first : NULL; pool; pool = pool->next) {
		if (pool->index < SMD_JOB_POOLS_MAX) {
			warn_of_pool(catalogue, job, pool, diagnostics);
		}
	}
}
