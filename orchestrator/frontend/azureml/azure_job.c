/* Decodes a command job of Azure ML, by its table of fields. */
#include "orchestrator/frontend/azureml/azure_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "orchestrator/document/schema.h"
#include "orchestrator/frontend/azureml/azure_command.h"
#include "orchestrator/frontend/rules.h"
#include "orchestrator/frontend/setting.h"
#include "orchestrator/job/job.h"

#define COMMAND_MAX (100 * 1024)
#define NAMES_MAX   1000
#define CLOUD_ONLY  "that is Azure's own matter"
#define UNCHECKED   "values of inputs are not checked"
#define NO_IMAGES   "no image is built"

/* The last is one that is not run here. */
const char *const smd_azure_distributions[] = {"pytorch", "tensorflow", "mpi", "ray", NULL};

/* Whether it is another type of job, of which no field would be right. */
static int is_other_type(struct smd_decoder *decoder, const struct smd_node *document)
{
	const struct smd_node *node = smd_node_member(document, "type");
	char got[SMD_NODE_TEXT_MAX];

	if (!node || node->type != SMD_NODE_STRING || strcasecmp(node->string, "command") == 0) {
		return 0;
	}
	smd_node_describe(node, got);
	smd_error_at_value(decoder->diagnostics, node,
		"must be command: no other type of job is run here, got %s", got);
	return 1;
}

static void decode_distribution_type(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	struct smd_azure_job *job = base;
	char got[SMD_NODE_TEXT_MAX];
	size_t i = 0;

	(void)field;
	if (!smd_decode_expects(decoder, node, SMD_NODE_STRING)) {
		return;
	}
	while (smd_azure_distributions[i] &&
		strcasecmp(node->string, smd_azure_distributions[i]) != 0) {
		i++;
	}
	smd_node_describe(node, got);
	if (i == 3) {
		smd_error_at_value(decoder->diagnostics, node,
			"must be pytorch, tensorflow or mpi: Ray is not started here, got %s", got);
	} else if (i > 3) {
		smd_error_at_value(decoder->diagnostics, node,
			"must be pytorch, tensorflow or mpi, got %s", got);
	} else {
		job->distribution = (enum smd_azure_distribution)(SMD_AZURE_PYTORCH + i);
	}
}

/* Values may be numbers and truth values, which become texts. */
void smd_azure_decode_variables(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	struct smd_azure_job *job = base;
	struct smd_variable *env;

	(void)field;
	if (!smd_decode_expects(decoder, node, SMD_NODE_OBJECT)) {
		return;
	}
	if (node->count > SMD_VARIABLES_MAX) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have at most %d variables, got %zu", SMD_VARIABLES_MAX, node->count);
	}
	env = reallocarray(job->env, job->nenv + node->count + 1, sizeof(*env));
	job->env = env ? env : job->env;
	for (const struct smd_node *child = node->first; env && child; child = child->next) {
		char text[SMD_NODE_TEXT_MAX];

		if (child->type == SMD_NODE_ARRAY || child->type == SMD_NODE_OBJECT) {
			smd_decode_expects(decoder, child, SMD_NODE_STRING);
			continue;
		}
		if (!smd_is_identifier(child->key)) {
			smd_error_at_name(decoder->diagnostics, child,
				"a variable's name must be " SMD_IDENTIFIER_RULE);
		}
		smd_node_value_text(child, text);
		job->env[job->nenv].name = strdup(child->key);
		job->env[job->nenv++].value = strdup(child->type == SMD_NODE_STRING ? child->string
						     : child->type == SMD_NODE_NULL ? ""
										    : text);
	}
	if (!env) {
		decoder->ret = -ENOMEM;
	}
}

#define TYPE_SCHEMA "{\"pattern\": \"^[Cc][Oo][Mm][Mm][Aa][Nn][Dd]$\"}"
#define DISTRIBUTION_SCHEMA                                                                        \
	"{\"type\": \"string\", \"pattern\": "                                                     \
	"\"^([Pp][Yy][Tt][Oo][Rr][Cc][Hh]|[Tt][Ee][Nn][Ss][Oo][Rr][Ff][Ll][Oo][Ww]|[Mm][Pp][Ii])$" \
	"\"}"
