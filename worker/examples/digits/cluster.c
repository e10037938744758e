/* Finds this process's part in the JSON of CLUSTER_SPEC. */
#include "worker/examples/digits/cluster.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#define RANKS_MAX 256

/* Replicas in a pool; a pool without any has no key. */
static int pool_size(const json_t *spec, const char *pool)
{
	return (int)json_array_size(json_object_get(json_object_get(spec, "cluster"), pool));
}

static int read_task(const json_t *spec, struct digits_cluster *cluster, struct smd_error *error)
{
	const json_t *task = json_object_get(spec, "task");
	const char *type = json_string_value(json_object_get(task, "type"));
	const json_t *index = json_object_get(task, "index");
	int number = (int)json_integer_value(index);

	if (!type || !json_is_integer(index)) {
		return smd_error_set(error, EINVAL,
			"CLUSTER_SPEC: task must have a type (string) and an index (number)");
	}
	if (json_integer_value(index) < 0 || json_integer_value(index) >= pool_size(spec, type)) {
		return smd_error_set(error, EINVAL,
			"CLUSTER_SPEC: task.index must be below the %d replicas of %s, got %lld",
			pool_size(spec, type), type, (long long)json_integer_value(index));
	}
	if (strcmp(type, "workerpool0") == 0) {
		cluster->role = DIGITS_CHIEF;
		cluster->rank = 0;
	} else if (strcmp(type, "workerpool1") == 0) {
		cluster->role = DIGITS_WORKER;
		cluster->rank = number + 1;
	} else if (strcmp(type, "workerpool3") == 0) {
		cluster->role = DIGITS_EVALUATOR;
	} else {
		return smd_error_set(error, EINVAL,
			"CLUSTER_SPEC: task.type must be workerpool0, 1 or 3, got \"%s\"", type);
	}
	return 0;
}

int digits_cluster_read(const char *text, struct digits_cluster *out, struct smd_error *error)
{
	struct digits_cluster cluster = {.role = DIGITS_ALONE, .nranks = 1};
	json_error_t syntax;
	json_t *spec;
	int err;

	if (!text) {
		*out = cluster;
		return 0;
	}
	spec = json_loads(text, 0, &syntax);
	if (!spec) {
		return smd_error_set(error, EINVAL, "CLUSTER_SPEC:%d:%d: must be JSON: %s",
			syntax.line, syntax.column, syntax.text);
	}
	if (pool_size(spec, "workerpool0") != 1 || pool_size(spec, "workerpool1") >= RANKS_MAX) {
		err = smd_error_set(error, EINVAL,
			"CLUSTER_SPEC: must have 1 replica in workerpool0 and at most %d in "
			"workerpool1, got %d and %d",
			RANKS_MAX - 1, pool_size(spec, "workerpool0"),
			pool_size(spec, "workerpool1"));
	} else {
		cluster.nranks = 1 + pool_size(spec, "workerpool1");
		err = read_task(spec, &cluster, error);
	}
	json_decref(spec);
	if (err) {
		return err;
	}
	*out = cluster;
	return 0;
}
