/* Decodes worker pools, and holds the rules that a pool must keep because of its place. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/schema.h"
#include "orchestrator/frontend/rules.h"
#include "orchestrator/frontend/server_command.h"
#include "orchestrator/frontend/vertex/custom_job.h"

#define PACKAGES_MAX 100
#define SERVER_POOL  2
#define MODULE_FORM  "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*$"

#define OWN_MOUNTS           "file systems are mounted by those who run the machines"
#define SPECIFIC_RESERVATION "SPECIFIC_RESERVATION"

static const char *const affinity_types[] = {
	"NO_RESERVATION", "ANY_RESERVATION", SPECIFIC_RESERVATION, "TYPE_UNSPECIFIED", NULL};

static const int affinity_numbers[] = {1, 2, 3, 0};

static const char *const disk_types[] = {"pd-ssd", "pd-standard", "hyperdisk-balanced", NULL};

static const struct smd_field affinity_rows[] = {
	SMD_FIELD("reservationAffinityType", smd_decode_enum, SMD_KEPT, .required = 1,
		.values = affinity_types, .numbers = affinity_numbers),
	SMD_FIELD("key", smd_decode_string, SMD_KEPT),
	SMD_FIELD("values", smd_decode_strings, SMD_KEPT),
};
static const struct smd_message affinity = SMD_MESSAGE("ReservationAffinity", affinity_rows,
	.rules = "{\"if\": {\"properties\": {\"reservationAffinityType\": {\"const\": "
		 "\"" SPECIFIC_RESERVATION
		 "\"}}}, \"then\": {\"required\": [\"key\", \"values\"]}}");

static const struct smd_field machine_rows[] = {
	SMD_FIELD("machineType", smd_decode_string, offsetof(struct smd_job_pool, machine_type),
		.form = SMD_MACHINE_TYPE_FORM, .example = SMD_MACHINE_TYPE_EXAMPLE),
	SMD_FIELD("acceleratorType", smd_decode_enum,
		offsetof(struct smd_job_pool, accelerator_type), .values = smd_accelerator_types,
		.numbers = smd_accelerator_numbers),
	SMD_FIELD("acceleratorCount", smd_decode_count,
		offsetof(struct smd_job_pool, accelerator_count)),
	SMD_FIELD("gpuPartitionSize", smd_decode_string, SMD_KEPT, .form = "^[0-9]+g\\.[0-9]+gb$",
		.example = "a partition such as 1g.10gb", .note = "a GPU is given out as a whole"),
	SMD_FIELD("tpuTopology", smd_decode_string, SMD_KEPT, .form = "^[0-9]+(x[0-9]+){1,2}$",
		.example = "a topology such as 2x2x1", .note = "there are no TPUs"),
	SMD_FIELD("reservationAffinity", smd_decode_object, SMD_KEPT, .message = &affinity,
		.note = "nothing is bought"),
};
static const struct smd_message machine = SMD_MESSAGE("MachineSpec", machine_rows);

static const struct smd_field container_rows[] = {
	SMD_FIELD("imageUri", smd_decode_string, offsetof(struct smd_job_pool, image_uri),
		.required = 1),
	SMD_FIELD("command", smd_decode_strings, offsetof(struct smd_job_pool, command),
		.count_offset = offsetof(struct smd_job_pool, ncommand),
		.schema = "{\"items\": [{\"type\": \"string\", \"minLength\": 1}], "
			  "\"additionalItems\": {\"type\": \"string\"}}"),
	SMD_FIELD("args", smd_decode_strings, offsetof(struct smd_job_pool, args),
		.count_offset = offsetof(struct smd_job_pool, nargs)),
	SMD_FIELD("env", smd_decode_variables, offsetof(struct smd_job_pool, env),
		.count_offset = offsetof(struct smd_job_pool, nenv), .max = SMD_VARIABLES_MAX,
		.noun = "variables"),
};
static const struct smd_message container = SMD_MESSAGE("ContainerSpec", container_rows);

/* What runs a module is a command like any other. */
static void decode_python_module(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	static const char *const words[] = {"python3", "-m"};
	struct smd_job_pool *pool = base;

	smd_decode_string(decoder, field, node, NULL);
	if (node->type != SMD_NODE_STRING || !pool) {
		return;
	}
	pool->command = calloc(3, sizeof(*pool->command));
	if (!pool->command) {
		decoder->ret = -ENOMEM;
		return;
	}
	pool->ncommand = 3;
	pool->command[0] = strdup(words[0]);
	pool->command[1] = strdup(words[1]);
	pool->command[2] = strdup(node->string);
	if (!pool->command[0] || !pool->command[1] || !pool->command[2]) {
		decoder->ret = -ENOMEM;
	}
}