#define PLACE(member) offsetof(struct smd_azure_job, member)

static void decode_literal(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)field;
	(void)base;
	if (node->type == SMD_NODE_ARRAY || node->type == SMD_NODE_OBJECT) {
		smd_decode_expects(decoder, node, SMD_NODE_STRING);
	}
}

static const struct smd_field data_rows[] = {
	SMD_FIELD("type", smd_decode_string, SMD_KEPT),
	SMD_FIELD("path", smd_decode_string, SMD_KEPT),
	SMD_FIELD("mode", smd_decode_string, SMD_KEPT, .note = "programs get paths as they are"),
	SMD_FIELD("description", smd_decode_string, SMD_KEPT),
	SMD_FIELD("name", smd_decode_string, SMD_KEPT),
	SMD_FIELD("version", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("optional", smd_decode_boolean, SMD_KEPT),
	SMD_FIELD("default", decode_literal, SMD_KEPT, .schema = SMD_AZURE_LITERAL_SCHEMA),
	SMD_FIELD("min", decode_literal, SMD_KEPT, .schema = SMD_AZURE_LITERAL_SCHEMA,
		.note = UNCHECKED),
	SMD_FIELD("max", decode_literal, SMD_KEPT, .schema = SMD_AZURE_LITERAL_SCHEMA,
		.note = UNCHECKED),
	SMD_FIELD("enum", smd_decode_anything, SMD_KEPT, .note = UNCHECKED),
	SMD_FIELD("path_on_compute", smd_decode_string, SMD_KEPT, .note = CLOUD_ONLY),
};
static const struct smd_message data = SMD_MESSAGE("DataInput", data_rows, .is_snake = 1);

static void decode_data(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)base;
	if (!smd_decode_expects(decoder, node, SMD_NODE_OBJECT)) {
		return;
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		if (child->type == SMD_NODE_OBJECT) {
			smd_decode_message(decoder, &data, child, NULL);
		} else {
			decode_literal(decoder, field, child, NULL);
		}
	}
}

static json_t *describe_data(struct smd_schema *schema, const struct smd_field *field)
{
	json_t *json = json_pack("{s:s, s:{s:[o, o]}}", "type", "object", "additionalProperties",
		"anyOf", smd_schema_text(SMD_AZURE_LITERAL_SCHEMA),
		smd_schema_message(schema, &data));

	if (json && strcmp(field->name, "outputs") == 0) {
		json_object_set_new(
			json, "propertyNames", json_pack("{s:s}", "pattern", "^[A-Za-z0-9_-]+$"));
	}
	return json;
}

static const struct smd_field build_rows[] = {
	SMD_FIELD("path", smd_decode_string, SMD_KEPT),
	SMD_FIELD("dockerfile_path", smd_decode_string, SMD_KEPT),
};
static const struct smd_message build_context =
	SMD_MESSAGE("BuildContext", build_rows, .is_snake = 1);

