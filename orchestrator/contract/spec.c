/* The spec inside CLUSTER_SPEC and TF_CONFIG: as documented, as seen in the field, or not at all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

/* A member in either spelling; NULL when there is none. */
static json_t *member(json_t *object, const char *camel, const char *snake)
{
	json_t *value = json_object_get(object, camel);

	return value ? value : json_object_get(object, snake);
}

/* A member's text or list, or what stands for none. */
static json_t *member_or(json_t *object, const char *camel, const char *snake, json_t *none)
{
	json_t *value = member(object, camel, snake);

	if (!value || json_is_null(value)) {
		return none;
	}
	json_decref(none);
	return json_incref(value);
}

/* The form that replicas on Vertex AI find: what the chief runs, as JSON in a string. */
static json_t *task_in_string(json_t *spec)
{
	json_t *pool = json_array_get(member(spec, "workerPoolSpecs", "worker_pool_specs"), 0);
	json_t *package = member(pool, "pythonPackageSpec", "python_package_spec");
	json_t *task = package ? package : member(pool, "containerSpec", "container_spec");
	json_t *object = json_pack("{s:o, s:o, s:o}", "python_module",
		member_or(task, "pythonModule", "python_module", json_string("")), "package_uris",
		member_or(task, "packageUris", "package_uris", json_array()), "job_args",
		member_or(task, "args", "args", json_array()));
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_t *string = text ? json_string(text) : NULL;

	free(text);
	json_decref(object);
	return string;
}

int smd_spec_prepare(struct smd_contract *contract)
{
	const struct smd_job *job = contract->job;
	json_t *value;
	char *text;

	if (job->job_encoding == SMD_JOB_ENCODING_NONE) {
		contract->spec = strdup("");
		return contract->spec ? 0 : -ENOMEM;
	}
	value = job->job_encoding == SMD_JOB_ENCODING_STRING ? task_in_string(job->spec)
							     : json_incref(job->spec);
	text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	if (text && asprintf(&contract->spec, ",\"job\":%s", text) < 0) {
		contract->spec = NULL;
	}
	free(text);
	json_decref(value);
	return contract->spec ? 0 : -ENOMEM;
}