static const struct smd_field python_package_rows[] = {
	SMD_FIELD("executorImageUri", smd_decode_string, offsetof(struct smd_job_pool, image_uri),
		.required = 1),
	SMD_FIELD("packageUris", smd_decode_strings, offsetof(struct smd_job_pool, package_uris),
		.count_offset = offsetof(struct smd_job_pool, npackage_uris), .required = 1,
		.min = 1, .max = PACKAGES_MAX, .noun = "packages"),
	SMD_FIELD("pythonModule", decode_python_module, SMD_KEPT, .required = 1,
		.like = smd_decode_string, .form = MODULE_FORM,
		.example = "a Python module such as trainer.task"),
	SMD_FIELD("args", smd_decode_strings, offsetof(struct smd_job_pool, args),
		.count_offset = offsetof(struct smd_job_pool, nargs)),
	SMD_FIELD("env", smd_decode_variables, offsetof(struct smd_job_pool, env),
		.count_offset = offsetof(struct smd_job_pool, nenv), .max = SMD_VARIABLES_MAX,
		.noun = "variables"),
};
static const struct smd_message python_package =
	SMD_MESSAGE("PythonPackageSpec", python_package_rows);

/* A pool that has both tasks is refused, and takes nothing from the second. */
static void decode_python_package(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	int is_only = !smd_node_member(node->parent, "containerSpec");

	smd_decode_object(decoder, field, node, is_only ? base : NULL);
}

static const struct smd_field nfs_mount_rows[] = {
	SMD_FIELD("server", smd_decode_string, SMD_KEPT, .required = 1),
	SMD_FIELD("path", smd_decode_string, SMD_KEPT, .required = 1, .form = "^/",
		.example = "a path that begins with /"),
	SMD_FIELD("mountPoint", smd_decode_string, SMD_KEPT, .required = 1),
};
static const struct smd_message nfs_mount = SMD_MESSAGE("NfsMount", nfs_mount_rows);

static const struct smd_field lustre_mount_rows[] = {
	SMD_FIELD("instanceIp", smd_decode_string, SMD_KEPT, .required = 1),
	SMD_FIELD("volumeHandle", smd_decode_string, SMD_KEPT, .required = 1),
	SMD_FIELD("filesystem", smd_decode_string, SMD_KEPT, .required = 1),
	SMD_FIELD("mountPoint", smd_decode_string, SMD_KEPT, .required = 1),
};
static const struct smd_message lustre_mount = SMD_MESSAGE("LustreMount", lustre_mount_rows);

static const struct smd_field disk_rows[] = {
	SMD_FIELD("bootDiskType", smd_decode_enum, SMD_KEPT, .values = disk_types),
	SMD_FIELD("bootDiskSizeGb", smd_decode_count, SMD_KEPT),
};
static const struct smd_message disk = SMD_MESSAGE("DiskSpec", disk_rows);

