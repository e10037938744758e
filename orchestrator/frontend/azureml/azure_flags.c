/* Spreads a program over nodes as Azure ML's first version does. */
#include "orchestrator/frontend/azureml/azure_flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/setting.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"

#define COUNT_MAX     100000
#define PROCESS_COUNT "process_count"

/* A count among a flag's keys. */
struct count {
	const char *key;
	int min;
	int value; /* its default, then what was given */
	int given;
};

static void take_count(struct smd_job_edit *edit, const struct smd_flag_value *flag,
	struct count *counts, size_t ncounts, const char *key, const char *text)
{
	const char *names[] = {counts[0].key, counts[1].key};
	const char *near = smd_suggest(key, names, ncounts);
	uint64_t number;

	for (size_t i = 0; i < ncounts; i++) {
		if (strcmp(key, counts[i].key) != 0) {
			continue;
		}
		if (smd_parse_number(text, (uint64_t)counts[i].min, COUNT_MAX, &number)) {
			smd_edit_refuse(edit, flag->at,
				"%s must be a whole number from %d to %d, got \"%s\"", key,
				counts[i].min, COUNT_MAX, text);
		} else {
			counts[i].value = (int)number;
			counts[i].given = 1;
		}
		return;
	}
	if (strncmp(key, PROCESS_COUNT, sizeof(PROCESS_COUNT) - 1) == 0) {
		smd_edit_refuse(edit, flag->at,
			"valid keys are [%s, %s]; received: %s. PyTorchConfiguration's "
			"process_count is the total of all nodes; MpiConfiguration's "
			"process_count_per_node is that of each node.",
			counts[0].key, counts[1].key, key);
		return;
	}
	smd_edit_refuse(edit, flag->at, "valid keys are [%s, %s]; received: %s%s%s%s",
		counts[0].key, counts[1].key, key, near ? "; did you mean " : "", near ? near : "",
		near ? "?" : "");
}

/* 0: all are right. */
static int take_counts(
	struct smd_job_edit *edit, const struct smd_flag_value *flag, struct count counts[2])
{
	size_t errors = edit->diagnostics->found[SMD_SEVERITY_ERROR];
	struct smd_error error = {""};
	struct smd_flag_items items;
	int ret = smd_flag_dictionary(flag->value, &items, &error);

	if (ret) {
		smd_edit_refuse(edit, flag->at, "%s", error.text);
		return ret;
	}
	for (size_t i = 0; i < items.count; i++) {
		take_count(edit, flag, counts, 2, items.keys[i], items.values[i]);
	}
	smd_flag_items_free(&items);
	return edit->diagnostics->found[SMD_SEVERITY_ERROR] > errors ? -EINVAL : 0;
}

static void put_setting(struct smd_job_edit *edit, const char *setting, const char *value,
	struct smd_source_position at)
{
	char name[64];

	snprintf(name, sizeof(name), SMD_SETTING_PREFIX "%s", setting);
	smd_edit_put_label(edit, name, value, at);
}

/* COUNT replicas of worker pool 0's configuration, as the next pool; none: an empty pool. */
static void append_pool(
	struct smd_job_edit *edit, struct smd_node *pools, int count, struct smd_source_position at)
{
	struct smd_node *pool = count > 0 ? smd_node_copy(pools, pools->first)
					  : smd_node_create(pools, NULL, SMD_NODE_OBJECT, at);
	struct smd_node *number =
		count > 0 ? smd_edit_put(edit, pool, "replicaCount", SMD_NODE_INTEGER, at) : NULL;

	if (!pool) {
		edit->ret = -ENOMEM;
	}
	if (number) {
		number->number.integer = count;
	}
}

static void spread(struct smd_job_edit *edit, const struct smd_flag_value *flag,
	const char *distribution, int workers, int servers)
{
	struct smd_node *pools = (struct smd_node *)smd_node_member(edit->spec, "workerPoolSpecs");

	if (!pools || pools->type != SMD_NODE_ARRAY || pools->count != 1) {
		smd_edit_refuse(edit, flag->at,
			"must spread one worker pool over its nodes, got %zu worker pools",
			pools && pools->type == SMD_NODE_ARRAY ? pools->count : 0);
		return;
	}
	put_setting(edit, "platform", "azureml", flag->at);
	edit->has_shell_arguments = 1; /* version 1 starts the script by a shell */
	put_setting(edit, "distribution", distribution, flag->at);
	if (workers > 1 || servers > 0) {
		append_pool(edit, pools, workers - 1, flag->at);
	}
	if (servers > 0) {
		append_pool(edit, pools, servers, flag->at);
	}
}

static void put_processes(struct smd_job_edit *edit, int processes, struct smd_source_position at)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", processes);
	put_setting(edit, "processes-per-replica", number, at);
}

static void apply_pytorch(struct smd_job_edit *edit, const struct smd_job_flag *row,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *flag = &values[count - 1];
	struct count counts[] = {{"process_count", 1, 1, 0}, {"node_count", 1, 1, 0}};
	int processes;
	int nodes;

	(void)row;
	if (take_counts(edit, flag, counts)) {
		return;
	}
	nodes = counts[1].value;
	processes = counts[0].given ? counts[0].value : nodes;
	if (processes % nodes != 0) {
		smd_edit_refuse(edit, flag->at,
			"process_count is the total of all nodes, so it must be a multiple of "
			"node_count %d, got %d; for %d process%s on each node write "
			"process_count=%d",
			nodes, processes, processes, processes == 1 ? "" : "es", processes * nodes);
		return;
	}
	spread(edit, flag, "pytorch", nodes, 0);
	put_processes(edit, processes / nodes, flag->at);
}

static void apply_mpi(struct smd_job_edit *edit, const struct smd_job_flag *row,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *flag = &values[count - 1];
	struct count counts[] = {{"process_count_per_node", 1, 1, 0}, {"node_count", 1, 1, 0}};

	(void)row;
	if (!take_counts(edit, flag, counts)) {
		spread(edit, flag, "mpi", counts[1].value, 0);
		put_processes(edit, counts[0].value, flag->at);
	}
}

static void apply_tensorflow(struct smd_job_edit *edit, const struct smd_job_flag *row,
	const struct smd_flag_value *values, size_t count)
{
	const struct smd_flag_value *flag = &values[count - 1];
	struct count counts[] = {{"worker_count", 1, 1, 0}, {"parameter_server_count", 0, 0, 0}};

	(void)row;
	if (!take_counts(edit, flag, counts)) {
		spread(edit, flag, "tensorflow", counts[0].value, counts[1].value);
	}
}

/* Azure ML's first version. */
static const struct smd_job_flag rows[] = {
	SMD_FLAG("pytorch-configuration", "process_count=N,node_count=N",
		"run pool 0 on N nodes; process_count is that of all nodes", apply_pytorch),
	SMD_FLAG("mpi-configuration", "process_count_per_node=N,node_count=N",
		"run pool 0 on N nodes, under MPI", apply_mpi),
	SMD_FLAG("tensorflow-configuration", "worker_count=N,parameter_server_count=N",
		"run pool 0 on N workers, and on parameter servers", apply_tensorflow),
};
const struct smd_flag_family smd_azure_flags = SMD_FLAG_FAMILY(rows);
