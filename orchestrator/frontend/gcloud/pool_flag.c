/* --worker-pool-spec: one worker pool as keys and values, with gcloud's keys, rules and messages.
 */
#include "orchestrator/frontend/gcloud/pool_flag.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/gcloud/package_flags.h"
#include "orchestrator/frontend/rules.h"
#include "reduction_server/base/options.h"
#include "reduction_server/base/parse.h"

/* X(constant, name) in gcloud's order of names */
#define POOL_KEYS(X)                                                                               \
	X(ACCELERATOR_COUNT, "accelerator-count")                                                  \
	X(ACCELERATOR_TYPE, "accelerator-type")                                                    \
	X(CONTAINER_IMAGE_URI, "container-image-uri")                                              \
	X(EXECUTOR_IMAGE_URI, "executor-image-uri")                                                \
	X(EXTRA_DIRS, "extra-dirs")                                                                \
	X(EXTRA_PACKAGES, "extra-packages")                                                        \
	X(LOCAL_PACKAGE_PATH, "local-package-path")                                                \
	X(MACHINE_TYPE, "machine-type")                                                            \
	X(OUTPUT_IMAGE_URI, "output-image-uri")                                                    \
	X(PYTHON_MODULE, "python-module")                                                          \
	X(REPLICA_COUNT, "replica-count")                                                          \
	X(REQUIREMENTS, "requirements")                                                            \
	X(SCRIPT, "script")

enum pool_key {
#define X(constant, name) constant,
	POOL_KEYS(X) KEY_COUNT
#undef X
};

static const char *const key_names[] = {
#define X(constant, name) name,
	POOL_KEYS(X)
#undef X
};

#define KEY_LIST_MAX 400
#define TYPES_MAX    64
#define REASON_MAX   1024

struct pool_flag {
	struct smd_job_edit *edit;
	struct smd_source_position at;
	size_t number;
	const char *values[KEY_COUNT]; /* NULL: not given */
	int whole; /* it is as it must be */
};

/* All pools have the same flag, so the message says which. */
static __attribute__((format(printf, 2, 3))) void refuse(
	const struct pool_flag *pool, const char *format, ...)
{
	char text[REASON_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	smd_edit_refuse(pool->edit, pool->at, "worker pool %zu: %s", pool->number, text);
}

static int take_key(struct pool_flag *pool, const char *key, const char *value)
{
	char keys[KEY_LIST_MAX] = "";
	const char *near;

	for (int i = 0; i < KEY_COUNT; i++) {
		if (strcmp(key, key_names[i]) == 0) {
			pool->values[i] = value;
			return 0;
		}
		snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys), "%s%s", i ? ", " : "",
			key_names[i]);
	}
	near = smd_suggest(key, key_names, KEY_COUNT);
	refuse(pool, "valid keys are [%s]; received: %s%s%s%s", keys, key,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return -EINVAL;
}

/* The keys of the set that are given, as gcloud lists them; "" when none is. */
static void list_given(const struct pool_flag *pool, const enum pool_key *set, size_t count,
	char *text, size_t size)
{
	*text = '\0';
	for (size_t i = 0; i < count; i++) {
		if (pool->values[set[i]]) {
			snprintf(text + strlen(text), size - strlen(text), "%s%s",
				*text ? ", " : "", key_names[set[i]]);
		}
	}
}

static void refuse_given(
	const struct pool_flag *pool, const enum pool_key *set, size_t count, const char *reason)
{
	char given[KEY_LIST_MAX];

	list_given(pool, set, count, given, sizeof(given));
	if (*given) {
		refuse(pool, "Keys [%s] are not allowed: %s.", given, reason);
	}
}

/* The local package as the flags of local-run describe one. */
static struct smd_package_flags package_flags(const struct pool_flag *pool)
{
	return (struct smd_package_flags){
		.directory = {pool->values[LOCAL_PACKAGE_PATH], pool->at},
		.script = {pool->values[SCRIPT], pool->at},
		.module = {pool->values[PYTHON_MODULE], pool->at},
	};
}