static void decode_replica_count(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	struct smd_job_pool *pool = base;
	struct smd_field wide = *field;
	size_t errors = decoder->diagnostics->found[SMD_SEVERITY_ERROR];
	char got[SMD_NODE_TEXT_MAX];

	smd_node_describe(node, got);
	if (node->type == SMD_NODE_INTEGER && node->number.integer < 0) {
		smd_error_at_value(decoder->diagnostics, node, "must not be negative, got %s", got);
		return;
	}
	wide.max = 0; /* more has a message of its own */
	smd_decode_count(decoder, &wide, node, base);
	if (decoder->diagnostics->found[SMD_SEVERITY_ERROR] > errors) {
		return;
	}
	if (pool->index == 0 && pool->replica_count != 1) {
		smd_error_at_value(
			decoder->diagnostics, node, "must be 1 in worker pool 0, got %s", got);
	} else if (pool->replica_count > SMD_JOB_REPLICAS_MAX) {
		smd_error_at_value(decoder->diagnostics, node, "must be at most %d, got %s",
			SMD_JOB_REPLICAS_MAX, got);
	}
}

static const struct smd_field pool_rows[] = {
	SMD_FIELD("machineSpec", smd_decode_object, 0, .message = &machine),
	SMD_FIELD("replicaCount", decode_replica_count,
		offsetof(struct smd_job_pool, replica_count), .like = smd_decode_count,
		.max = SMD_JOB_REPLICAS_MAX),
	SMD_FIELD("containerSpec", smd_decode_object, 0, .message = &container),
	SMD_FIELD("pythonPackageSpec", decode_python_package, 0, .message = &python_package,
		.like = smd_decode_object),
	SMD_FIELD("nfsMounts", smd_decode_objects, SMD_KEPT, .message = &nfs_mount,
		.note = OWN_MOUNTS),
	SMD_FIELD("lustreMounts", smd_decode_objects, SMD_KEPT, .message = &lustre_mount,
		.note = OWN_MOUNTS),
	SMD_FIELD("diskSpec", smd_decode_object, SMD_KEPT, .message = &disk,
		.note = "replicas use the disks of their machines"),
};
const struct smd_message smd_worker_pool_spec = SMD_MESSAGE("WorkerPoolSpec", pool_rows);

static void check_reservation(struct smd_decoder *decoder, const struct smd_node *node)
{
	const struct smd_node *type = smd_node_member(node, "reservationAffinityType");

	if (type && type->type == SMD_NODE_STRING &&
		strcmp(type->string, SPECIFIC_RESERVATION) == 0 &&
		(!smd_node_member(node, "key") || !smd_node_member(node, "values"))) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have key and values with " SPECIFIC_RESERVATION);
	}
}

static void check_machine(
	struct smd_decoder *decoder, const struct smd_node *node, struct smd_job_pool *pool)
{
	const struct smd_node *spec = smd_node_member(node, "machineSpec");
	const struct smd_node *count = spec ? smd_node_member(spec, "acceleratorCount") : NULL;
	const struct smd_node *part = spec ? smd_node_member(spec, "gpuPartitionSize") : NULL;
	const struct smd_node *affinity_spec =
		spec ? smd_node_member(spec, "reservationAffinity") : NULL;

	if (pool->accelerator_type && strcmp(pool->accelerator_type, SMD_ACCELERATOR_NONE) == 0) {
		free(pool->accelerator_type);
		pool->accelerator_type = NULL;
	}
	if (pool->accelerator_type && !count) {
		pool->accelerator_count = 1;
	} else if (pool->accelerator_count > 0 && !pool->accelerator_type &&
		   !smd_node_member(spec, "acceleratorType")) {
		smd_error_at_value(decoder->diagnostics, spec,
			"must have acceleratorType with acceleratorCount");
	}
	if (smd_job_pool_has_tpus(pool)) {
		smd_warning_at_value(decoder->diagnostics, smd_node_member(spec, "acceleratorType"),
			"there are no TPUs here: replicas run without them");
	}
	if (part && count && pool->accelerator_count != 1) {
		smd_error_at_value(decoder->diagnostics, count,
			"must be 1 with gpuPartitionSize, got %d", pool->accelerator_count);
	}
	if (affinity_spec) {
		check_reservation(decoder, affinity_spec);
	}
}

