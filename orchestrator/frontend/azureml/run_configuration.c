/* Decodes a run configuration of version 1, and starts its script by a shell as that did. */
#include "orchestrator/frontend/azureml/run_configuration.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "orchestrator/frontend/azureml/azure_command.h"
#include "orchestrator/frontend/azureml/azure_job.h"
#include "orchestrator/frontend/rules.h"

#define CLOUD_ONLY    "that is Azure's own matter"
#define NO_IMAGES     "no image is built"
#define ARGUMENTS_MAX 1000

/* What the document says, beside what a command job says too. */
struct run_configuration {
	struct smd_azure_job job;
	char *script;
	char *communicator;
	int process_count;  /* PyTorch's: of all nodes; 0: one for each */
	int processes_each; /* MPI's: of each node */
	int workers;
	int servers;
};

#define PLACE(member)  offsetof(struct run_configuration, member)
#define SCALAR_SCHEMA  "{\"type\": [\"string\", \"number\", \"boolean\"]}"
#define SCALARS_SCHEMA "{\"type\": \"array\", \"items\": " SCALAR_SCHEMA ", \"maxItems\": 1000}"

static int is_list_of_scalars(struct smd_decoder *decoder, const struct smd_node *node)
{
	if (!smd_decode_expects(decoder, node, SMD_NODE_ARRAY)) {
		return 0;
	}
	if (node->count > ARGUMENTS_MAX) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have at most %d elements, got %zu", ARGUMENTS_MAX, node->count);
	}
	for (const struct smd_node *child = node->first; child; child = child->next) {
		if (child->type == SMD_NODE_ARRAY || child->type == SMD_NODE_OBJECT ||
			child->type == SMD_NODE_NULL) {
			smd_decode_expects(decoder, child, SMD_NODE_STRING);
		}
	}
	return 1;
}

static void decode_arguments(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)field;
	(void)base;
	is_list_of_scalars(decoder, node);
}

/* A line for a shell, or its words. */
static void decode_command(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)field;
	(void)base;
	if (node->type != SMD_NODE_STRING) {
		is_list_of_scalars(decoder, node);
	}
}

static void decode_variables(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	smd_azure_decode_variables(decoder, field, node, &((struct run_configuration *)base)->job);
}