static void check_local_package(const struct pool_flag *pool)
{
	const struct smd_package_flags flags = package_flags(pool);

	if (!pool->values[EXECUTOR_IMAGE_URI]) {
		refuse(pool, "Key [executor-image-uri] is required when `local-package-path` is "
			     "specified.");
	}
	if (!pool->values[PYTHON_MODULE] == !pool->values[SCRIPT]) {
		refuse(pool, "Exactly one of keys [python-module, script] is required when "
			     "`local-package-path` is specified.");
	}
	smd_edit_check_program(pool->edit, &flags);
}

static void check_image(const struct pool_flag *pool)
{
	static const enum pool_key package_only[] = {
		EXTRA_DIRS, EXTRA_PACKAGES, REQUIREMENTS, SCRIPT};
	const char *executor = pool->values[EXECUTOR_IMAGE_URI];
	const char *container = pool->values[CONTAINER_IMAGE_URI];
	const char *module = pool->values[PYTHON_MODULE];

	if (!executor == !container) {
		refuse(pool, "Exactly one of keys [executor-image-uri, container-image-uri] is "
			     "required.");
	} else if (container && module) {
		refuse(pool, "Key [python-module] is not allowed together with key "
			     "[container-image-uri].");
	} else if (executor && !module) {
		refuse(pool, "Key [python-module] is required.");
	}
	refuse_given(pool, package_only, sizeof(package_only) / sizeof(package_only[0]),
		"Only allow to specify together with `local-package-path` in the first "
		"`--worker-pool-spec` flag");
}