static void check_command(
	struct smd_decoder *decoder, const struct smd_node *node, const struct smd_node *command)
{
	if (!command || (command->type == SMD_NODE_ARRAY && command->count == 0)) {
		smd_container_only(decoder->diagnostics, node,
			"must have a command where images are not run: --container-runtime=podman "
			"runs them; else say what to start, by --command or as \"command\": "
			"[\"python3\", \"train.py\"]");
	} else if (command->type == SMD_NODE_ARRAY && command->first->type == SMD_NODE_STRING &&
		   command->first->string[0] == '\0') {
		smd_error_at_value(
			decoder->diagnostics, command->first, "must name a program, got \"\"");
	}
}

static void check_container(
	struct smd_decoder *decoder, const struct smd_node *node, const struct smd_job_pool *pool)
{
	const struct smd_node *image = smd_node_member(node, "imageUri");
	const struct smd_node *command = smd_node_member(node, "command");

	if (!image || image->type != SMD_NODE_STRING) {
		return;
	}
	if (smd_image_is_reduction_server(image->string)) {
		if (pool->index != SERVER_POOL) {
			char got[SMD_NODE_TEXT_MAX];

			smd_node_describe(image, got);
			smd_error_at_value(decoder->diagnostics, image,
				"a reduction server must be in worker pool %d, got %s in worker "
				"pool %d",
				SERVER_POOL, got, pool->index);
		}
	} else if (pool->role != SMD_ROLE_REDUCTION_SERVER) {
		check_command(decoder, node, command);
	}
}

static void check_task(
	struct smd_decoder *decoder, const struct smd_node *node, const struct smd_job_pool *pool)
{
	const struct smd_node *container_spec = smd_node_member(node, "containerSpec");
	const struct smd_node *package = smd_node_member(node, "pythonPackageSpec");

	if (container_spec && package) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have one of containerSpec and pythonPackageSpec, got both");
	} else if (!container_spec && !package) {
		smd_error_at_value(
			decoder->diagnostics, node, "must have containerSpec or pythonPackageSpec");
	} else if (container_spec && container_spec->type == SMD_NODE_OBJECT) {
		check_container(decoder, container_spec, pool);
	}
}

static enum smd_role role_of(const struct smd_job_pool *pool)
{
	static const enum smd_role roles[SMD_JOB_POOLS_MAX] = {
		SMD_ROLE_CHIEF, SMD_ROLE_WORKER, SMD_ROLE_PARAMETER_SERVER, SMD_ROLE_EVALUATOR};

	if (pool->index == SERVER_POOL && pool->image_uri &&
		smd_image_is_reduction_server(pool->image_uri)) {
		return SMD_ROLE_REDUCTION_SERVER;
	}
	return roles[pool->index];
}

/* A pool of servers may be told by its command, too. */
static void find_server(
	struct smd_decoder *decoder, const struct smd_node *task, struct smd_job_pool *pool)
{
	int ret;

	if (pool->index != SERVER_POOL || pool->role == SMD_ROLE_REDUCTION_SERVER || !task ||
		task->type != SMD_NODE_OBJECT || !smd_server_command_is_of(task)) {
		return;
	}
	ret = smd_server_command_take(pool);
	if (ret == -EINVAL) {
		smd_error_at_value(decoder->diagnostics, task,
			"must start a reduction server by itself, such as \"command\": "
			"[\"summand-reduction-server\", \"--threads=4\"]: in a shell it would not "
			"get its address and the job's token");
	} else if (ret) {
		decoder->ret = ret;
	}
	pool->role = SMD_ROLE_REDUCTION_SERVER;
}

/* Of no replicas. Reduction servers stay in the job nevertheless: where workers' hosts reduce by
 * themselves, their reducers have the pool's args. */
static void clear_pool(
	struct smd_decoder *decoder, const struct smd_node *node, struct smd_job_pool *pool)
{
	if (node->type == SMD_NODE_OBJECT) {
		find_server(decoder, smd_node_member(node, "containerSpec"), pool);
	}
	if (pool->role != SMD_ROLE_REDUCTION_SERVER) {
		smd_job_pool_clear(pool);
	}
}

