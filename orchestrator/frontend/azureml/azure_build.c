/* Builds the CustomJob's document of a command job of Azure ML. */
#include <errno.h>
#include <stdio.h>

#include "orchestrator/frontend/azureml/azure_job.h"
#include "orchestrator/frontend/setting.h"

#define IMAGE_DEFAULT "azureml"
#define NAME_DEFAULT  "command-job"

/* The document on its way to a CustomJob. */
struct azure_builder {
	int ret; /* -ENOMEM once memory ran out */
	const struct smd_azure_job *job;
	const char *line; /* what the shell gets */
	struct smd_source_position at;
	const struct smd_node *distribution; /* the document's, or the document */
	struct smd_source_position machine_at;
};

static struct smd_node *add(struct azure_builder *builder, struct smd_node *parent, const char *key,
	enum smd_node_type type)
{
	struct smd_node *node = parent ? smd_node_create(parent, key, type, builder->at) : NULL;

	if (!node) {
		builder->ret = -ENOMEM;
	}
	return node;
}

static void add_string(
	struct azure_builder *builder, struct smd_node *parent, const char *key, const char *text)
{
	if (!parent || !smd_node_create_string(parent, key, text, builder->at)) {
		builder->ret = -ENOMEM;
	}
}

static void add_env(struct azure_builder *builder, struct smd_node *container)
{
	const struct smd_azure_job *job = builder->job;
	struct smd_node *env = job->nenv ? add(builder, container, "env", SMD_NODE_ARRAY) : NULL;

	for (size_t i = 0; env && i < job->nenv; i++) {
		struct smd_node *variable = add(builder, env, NULL, SMD_NODE_OBJECT);

		add_string(builder, variable, "name", job->env[i].name);
		add_string(builder, variable, "value", job->env[i].value);
	}
}

/* What is said of the type is said of the document, where no such path is. */
static void add_machine(struct azure_builder *builder, struct smd_node *pool)
{
	const char *type = builder->job->instance_type;
	struct smd_node *spec;
	struct smd_node *machine;

	if (!type) {
		return;
	}
	spec = add(builder, pool, "machineSpec", SMD_NODE_OBJECT);
	machine = spec ? smd_node_create_string(spec, "machineType", type, builder->machine_at)
		       : NULL;
	if (machine) {
		machine->is_root = 1;
	} else {
		builder->ret = -ENOMEM;
	}
}

static void add_pool(struct azure_builder *builder, struct smd_node *pools, int count)
{
	const struct smd_azure_job *job = builder->job;
	struct smd_node *pool = add(builder, pools, NULL, SMD_NODE_OBJECT);
	struct smd_node *container;
	struct smd_node *command;
	struct smd_node *number;

	if (!pool || count == 0) {
		return;
	}
	add_machine(builder, pool);
	number = add(builder, pool, "replicaCount", SMD_NODE_INTEGER);
	if (number) {
		number->number.integer = count;
	}
	container = add(builder, pool, "containerSpec", SMD_NODE_OBJECT);
	add_string(builder, container, "imageUri", job->image ? job->image : IMAGE_DEFAULT);
	command = container ? add(builder, container, "command", SMD_NODE_ARRAY) : NULL;
	add_string(builder, command, NULL, "bash");
	add_string(builder, command, NULL, "-c");
	add_string(builder, command, NULL, builder->line);
	if (container) {
		add_env(builder, container);
	}
}

static void add_pools(struct azure_builder *builder, struct smd_node *spec)
{
	const struct smd_azure_job *job = builder->job;
	struct smd_node *pools = add(builder, spec, "workerPoolSpecs", SMD_NODE_ARRAY);
	int nodes = job->distribution == SMD_AZURE_TENSORFLOW && job->worker_count
			    ? job->worker_count
			    : job->instance_count;

	add_pool(builder, pools, 1);
	if (nodes > 1 || job->parameter_server_count > 0) {
		add_pool(builder, pools, nodes - 1);
	}
	if (job->parameter_server_count > 0) {
		add_pool(builder, pools, job->parameter_server_count);
	}
}

static void add_labels(struct azure_builder *builder, struct smd_node *root)
{
	const struct smd_azure_job *job = builder->job;
	struct smd_node *labels = add(builder, root, "labels", SMD_NODE_OBJECT);
	char number[16];

	add_string(builder, labels, SMD_SETTING_PREFIX "platform", "azureml");
	if (labels && job->distribution != SMD_AZURE_NO_DISTRIBUTION &&
		!smd_node_create_string(labels, SMD_SETTING_PREFIX "distribution",
			smd_azure_distributions[job->distribution - SMD_AZURE_PYTORCH],
			builder->distribution->at)) {
		builder->ret = -ENOMEM;
	}
	if (job->processes > 1) {
		snprintf(number, sizeof(number), "%d", job->processes);
		add_string(builder, labels, SMD_SETTING_PREFIX "processes-per-replica", number);
	}
}

static void build(struct azure_builder *builder, struct smd_node *root, int has_outputs)
{
	const struct smd_azure_job *job = builder->job;
	struct smd_node *spec;
	char timeout[16];

	add_string(builder, root, "displayName",
		job->display_name ? job->display_name
		: job->name       ? job->name
				  : NAME_DEFAULT);
	add_labels(builder, root);
	spec = add(builder, root, "jobSpec", SMD_NODE_OBJECT);
	add_pools(builder, spec);
	if (job->timeout_s > 0) {
		snprintf(timeout, sizeof(timeout), "%ds", job->timeout_s);
		add_string(builder, add(builder, spec, "scheduling", SMD_NODE_OBJECT), "timeout",
			timeout);
	}
	if (has_outputs) {
		add_string(builder, add(builder, spec, "baseOutputDirectory", SMD_NODE_OBJECT),
			"outputUriPrefix", "azureml://outputs");
	}
}

/* Version 2's, or that of a run configuration; `otherwise` where it has none. */
static struct smd_source_position machine_at(
	const struct smd_node *document, struct smd_source_position otherwise)
{
	const struct smd_node *resources = smd_node_member(document, "resources");
	const struct smd_node *compute = smd_node_member(document, "amlcompute");
	const struct smd_node *type = resources ? smd_node_member(resources, "instance_type") : NULL;

	if (!type && compute) {
		type = smd_node_member(compute, "vmSize");
	}
	return type ? type->at : otherwise;
}

int smd_azure_job_build(const struct smd_azure_job *job, const char *line,
	const struct smd_node *document, struct smd_node **out)
{
	const struct smd_node *command = smd_node_member(document, "command");
	const struct smd_node *distribution = smd_node_member(document, "distribution");
	struct azure_builder builder = {.job = job,
		.line = line,
		.at = command ? command->at : document->at,
		.distribution = distribution ? distribution : document};
	struct smd_node *root = smd_node_create(NULL, NULL, SMD_NODE_OBJECT, builder.at);

	if (!root) {
		return -ENOMEM;
	}
	builder.machine_at = machine_at(document, builder.at);
	build(&builder, root, smd_node_member(document, "outputs") != NULL);
	if (builder.ret) {
		smd_node_free(root);
		return builder.ret;
	}
	*out = root;
	return 0;
}
