/* Masks secrets in what is shown of a job. */
#include "orchestrator/job/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "orchestrator/job/secrets.h"

int smd_secret_is_name(const char *name)
{
	static const char *const words[] = {
		"token", "key", "secret", "password", "passwd", "passphrase"};
	static const char file[] = "_file";
	size_t length = strlen(name);

	if (length >= strlen(file) && strcasecmp(name + length - strlen(file), file) == 0) {
		return 0;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasestr(name, words[i])) {
			return 1;
		}
	}
	return 0;
}

/* An empty value is no secret, nor is a reference to one. */
static int is_secret(const char *name, const char *value)
{
	return name && value && *value && smd_secret_is_name(name) &&
	       !smd_secret_is_reference(value);
}

static int mask_within(json_t *node, size_t *count)
{
	const char *name = json_string_value(json_object_get(node, "name"));
	const char *value = json_string_value(json_object_get(node, "value"));
	const char *key;
	json_t *child;
	size_t i;

	if (is_secret(name, value)) {
		(*count)++;
		return json_object_set_new(node, "value", json_string(SMD_SECRET_MASK));
	}
	json_object_foreach (node, key, child) {
		if (mask_within(child, count)) {
			return -1;
		}
	}
	json_array_foreach (node, i, child) {
		if (mask_within(child, count)) {
			return -1;
		}
	}
	return 0;
}

json_t *smd_secret_mask_json(const json_t *document, size_t *count)
{
	json_t *copy = json_deep_copy(document);
	size_t masked = 0;

	if (!copy || mask_within(copy, &masked)) {
		json_decref(copy);
		return NULL;
	}
	if (count) {
		*count = masked;
	}
	return copy;
}

static int mask_pool(struct smd_job_pool *pool, size_t *count)
{
	static char mask[] = SMD_SECRET_MASK;
	struct smd_variable *env = calloc(pool->nenv + 1, sizeof(*env));

	if (!env) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < pool->nenv; i++) {
		env[i] = pool->env[i];
		if (is_secret(env[i].name, env[i].value)) {
			env[i].value = mask;
			(*count)++;
		}
	}
	pool->env = env;
	return 0;
}

int smd_masked_job_open(struct smd_masked_job *masked, const struct smd_job *job)
{
	int opened = 0;
	int ret = 0;

	*masked = (struct smd_masked_job){.job = *job};
	masked->job.spec = NULL;
	masked->job.resolved = NULL;
	while (opened < SMD_JOB_POOLS_MAX && !ret) {
		ret = mask_pool(&masked->job.pools[opened], &masked->count);
		opened += ret == 0;
	}
	if (!ret && job->spec) {
		masked->job.spec = smd_secret_mask_json(job->spec, NULL);
		ret = masked->job.spec ? 0 : -ENOMEM;
	}
	if (!ret && job->resolved) {
		masked->job.resolved = smd_secret_mask_json(job->resolved, NULL);
		ret = masked->job.resolved ? 0 : -ENOMEM;
	}
	if (ret) {
		while (opened < SMD_JOB_POOLS_MAX) {
			masked->job.pools[opened++].env = NULL; /* the job's own */
		}
		smd_masked_job_close(masked);
	}
	return ret;
}

void smd_masked_job_close(struct smd_masked_job *masked)
{
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		free(masked->job.pools[i].env);
	}
	json_decref(masked->job.spec);
	json_decref(masked->job.resolved);
	*masked = (struct smd_masked_job){.count = 0};
}