static void decode_pool(
	struct smd_decoder *decoder, const struct smd_node *node, struct smd_job_pool *pool)
{
	if (node->type == SMD_NODE_NULL || (node->type == SMD_NODE_OBJECT && node->count == 0)) {
		if (pool->index == 0) {
			smd_error_at_value(decoder->diagnostics, node,
				"must not be empty: worker pool 0 is the chief");
		}
		return;
	}
	pool->replica_count = 1;
	smd_decode_message(decoder, &smd_worker_pool_spec, node, pool);
	pool->role = role_of(pool);
	if (node->type == SMD_NODE_OBJECT && pool->replica_count > 0) {
		find_server(decoder, smd_node_member(node, "containerSpec"), pool);
		check_machine(decoder, node, pool);
		check_task(decoder, node, pool);
	} else {
		clear_pool(decoder, node, pool);
	}
}

void smd_decode_worker_pools(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	struct smd_job *job = base;

	(void)field;
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		job->pools[i].index = i;
		job->pools[i].role = role_of(&job->pools[i]);
	}
	if (!smd_decode_expects(decoder, node, SMD_NODE_ARRAY)) {
		return;
	}
	if (node->count == 0) {
		smd_error_at_value(decoder->diagnostics, node, "must have worker pool 0, got none");
	}
	if (node->count > SMD_JOB_POOLS_MAX) {
		smd_error_at_value(decoder->diagnostics, node,
			"must have at most %d worker pools, got %zu", SMD_JOB_POOLS_MAX,
			node->count);
	}
	for (const struct smd_node *pool = node->first; pool; pool = pool->next) {
		if (pool->index < SMD_JOB_POOLS_MAX) {
			decode_pool(decoder, pool, &job->pools[pool->index]);
		}
	}
}

/* What is checked of a pool because of its place. */
#define ONE_TASK                                                                                   \
	"{\"oneOf\": [{\"required\": [\"containerSpec\"]}, {\"required\": "                        \
	"[\"pythonPackageSpec\"]}]}"
#define NO_SERVER                                                                                  \
	"{\"not\": {\"properties\": {\"containerSpec\": {\"properties\": {\"imageUri\": "          \
	"{\"pattern\": \"(^|/)reductionserver(:[^/]*|@[^/]*)?$\"}}, \"required\": "                \
	"[\"imageUri\"]}}, \"required\": [\"containerSpec\"]}}"
#define ONE_REPLICA "{\"properties\": {\"replicaCount\": {\"enum\": [1, \"1\", null]}}}"
#define UNUSED                                                                                     \
	"{\"properties\": {\"replicaCount\": {\"enum\": [0, \"0\"]}}, \"required\": "              \
	"[\"replicaCount\"]}"

/* A pool that keeps the rules. */
static json_t *describe_pool(struct smd_schema *schema, const char *const *rules, size_t count)
{
	json_t *all = json_pack("[o]", smd_schema_message(schema, &smd_worker_pool_spec));

	for (size_t i = 0; all && i < count; i++) {
		json_array_append_new(all, smd_schema_text(rules[i]));
	}
	return json_pack("{s:o}", "allOf", all);
}

/* One that may also be empty, or have no replicas. */
static json_t *describe_later_pool(
	struct smd_schema *schema, const char *const *rules, size_t count)
{
	static const char *const unused[] = {UNUSED};

	return json_pack("{s:[{s:s}, {s:s, s:i}, o, o]}", "anyOf", "type", "null", "type", "object",
		"maxProperties", 0, describe_pool(schema, unused, 1),
		describe_pool(schema, rules, count));
}

json_t *smd_describe_worker_pools(struct smd_schema *schema, const struct smd_field *field)
{
	static const char *const rules[] = {ONE_TASK, NO_SERVER, ONE_REPLICA};

	(void)field;
	return json_pack("{s:s, s:i, s:i, s:[o, o, o, o]}", "type", "array", "minItems", 1,
		"maxItems", SMD_JOB_POOLS_MAX, "items", describe_pool(schema, rules, 3),
		describe_later_pool(schema, rules, 2), describe_later_pool(schema, rules, 1),
		describe_later_pool(schema, rules, 2));
}
