/* Finds strings that are too long when expanded, and where they stand. */
#include "orchestrator/intake/overlong.h"

#include "orchestrator/contract/environment.h"
#include "orchestrator/document/decode.h"
#include "orchestrator/intake/machines.h"

struct string_search {
	const struct smd_node *task; /* the pool's containerSpec or pythonPackageSpec */
	struct smd_diagnostics *diagnostics;
};

/* Where the string stands; else the nearest place, for strings that are in no document, such as
 * the arguments of a tuning job's trial. */
static const struct smd_node *find_string(
	const struct smd_node *task, enum smd_spec_part part, size_t place)
{
	static const char *const names[] = {
		[SMD_SPEC_ENV] = "env", [SMD_SPEC_COMMAND] = "command", [SMD_SPEC_ARGS] = "args"};
	const struct smd_node *list = smd_node_member(task, names[part]);
	const struct smd_node *node = list ? list->first : NULL;
	const struct smd_node *value;

	while (node && node->index < place) {
		node = node->next;
	}
	if (!node) {
		return list ? list : task;
	}
	value = smd_node_member(node, "value");
	return value ? value : node;
}

static void refuse(void *arg, enum smd_spec_part part, size_t place)
{
	const struct string_search *search = arg;

	smd_error_at_value(search->diagnostics, find_string(search->task, part, place),
		"must be at most %d bytes long on Linux when expanded, got more",
		SMD_STRING_SIZE_MAX);
}

/* The last process's numbers have the most digits. */
static int check_pool(const struct smd_contract *contract, const struct smd_job *job,
	const struct smd_node *pool, struct smd_diagnostics *diagnostics)
{
	int number = (int)pool->index;
	struct string_search search = {
		.task = smd_node_member(pool, "containerSpec"), .diagnostics = diagnostics};

	search.task = search.task ? search.task : smd_node_member(pool, "pythonPackageSpec");
	return smd_contract_find_overlong(contract, number, job->pools[number].replica_count - 1,
		smd_job_processes(job, number) - 1, refuse, &search);
}

int smd_overlong_check(const struct smd_job *job, const struct smd_node *document,
	struct smd_diagnostics *diagnostics)
{
	const struct smd_node *pools = smd_machines_pools(document);
	struct smd_placement placement;
	struct smd_contract *contract;
	int ret = smd_placement_vertex(job, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(job, &placement, &contract);
	if (ret) {
		goto free_placement;
	}
	for (const struct smd_node *pool = pools->first; pool && !ret; pool = pool->next) {
		if (job->pools[pool->index].replica_count > 0) {
			ret = check_pool(contract, job, pool, diagnostics);
		}
	}
	smd_contract_free(contract);
free_placement:
	smd_placement_free(&placement);
	return ret;
}