static const struct smd_field docker_rows[] = {
	SMD_FIELD("baseImage", smd_decode_string, PLACE(job.image)),
	SMD_FIELD("enabled", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("arguments", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("shmSize", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("sharedVolumes", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("baseDockerfile", smd_decode_anything, SMD_KEPT, .note = NO_IMAGES),
	SMD_FIELD("baseImageRegistry", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("platform", smd_decode_anything, SMD_KEPT),
};
static const struct smd_message docker = SMD_MESSAGE("RunDocker", docker_rows, .is_open = 1);

static const struct smd_field environment_rows[] = {
	SMD_FIELD("name", smd_decode_string, SMD_KEPT),
	SMD_FIELD("version", smd_decode_anything, SMD_KEPT),
	SMD_FIELD(
		"environmentVariables", decode_variables, 0, .schema = SMD_AZURE_VARIABLES_SCHEMA),
	SMD_FIELD("docker", smd_decode_object, 0, .message = &docker),
	SMD_FIELD("python", smd_decode_anything, SMD_KEPT, .note = NO_IMAGES),
	SMD_FIELD("spark", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("inferencingStackVersion", smd_decode_anything, SMD_KEPT),
};
static const struct smd_message environment =
	SMD_MESSAGE("RunEnvironment", environment_rows, .is_open = 1);

static const struct smd_field compute_rows[] = {
	SMD_FIELD("vmSize", smd_decode_string, PLACE(job.instance_type),
		.form = SMD_MACHINE_TYPE_FORM, .example = SMD_MACHINE_TYPE_EXAMPLE),
	SMD_FIELD("vmPriority", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("name", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("location", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("retainCluster", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("clusterMaxNodeCount", smd_decode_anything, SMD_KEPT),
};
static const struct smd_message compute = SMD_MESSAGE("RunCompute", compute_rows, .is_open = 1);

static const struct smd_field pytorch_rows[] = {
	SMD_FIELD("communicationBackend", smd_decode_string, SMD_KEPT),
	SMD_FIELD("processCount", smd_decode_count, PLACE(process_count), .min = 1),
};
static const struct smd_message pytorch = SMD_MESSAGE("RunPytorch", pytorch_rows, .is_open = 1);

static const struct smd_field mpi_rows[] = {
	SMD_FIELD("processCountPerNode", smd_decode_count, PLACE(processes_each), .min = 1,
		.max = SMD_JOB_PROCESSES_MAX),
};
static const struct smd_message mpi = SMD_MESSAGE("RunMpi", mpi_rows, .is_open = 1);

static const struct smd_field tensorflow_rows[] = {
	SMD_FIELD("workerCount", smd_decode_count, PLACE(workers), .min = 1,
		.max = SMD_JOB_REPLICAS_MAX),
	SMD_FIELD("parameterServerCount", smd_decode_count, PLACE(servers),
		.max = SMD_JOB_REPLICAS_MAX),
};
static const struct smd_message tensorflow =
	SMD_MESSAGE("RunTensorflow", tensorflow_rows, .is_open = 1);

/* The SDK writes every section, with defaults in most of them. */
static const struct smd_field rows[] = {
	SMD_FIELD("script", smd_decode_string, PLACE(script)),
	SMD_FIELD("command", decode_command, SMD_KEPT,
		.schema = "{\"anyOf\": [{\"type\": \"string\"}, " SCALARS_SCHEMA "]}"),
	SMD_FIELD("arguments", decode_arguments, SMD_KEPT, .schema = SCALARS_SCHEMA),
	SMD_FIELD("target", smd_decode_string, SMD_KEPT, .note = CLOUD_ONLY),
	SMD_FIELD("framework", smd_decode_string, SMD_KEPT),
	SMD_FIELD("communicator", smd_decode_string, PLACE(communicator)),
	SMD_FIELD("nodeCount", smd_decode_count, PLACE(job.instance_count), .min = 1,
		.max = SMD_JOB_REPLICAS_MAX),
	SMD_FIELD("maxRunDurationSeconds", smd_decode_count, PLACE(job.timeout_s), .min = 1),
	SMD_FIELD(
		"environmentVariables", decode_variables, 0, .schema = SMD_AZURE_VARIABLES_SCHEMA),
	SMD_FIELD("environment", smd_decode_object, 0, .message = &environment),
	SMD_FIELD("amlcompute", smd_decode_object, 0, .message = &compute),
	SMD_FIELD("pytorch", smd_decode_object, 0, .message = &pytorch),
	SMD_FIELD("mpi", smd_decode_object, 0, .message = &mpi),
	SMD_FIELD("tensorflow", smd_decode_object, 0, .message = &tensorflow),
	SMD_FIELD("autoPrepareEnvironment", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("history", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("docker", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("spark", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("hdi", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("containerInstance", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("dataReferences", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("data", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("outputData", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("datacaches", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("sourceDirectoryDataStore", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("credentialPassthrough", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("identity", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("jobName", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("parallelTask", smd_decode_anything, SMD_KEPT),
};
const struct smd_message smd_run_configuration =
	SMD_MESSAGE("RunConfiguration", rows, .is_open = 1);

int smd_run_configuration_is(const struct smd_node *document)
{
	static const char *const others[] = {
		"type", "$schema", "compute", "jobSpec", "workerPoolSpecs", "apiVersion"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (smd_node_member(document, others[i])) {
			return 0;
		}
	}
	return smd_node_member(document, "script") || smd_node_member(document, "target");
}

/* One word for a shell: it replaces $NAME and ${NAME}, and nothing else in it. */
static void write_word(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		int is_variable = *text == '$' && (text[1] == '{' || text[1] == '_' ||
							  isalpha((unsigned char)text[1]));

		if (strchr("\"\\`$", *text) && !is_variable) {
			fputc('\\', out);
		}
		fputc(*text, out);
	}
	fputc('"', out);
}

static void write_words(FILE *out, const struct smd_node *list)
{
	for (const struct smd_node *word = list ? list->first : NULL; word; word = word->next) {
		char text[SMD_NODE_TEXT_MAX];

		smd_node_value_text(word, text);
		fputs(word == list->first ? "" : " ", out);
		write_word(out, word->type == SMD_NODE_STRING ? word->string : text);
	}
}

/* The script, or the command in its place; then the arguments. */
static char *write_line(const struct smd_node *document, const char *script)
{
	const struct smd_node *command = smd_node_member(document, "command");
	const struct smd_node *arguments = smd_node_member(document, "arguments");
	char *text = NULL;
	char *line = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out) {
		return NULL;
	}
	if (command && command->type == SMD_NODE_STRING) {
		fputs(command->string, out);
	} else if (command) {
		write_words(out, command);
	} else {
		fputs("python3 ", out);
		write_word(out, script);
	}
	if (arguments && arguments->count > 0) {
		fputc(' ', out);
		write_words(out, arguments);
	}
	if (!fclose(out)) {
		line = smd_reference_escape(text);
	}
	free(text);
	return line;
}

/* process_count is the total of all nodes. */
static void spread_pytorch(
	struct smd_decoder *decoder, const struct smd_node *document, struct run_configuration *run)
{
	const struct smd_node *section = smd_node_member(document, "pytorch");
	int nodes = run->job.instance_count;
	int total = run->process_count ? run->process_count : nodes;

	if (total % nodes != 0 || total / nodes > SMD_JOB_PROCESSES_MAX) {
		smd_error_at_value(decoder->diagnostics, smd_node_member(section, "processCount"),
			"is the total of all nodes, so it must be a multiple of nodeCount %d, up "
			"to %d for each, got %d",
			nodes, SMD_JOB_PROCESSES_MAX, total);
		return;
	}
	run->job.processes = total / nodes;
}

/* The SDK's names of them; what is none spreads nothing. */
static void spread(
	struct smd_decoder *decoder, const struct smd_node *document, struct run_configuration *run)
{
	static const struct {
		const char *communicator;
		enum smd_azure_distribution distribution;
	} table[] = {{"Nccl", SMD_AZURE_PYTORCH}, {"Gloo", SMD_AZURE_PYTORCH},
		{"OpenMpi", SMD_AZURE_MPI}, {"IntelMpi", SMD_AZURE_MPI}, {"Mpi", SMD_AZURE_MPI},
		{"ParameterServer", SMD_AZURE_TENSORFLOW}, {"None", SMD_AZURE_NO_DISTRIBUTION}};
	const char *name = run->communicator ? run->communicator : "None";
	size_t i = 0;

	while (i < sizeof(table) / sizeof(table[0]) &&
		strcasecmp(name, table[i].communicator) != 0) {
		i++;
	}
	if (i == sizeof(table) / sizeof(table[0])) {
		smd_error_at_value(decoder->diagnostics, smd_node_member(document, "communicator"),
			"must be None, Nccl, Gloo, OpenMpi, IntelMpi or ParameterServer, got "
			"\"%s\"",
			name);
		return;
	}
	run->job.distribution = table[i].distribution;
	if (run->job.distribution == SMD_AZURE_PYTORCH) {
		spread_pytorch(decoder, document, run);
	} else if (run->job.distribution == SMD_AZURE_MPI) {
		run->job.processes = run->processes_each;
	} else if (run->job.distribution == SMD_AZURE_TENSORFLOW) {
		run->job.worker_count = run->workers;
		run->job.parameter_server_count = run->servers;
	} else if (run->job.instance_count > 1) {
		smd_warning_at_name(decoder->diagnostics, smd_node_member(document, "nodeCount"),
			"without a communicator Azure ML tells the nodes nothing of each other");
	}
}

static void check(
	struct smd_decoder *decoder, const struct smd_node *document, struct run_configuration *run)
{
	if (!run->script && !smd_node_member(document, "command")) {
		smd_error_at_value(decoder->diagnostics, document, "must have script or command");
	}
	spread(decoder, document, run);
}

static void free_run(struct run_configuration *run)
{
	smd_azure_job_clear(&run->job);
	free(run->script);
	free(run->communicator);
}

/* The folder of the configuration's file is what the SDK takes along, that beside the folder
 * .azureml if it is in there. */
static char *find_code(const char *directory)
{
	static const char folder[] = ".azureml";
	size_t length = strlen(directory);
	size_t tail = sizeof(folder) - 1;
	int is_below = length >= tail && strcmp(directory + length - tail, folder) == 0 &&
		       (length == tail || directory[length - tail - 1] == '/');

	return smd_azure_path(directory, is_below ? ".." : ".");
}

static int build(struct smd_conversion *conversion, const struct run_configuration *run,
	const struct smd_node *document, struct smd_node **out)
{
	char *line = write_line(document, run->script);
	char *code = find_code(conversion->directory);
	int ret = line && code ? smd_azure_job_build(&run->job, line, document, out) : -ENOMEM;

	free(line);
	if (ret) {
		free(code);
	} else {
		conversion->code_dir = code;
	}
	return ret;
}

int smd_run_configuration_convert(struct smd_conversion *conversion, struct smd_node **document)
{
	struct smd_decoder decoder = {
		.diagnostics = conversion->diagnostics, .root = &smd_run_configuration};
	struct run_configuration run = {
		.job = {.instance_count = 1, .processes = 1}, .processes_each = 1, .workers = 1};
	struct smd_node *root = NULL;
	int ret;

	smd_decode_message(&decoder, &smd_run_configuration, *document, &run);
	smd_decode_finish(&decoder);
	if (!conversion->diagnostics->found[SMD_SEVERITY_ERROR]) {
		check(&decoder, *document, &run);
	}
	ret = decoder.ret                                          ? decoder.ret
	      : conversion->diagnostics->found[SMD_SEVERITY_ERROR] ? -EINVAL
								   : 0;
	ret = ret ? ret : build(conversion, &run, *document, &root);
	free_run(&run);
	if (!ret) {
		smd_node_free(*document);
		*document = root;
	}
	return ret;
}
