/* Compares a spec's own variables with those of the job's contract. */
#include "orchestrator/intake/own_variables.h"

#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/document/decode.h"
#include "orchestrator/intake/machines.h"

#define DEVICES "CUDA_VISIBLE_DEVICES"

/* NCCL's settings are a user's too: a job with reduction servers only has other defaults. */
static int is_setting(const char *name)
{
	static const char *const settings[] = {
		"NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_COLLNET_ENABLE"};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strcmp(name, settings[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

/* The contract has the interface only where replicas are placed on this machine. */
static int is_interface(const char *name)
{
	return strcmp(name, "NCCL_SOCKET_IFNAME") == 0 || strcmp(name, "GLOO_SOCKET_IFNAME") == 0;
}

static const char *name_of(const struct smd_node *variable)
{
	const struct smd_node *name = smd_node_member(variable, "name");

	return name && name->type == SMD_NODE_STRING ? name->string : NULL;
}

/* Whether the list names it, before `end` or anywhere. */
static int has_name(const struct smd_node *list, const struct smd_node *end, const char *name)
{
	for (const struct smd_node *other = list->first; other != end; other = other->next) {
		const char *given = name_of(other);

		if (given && strcmp(given, name) == 0) {
			return 1;
		}
	}
	return 0;
}

/* Set after the spec's own variables, whose value is lost then. */
static int is_runners(const char *name, const struct smd_node *list)
{
	return strcmp(name, "SUMMAND_RESTARTS") == 0 || strcmp(name, "SUMMAND_ATTEMPT") == 0 ||
	       strcmp(name, "SUMMAND_NOTIFY_FD") == 0 ||
	       (strcmp(name, "TORCHELASTIC_RESTART_COUNT") == 0 &&
		       has_name(list, NULL, "TORCHELASTIC_RUN_ID"));
}

/* A runner places all replicas of a job as soon as one of them has accelerators. */
static int has_accelerators(const struct smd_job *job)
{
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &job->pools[i];

		if (pool->replica_count > 0 && pool->accelerator_count > 0 &&
			!smd_job_pool_has_tpus(pool)) {
			return 1;
		}
	}
	return 0;
}

static void check_variable(const struct smd_job *job, const struct smd_node *list,
	const struct smd_node *variable, const struct smd_environment *set, int has_world,
	struct smd_diagnostics *diagnostics)
{
	const char *name = name_of(variable);

	if (!name) {
		return;
	}
	if (has_name(list, variable, name)) {
		smd_warning_at_value(diagnostics, variable,
			"%s is there already: the value that stands last is taken", name);
	}
	if (strcmp(name, DEVICES) == 0 && has_accelerators(job)) {
		smd_warning_at_value(diagnostics, variable,
			DEVICES " is replaced by the GPUs that each replica is given here, as many "
				"as its accelerators");
	}
	if (is_runners(name, list)) {
		smd_warning_at_value(diagnostics, variable,
			"%s is set by the runner: the value here is not used", name);
	} else if (is_interface(name) && has_world) {
		smd_warning_at_value(diagnostics, variable,
			"%s takes the place of lo, by which the replicas reach each other on this "
			"machine",
			name);
	} else if (smd_environment_get(set, name) && !is_setting(name)) {
		smd_warning_at_value(diagnostics, variable,
			"%s takes the place of the value that the job gives each replica", name);
	}
}

static int check_pool(const struct smd_job *job, const struct smd_contract *contract,
	const struct smd_node *pool, struct smd_diagnostics *diagnostics)
{
	const struct smd_node *task = smd_node_member(pool, "containerSpec");
	const struct smd_node *list;
	struct smd_environment set;
	int ret;

	task = task ? task : smd_node_member(pool, "pythonPackageSpec");
	list = task ? smd_node_member(task, "env") : NULL;
	if (!list || list->type != SMD_NODE_ARRAY) {
		return 0;
	}
	ret = smd_contract_environment(contract, (int)pool->index, 0, 0, &set);
	if (ret) {
		return ret;
	}
	for (const struct smd_node *variable = list->first; variable; variable = variable->next) {
		check_variable(job, list, variable, &set, pool->index <= 1, diagnostics);
	}
	smd_environment_free(&set);
	return 0;
}

/* The job as it is without variables of its own; it borrows from the job. */
static struct smd_job without_own(const struct smd_job *job)
{
	struct smd_job bare = *job;

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		bare.pools[i].nenv = 0;
	}
	return bare;
}

int smd_own_variables_check(const struct smd_job *job, const struct smd_node *document,
	struct smd_diagnostics *diagnostics)
{
	const struct smd_node *pools = smd_machines_pools(document);
	const struct smd_job bare = without_own(job);
	struct smd_placement placement;
	struct smd_contract *contract;
	int ret = smd_placement_vertex(&bare, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(&bare, &placement, &contract);
	if (ret) {
		goto free_placement;
	}
	for (const struct smd_node *pool = pools->first; pool && !ret; pool = pool->next) {
		if (job->pools[pool->index].replica_count > 0) {
			ret = check_pool(job, contract, pool, diagnostics);
		}
	}
	smd_contract_free(contract);
free_placement:
	smd_placement_free(&placement);
	return ret;
}