static const struct smd_field environment_rows[] = {
	SMD_FIELD("$schema", smd_decode_string, SMD_KEPT),
	SMD_FIELD("name", smd_decode_string, SMD_KEPT),
	SMD_FIELD("version", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("description", smd_decode_string, SMD_KEPT),
	SMD_FIELD("tags", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("image", smd_decode_string, PLACE(image)),
	SMD_FIELD("conda_file", smd_decode_anything, SMD_KEPT, .note = NO_IMAGES),
	SMD_FIELD(
		"build", smd_decode_object, SMD_KEPT, .message = &build_context, .note = NO_IMAGES),
	SMD_FIELD("os_type", smd_decode_string, SMD_KEPT),
	SMD_FIELD("inference_config", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
};
static const struct smd_message environment =
	SMD_MESSAGE("Environment", environment_rows, .is_snake = 1);

/* A name of a registered environment, or an inline one with its image. */
static void decode_environment(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	if (node->type == SMD_NODE_OBJECT) {
		smd_decode_message(decoder, &environment, node, base);
	} else {
		smd_decode_string(decoder, field, node, base);
	}
}

static json_t *describe_environment(struct smd_schema *schema, const struct smd_field *field)
{
	(void)field;
	return json_pack("{s:[{s:s}, o]}", "anyOf", "type", "string",
		smd_schema_message(schema, &environment));
}

static const struct smd_field distribution_rows[] = {
	SMD_FIELD(
		"type", decode_distribution_type, 0, .required = 1, .schema = DISTRIBUTION_SCHEMA),
	SMD_FIELD("process_count_per_instance", smd_decode_count, PLACE(processes), .min = 1,
		.max = SMD_JOB_PROCESSES_MAX),
	SMD_FIELD("worker_count", smd_decode_count, PLACE(worker_count), .min = 1,
		.max = SMD_JOB_REPLICAS_MAX),
	SMD_FIELD("parameter_server_count", smd_decode_count, PLACE(parameter_server_count),
		.max = SMD_JOB_REPLICAS_MAX),
	/* Version 1's; check_distribution() refuses them. */
	SMD_FIELD("process_count", smd_decode_anything, SMD_KEPT, .is_refused = 1),
	SMD_FIELD("node_count", smd_decode_anything, SMD_KEPT, .is_refused = 1),
};
static const struct smd_message distribution =
	SMD_MESSAGE("Distribution", distribution_rows, .is_snake = 1, .is_open = 1);

static const struct smd_field resources_rows[] = {
	SMD_FIELD("instance_count", smd_decode_count, PLACE(instance_count), .min = 1,
		.max = SMD_JOB_REPLICAS_MAX),
	SMD_FIELD("instance_type", smd_decode_string, PLACE(instance_type),
		.form = SMD_MACHINE_TYPE_FORM, .example = SMD_MACHINE_TYPE_EXAMPLE),
	SMD_FIELD("shm_size", smd_decode_string, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("docker_args", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("properties", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("locations", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("max_instance_count", smd_decode_count, SMD_KEPT, .note = CLOUD_ONLY),
};
static const struct smd_message resources = SMD_MESSAGE("Resources", resources_rows, .is_snake = 1);

static const struct smd_field limits_rows[] = {
	SMD_FIELD("timeout", smd_decode_count, PLACE(timeout_s), .min = 1),
};
static const struct smd_message limits = SMD_MESSAGE("Limits", limits_rows, .is_snake = 1);

static const struct smd_field job_rows[] = {
	SMD_FIELD("$schema", smd_decode_string, SMD_KEPT),
	SMD_FIELD("type", smd_decode_string, SMD_KEPT, .schema = TYPE_SCHEMA),
	SMD_FIELD("name", smd_decode_string, PLACE(name)),
	SMD_FIELD("display_name", smd_decode_string, PLACE(display_name),
		.schema = SMD_DISPLAY_NAME_SCHEMA),
	SMD_FIELD("experiment_name", smd_decode_string, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("description", smd_decode_string, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("tags", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("properties", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("command", smd_decode_string, PLACE(command), .required = 1),
	SMD_FIELD("code", smd_decode_string, PLACE(code)),
	SMD_FIELD("environment", decode_environment, PLACE(image), .required = 1,
		.message = &environment, .describe = describe_environment),
	SMD_FIELD("environment_variables", smd_azure_decode_variables, 0,
		.schema = SMD_AZURE_VARIABLES_SCHEMA),
	SMD_FIELD("distribution", smd_decode_object, 0, .message = &distribution),
	SMD_FIELD("compute", smd_decode_string, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("resources", smd_decode_object, 0, .message = &resources),
	SMD_FIELD("limits", smd_decode_object, 0, .message = &limits),
	SMD_FIELD("queue_settings", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("inputs", decode_data, SMD_KEPT, .describe = describe_data),
	SMD_FIELD("outputs", decode_data, SMD_KEPT, .describe = describe_data),
	SMD_FIELD("identity", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
	/* A component's, which is a job once its inputs have values. */
	SMD_FIELD("version", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("is_deterministic", smd_decode_boolean, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("additional_includes", smd_decode_strings, SMD_KEPT,
		.note = "put it into the code's directory"),
	SMD_FIELD("services", smd_decode_anything, SMD_KEPT, .note = CLOUD_ONLY),
};
const struct smd_message smd_azure_command_job = SMD_MESSAGE("CommandJob", job_rows, .is_snake = 1);

int smd_azure_job_is(const struct smd_node *document)
{
	const struct smd_node *type = smd_node_member(document, "type");
	const struct smd_node *schema = smd_node_member(document, "$schema");

	if (smd_node_member(document, "jobSpec") || smd_node_member(document, "workerPoolSpecs")) {
		return 0;
	}
	return type || smd_node_member(document, "command") ||
	       (schema && schema->type == SMD_NODE_STRING && strstr(schema->string, "azureml"));
}

/* Azure ML leaves out what is another distribution's. */
static void warn_of_count(struct smd_decoder *decoder, const struct smd_node *node,
	const char *name, const char *rule)
{
	const struct smd_node *count = smd_node_member(node, name);

	if (count) {
		smd_warning_at_name(decoder->diagnostics, count, "left out: %s", rule);
	}
}

/* Version 1 counts the processes of all nodes, version 2 those of each. */
static void refuse_total(
	struct smd_decoder *decoder, const struct smd_node *node, const struct smd_azure_job *job)
{
	static const char rule[] = "unknown field; version 1's process_count is the total of all "
				   "nodes, process_count_per_instance is that of each: ";
	int nodes = job->instance_count;
	int64_t total;

	if (smd_node_integer(node, &total) || total < nodes || total % nodes != 0) {
		smd_error_at_name(decoder->diagnostics, node,
			"%sprocess_count divided by the %d of resources.instance_count", rule,
			nodes);
	} else {
		smd_error_at_name(decoder->diagnostics, node,
			"%sfor %lld on %d instance%s write process_count_per_instance: %lld", rule,
			(long long)total, nodes, nodes == 1 ? "" : "s", (long long)(total / nodes));
	}
}

static void check_version_1(
	struct smd_decoder *decoder, const struct smd_node *node, const struct smd_azure_job *job)
{
	const struct smd_node *total = smd_node_member(node, "process_count");
	const struct smd_node *nodes = smd_node_member(node, "node_count");

	if (total) {
		refuse_total(decoder, total, job);
	}
	if (nodes) {
		smd_error_at_name(decoder->diagnostics, nodes,
			"unknown field; version 1's node_count is /resources/instance_count");
	}
}

/* Linux passes no longer argument to a shell, and each expression looks through the names. */
static int check_sizes(struct smd_decoder *decoder, const struct smd_node *document)
{
	size_t errors = decoder->diagnostics->found[SMD_SEVERITY_ERROR];
	static const char *const names[] = {"inputs", "outputs"};
	const struct smd_node *command = smd_node_member(document, "command");

	if (command && command->type == SMD_NODE_STRING && strlen(command->string) > COMMAND_MAX) {
		smd_error_at_value(decoder->diagnostics, command,
			"must be at most %d bytes long, got %zu", COMMAND_MAX,
			strlen(command->string));
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct smd_node *map = smd_node_member(document, names[i]);

		if (map && map->count > NAMES_MAX) {
			smd_error_at_value(decoder->diagnostics, map,
				"must have at most %d names, got %zu", NAMES_MAX, map->count);
		}
	}
	return decoder->diagnostics->found[SMD_SEVERITY_ERROR] > errors ? -EINVAL : 0;
}

static void check_distribution(struct smd_decoder *decoder, const struct smd_node *document,
	const struct smd_azure_job *job)
{
	const struct smd_node *node = smd_node_member(document, "distribution");

	if (!node && job->instance_count > 1) {
		smd_warning_at_name(decoder->diagnostics,
			smd_node_member(smd_node_member(document, "resources"), "instance_count"),
			"without a distribution Azure ML tells the instances nothing of each "
			"other");
	}
	if (!node) {
		return;
	}
	check_version_1(decoder, node, job);
	if (job->distribution == SMD_AZURE_TENSORFLOW) {
		warn_of_count(decoder, node, "process_count_per_instance",
			"tensorflow has one process per worker, and worker_count is their total");
	} else if (job->distribution != SMD_AZURE_NO_DISTRIBUTION) {
		static const char rule[] =
			"it is tensorflow's; processes are process_count_per_instance for each of "
			"the resources.instance_count instances";

		warn_of_count(decoder, node, "worker_count", rule);
		warn_of_count(decoder, node, "parameter_server_count", rule);
	}
}

void smd_azure_job_clear(struct smd_azure_job *job)
{
	for (size_t i = 0; i < job->nenv; i++) {
		free(job->env[i].name);
		free(job->env[i].value);
	}
	free(job->env);
	free(job->name);
	free(job->display_name);
	free(job->command);
	free(job->code);
	free(job->instance_type);
	free(job->image);
}

/* The command with its expressions replaced; NULL: it cannot be, and it has been said why. */
static char *expand(
	struct smd_decoder *decoder, const struct smd_node *document, const char *directory)
{
	const struct smd_node *line = smd_node_member(document, "command");
	const struct smd_azure_command command = {.inputs = smd_node_member(document, "inputs"),
		.outputs = smd_node_member(document, "outputs"),
		.directory = directory};

	if (!line || line->type != SMD_NODE_STRING || check_sizes(decoder, document) ||
		(command.inputs && command.inputs->type != SMD_NODE_OBJECT) ||
		(command.outputs && command.outputs->type != SMD_NODE_OBJECT)) {
		return NULL;
	}
	return smd_azure_command_expand(&command, decoder, line);
}

static void check(
	struct smd_decoder *decoder, const struct smd_node *document, struct smd_azure_job *job)
{
	const struct smd_node *display_name = smd_node_member(document, "display_name");

	smd_check_display_name(
		decoder, display_name ? display_name : smd_node_member(document, "name"));
	check_distribution(decoder, document, job);
	if (job->distribution == SMD_AZURE_TENSORFLOW) {
		job->processes = 1;
	} else {
		job->worker_count = 0;
		job->parameter_server_count = 0;
	}
}

/* What the document says; the caller frees *line, the shell's, and what is in the job. */
static int decode(struct smd_decoder *decoder, const struct smd_node *document,
	const char *directory, struct smd_azure_job *job, char **line)
{
	if (is_other_type(decoder, document)) {
		return -EINVAL;
	}
	smd_decode_message(decoder, &smd_azure_command_job, document, job);
	check(decoder, document, job);
	*line = expand(decoder, document, directory);
	return decoder->ret                                      ? decoder->ret
	       : decoder->diagnostics->found[SMD_SEVERITY_ERROR] ? -EINVAL
	       : *line                                           ? 0
								 : -EINVAL;
}

int smd_azure_job_convert(struct smd_conversion *conversion, struct smd_node **document)
{
	struct smd_decoder decoder = {
		.diagnostics = conversion->diagnostics, .root = &smd_azure_command_job};
	struct smd_azure_job job = {.instance_count = 1, .processes = 1};
	struct smd_node *root = NULL;
	char *code = NULL;
	char *line = NULL;
	int ret = decode(&decoder, *document, conversion->directory, &job, &line);

	if (!ret && job.code) {
		code = smd_azure_path(conversion->directory, job.code);
		ret = code ? 0 : -ENOMEM;
	}
	if (!ret) {
		ret = smd_azure_job_build(&job, line, *document, &root);
	}
	if (!ret && job.name) {
		conversion->run_name = job.name;
		job.name = NULL;
	}
	free(line);
	smd_azure_job_clear(&job);
	if (ret) {
		free(code);
		return ret;
	}
	smd_node_free(*document);
	*document = root;
	conversion->code_dir = code;
	return 0;
}