static void check_software(const struct pool_flag *pool, int inherits)
{
	static const enum pool_key software[] = {CONTAINER_IMAGE_URI, EXECUTOR_IMAGE_URI,
		EXTRA_DIRS, EXTRA_PACKAGES, PYTHON_MODULE, REQUIREMENTS, SCRIPT};

	if (pool->number > 0 && pool->values[LOCAL_PACKAGE_PATH]) {
		refuse(pool, "Key [local-package-path] is only allowed in the first "
			     "`--worker-pool-spec` flag.");
	} else if (inherits &&
		   !(pool->values[CONTAINER_IMAGE_URI] &&
			   smd_image_is_reduction_server(pool->values[CONTAINER_IMAGE_URI]))) {
		refuse_given(pool, software, sizeof(software) / sizeof(software[0]),
			"A local package has been specified in the first `--worker-pool-spec` "
			"flag and to be used for all workers, do not specify these keys "
			"elsewhere");
	} else if (pool->values[LOCAL_PACKAGE_PATH]) {
		check_local_package(pool);
	} else {
		check_image(pool);
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_accelerator_type(const struct pool_flag *pool, const char *type)
{
	const char *names[TYPES_MAX];
	const char *near;
	char available[KEY_LIST_MAX * 2] = "";
	size_t count = 0;

	for (; smd_accelerator_types[count] && count < TYPES_MAX; count++) {
		names[count] = smd_accelerator_types[count];
		if (strcmp(type, names[count]) == 0) {
			return;
		}
	}
	qsort(names, count, sizeof(names[0]), compare_names);
	for (size_t i = 0; i < count; i++) {
		/* One of the API's values names no accelerator. */
		if (!strstr(names[i], "UNSPECIFIED")) {
			snprintf(available + strlen(available),
				sizeof(available) - strlen(available), "%s%s",
				*available ? ", " : "", names[i]);
		}
	}
	near = smd_enum_suggest(type, smd_accelerator_types);
	refuse(pool,
		"Found invalid value of [accelerator-type]: %s. Available values are [%s].%s%s%s",
		type, available, near ? " Did you mean " : "", near ? near : "", near ? "?" : "");
}

static void check_count(const struct pool_flag *pool, enum pool_key key)
{
	uint64_t number;

	if (pool->values[key] && smd_parse_number(pool->values[key], 0, INT_MAX, &number)) {
		refuse(pool, "Key [%s] must be a whole number, got %s.", key_names[key],
			pool->values[key]);
	}
}

/* `inherits`: the first pool has a package for all. */
static void check(const struct pool_flag *pool, int inherits)
{
	if (!pool->values[MACHINE_TYPE]) {
		refuse(pool, "Key [machine-type] required in dict arg but not provided.");
	}
	if (pool->values[ACCELERATOR_COUNT] && !pool->values[ACCELERATOR_TYPE]) {
		refuse(pool,
			"Key [accelerator-type] required as [accelerator-count] is specified.");
	}
	if (pool->values[ACCELERATOR_TYPE]) {
		check_accelerator_type(pool, pool->values[ACCELERATOR_TYPE]);
	}
	check_count(pool, ACCELERATOR_COUNT);
	check_count(pool, REPLICA_COUNT);
	check_software(pool, inherits);
}

static void put(
	struct pool_flag *pool, struct smd_node *parent, const char *name, enum pool_key key)
{
	if (pool->values[key]) {
		smd_edit_put_string(pool->edit, parent, name, pool->values[key], pool->at);
	}
}

static void put_count(
	struct pool_flag *pool, struct smd_node *parent, const char *name, enum pool_key key)
{
	uint64_t number;

	if (pool->values[key] && !smd_parse_number(pool->values[key], 0, INT_MAX, &number)) {
		struct smd_node *node =
			smd_edit_put(pool->edit, parent, name, SMD_NODE_INTEGER, pool->at);

		if (node) {
			node->number.integer = (int64_t)number;
		}
	}
}

/* What a local package runs: the script, or the module, where the package was copied to. */
static void put_package_command(struct pool_flag *pool, struct smd_node *container)
{
	char *words[3] = {(char[]){"python3"}, (char[]){"-m"}, NULL};
	struct smd_flag_items command = {.values = words, .count = 3};

	if (pool->values[SCRIPT]) {
		words[0] = smd_script_interpreter(pool->values[SCRIPT]);
		words[1] = (char *)pool->values[SCRIPT];
		command.count = 2;
	} else {
		words[2] = (char *)pool->values[PYTHON_MODULE];
	}
	smd_edit_put_strings(pool->edit, container, "command", &command, pool->at);
}

/* "a;b": lists within a dictionary. */
static void take_list(struct pool_flag *pool, enum pool_key key, struct smd_flag_items *out)
{
	char *text;

	if (!pool->values[key] || asprintf(&text, "^;^%s", pool->values[key]) < 0) {
		return;
	}
	if (smd_flag_list(text, out, NULL)) {
		pool->edit->ret = -ENOMEM;
	}
	free(text);
}

static void put_package(struct pool_flag *pool, struct smd_node *node)
{
	struct smd_node *task = smd_edit_object(pool->edit, node, "containerSpec", pool->at);

	put(pool, task, "imageUri",
		pool->values[OUTPUT_IMAGE_URI] ? OUTPUT_IMAGE_URI : EXECUTOR_IMAGE_URI);
	put_package_command(pool, task);
}

static void put_software(struct pool_flag *pool, struct smd_node *node)
{
	struct smd_job_edit *edit = pool->edit;
	struct smd_node *task;

	if (pool->values[LOCAL_PACKAGE_PATH]) {
		put_package(pool, node);
	} else if (pool->values[CONTAINER_IMAGE_URI]) {
		task = smd_edit_object(edit, node, "containerSpec", pool->at);
		put(pool, task, "imageUri", CONTAINER_IMAGE_URI);
	} else if (pool->values[EXECUTOR_IMAGE_URI]) {
		task = smd_edit_object(edit, node, "pythonPackageSpec", pool->at);
		put(pool, task, "executorImageUri", EXECUTOR_IMAGE_URI);
		put(pool, task, "pythonModule", PYTHON_MODULE);
	}
}

static void build(struct pool_flag *pool, struct smd_node *node)
{
	struct smd_node *machine = smd_edit_object(pool->edit, node, "machineSpec", pool->at);

	put(pool, machine, "machineType", MACHINE_TYPE);
	put(pool, machine, "acceleratorType", ACCELERATOR_TYPE);
	put_count(pool, machine, "acceleratorCount", ACCELERATOR_COUNT);
	put_count(pool, node, "replicaCount", REPLICA_COUNT);
	put_software(pool, node);
}

/* The first pool's package is everyone's. */
static void take_package(struct pool_flag *pool)
{
	struct smd_job_edit *edit = pool->edit;
	const struct smd_package_flags flags = package_flags(pool);
	struct smd_flag_items extra_dirs = {0};

	edit->code_dir = strdup(pool->values[LOCAL_PACKAGE_PATH]);
	if (!edit->code_dir) {
		edit->ret = -ENOMEM;
	}
	take_list(pool, REQUIREMENTS, &edit->requirements);
	take_list(pool, EXTRA_PACKAGES, &edit->extra_packages);
	take_list(pool, EXTRA_DIRS, &extra_dirs);
	smd_edit_check_items(edit, &flags, &flags.directory, &edit->extra_packages, S_IFREG);
	smd_edit_check_items(edit, &flags, &flags.directory, &extra_dirs, S_IFDIR);
	smd_flag_items_free(&extra_dirs);
}

static void inherit_package(struct pool_flag *pool, const struct pool_flag *first)
{
	static const enum pool_key inherited[] = {
		EXECUTOR_IMAGE_URI, LOCAL_PACKAGE_PATH, OUTPUT_IMAGE_URI, PYTHON_MODULE, SCRIPT};

	if (pool->values[CONTAINER_IMAGE_URI]) {
		return; /* a reduction server */
	}
	for (size_t i = 0; i < sizeof(inherited) / sizeof(inherited[0]); i++) {
		pool->values[inherited[i]] = first->values[inherited[i]];
	}
}

static void add_pool(struct smd_node *pools, struct pool_flag *pool, struct pool_flag *first)
{
	struct smd_job_edit *edit = pool->edit;
	size_t errors = edit->diagnostics->found[SMD_SEVERITY_ERROR];
	struct smd_node *node = smd_node_create(pools, NULL, SMD_NODE_OBJECT, pool->at);
	int inherits = pool != first && first->values[LOCAL_PACKAGE_PATH];

	if (!node) {
		edit->ret = -ENOMEM;
		return;
	}
	check(pool, inherits);
	if (inherits) {
		inherit_package(pool, first);
	} else if (pool == first && pool->values[LOCAL_PACKAGE_PATH]) {
		take_package(pool);
	}
	pool->whole = edit->diagnostics->found[SMD_SEVERITY_ERROR] == errors;
	if (pool->whole && (!inherits || first->whole)) {
		build(pool, node);
	}
}

static int parse(struct pool_flag *pool, const char *value, struct smd_flag_items *items)
{
	struct smd_error error = {""};
	int ret = smd_flag_dictionary(value, items, &error);

	if (ret) {
		refuse(pool, "%s", error.text);
	}
	for (size_t i = 0; !ret && i < items->count; i++) {
		ret = take_key(pool, items->keys[i], items->values[i]);
	}
	return ret;
}

void smd_edit_pools(struct smd_job_edit *edit, const struct smd_flag_value *flags, size_t count)
{
	struct pool_flag *pools = calloc(count, sizeof(*pools));
	struct smd_flag_items *items = calloc(count, sizeof(*items));
	struct smd_node *list =
		smd_edit_put(edit, edit->spec, "workerPoolSpecs", SMD_NODE_ARRAY, flags[0].at);

	if (!pools || !items || !list) {
		edit->ret = -ENOMEM;
		count = 0;
	}
	if (count > 0 && !*flags[0].value) {
		smd_edit_refuse(edit, flags[0].at,
			"Empty value is not allowed for the first `--worker-pool-spec` flag.");
	}
	for (size_t i = 0; i < count; i++) {
		pools[i] = (struct pool_flag){.edit = edit, .at = flags[i].at, .number = i};
		if (parse(&pools[i], flags[i].value, &items[i])) {
			continue;
		}
		if (items[i].count > 0) {
			add_pool(list, &pools[i], &pools[0]);
		} else if (!smd_node_create(list, NULL, SMD_NODE_OBJECT, flags[i].at)) {
			edit->ret = -ENOMEM;
		}
	}
	for (size_t i = 0; i < count; i++) {
		smd_flag_items_free(&items[i]);
	}
	free(items);
	free(pools);
}
