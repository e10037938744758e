/* Shows a job of the store as the API does. */
#include "orchestrator/service/resource.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/enums.h"

/* Some of these no job here ever has. */
const struct smd_filter_name smd_resource_states[] = {{"JOB_STATE_QUEUED", 1},
	{"JOB_STATE_PENDING", 2}, {"JOB_STATE_RUNNING", 3}, {"JOB_STATE_SUCCEEDED", 4},
	{"JOB_STATE_FAILED", 5}, {"JOB_STATE_CANCELLING", 6}, {"JOB_STATE_CANCELLED", 7},
	{"JOB_STATE_PAUSED", 8}, {"JOB_STATE_EXPIRED", 9}, {"JOB_STATE_UPDATING", 10},
	{"JOB_STATE_PARTIALLY_SUCCEEDED", 11}, {"JOB_STATE_UNSPECIFIED", 0}, {NULL, 0}};

static const struct smd_filter_name trial_states[] = {{"REQUESTED", 1}, {"ACTIVE", 2},
	{"STOPPING", 3}, {"SUCCEEDED", 4}, {"INFEASIBLE", 5}, {NULL, 0}};

const struct smd_frontend *smd_resource_frontend(enum smd_stored_kind kind)
{
	static const char *const names[] = {
		[SMD_STORED_CUSTOM_JOB] = "a CustomJob",
		[SMD_STORED_TUNING_JOB] = "a HyperparameterTuningJob",
	};

	return smd_frontend_named(smd_frontends, names[kind]);
}

static void number_state(json_t *object, const struct smd_filter_name *states)
{
	const char *state = json_string_value(json_object_get(object, "state"));

	for (; state && states->name; states++) {
		if (strcmp(state, states->name) == 0) {
			json_object_set_new(object, "state", json_integer(states->number));
			return;
		}
	}
}

static void number_enums(enum smd_stored_kind kind, json_t *resource)
{
	json_t *trial;
	size_t i;

	smd_enums_number(smd_resource_frontend(kind)->message, resource);
	number_state(resource, smd_resource_states);
	json_array_foreach (json_object_get(resource, "trials"), i, trial) {
		number_state(trial, trial_states);
	}
}

/* Proto's JSON has numbers of 64 bits as texts. */
static void make_text(json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	char text[32];

	if (json_is_integer(value)) {
		snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		json_object_set_new(object, name, json_string(text));
	} else if (json_is_real(value)) { /* 1.0 */
		snprintf(text, sizeof(text), "%.0f", json_real_value(value));
		json_object_set_new(object, name, json_string(text));
	}
}

static void write_long_numbers(json_t *resource)
{
	json_t *spec = json_object_get(resource, "jobSpec");
	json_t *study = json_object_get(resource, "studySpec");
	json_t *element;
	size_t i;

	spec = spec ? spec : json_object_get(resource, "trialJobSpec");
	json_array_foreach (json_object_get(spec, "workerPoolSpecs"), i, element) {
		make_text(element, "replicaCount");
	}
	json_array_foreach (json_object_get(study, "parameters"), i, element) {
		json_t *range = json_object_get(element, "integerValueSpec");

		make_text(range, "minValue");
		make_text(range, "maxValue");
		make_text(range, "defaultValue");
	}
}

json_t *smd_resource_read(struct smd_store *store, const struct smd_stored_job *job,
	int has_numbers, struct smd_error *error)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *resource = smd_store_resource(store, job, error);

	if (!resource) {
		return NULL;
	}
	smd_stored_job_name(name, job);
	json_object_set_new(resource, "name", json_string(name));
	write_long_numbers(resource);
	if (has_numbers) {
		number_enums(job->kind, resource);
	}
	return resource;
}

/* ---- field masks ---- */

static void camel_case(char *path)
{
	char *out = path;

	for (const char *in = path; *in; in++) {
		*out++ = *in == '_' && islower((unsigned char)in[1])
				 ? (char)toupper((unsigned char)*++in)
				 : *in;
	}
	*out = '\0';
}

/* Below a list nothing can be named, and of what has no table anything may be. */
static int is_field(const struct smd_message *message, char *path)
{
	const char *name = strsep(&path, ".");
	const struct smd_field *field = smd_message_row(message, name);

	if (!field || field->is_refused) {
		return 0;
	}
	if (!path || !field->message) {
		return !path || *path;
	}
	return !field->is_list && field->decode != smd_decode_objects &&
	       is_field(field->message, path);
}

int smd_resource_check_mask(
	enum smd_stored_kind kind, const char *mask, char wrong[SMD_RESOURCE_PATH_SIZE])
{
	char *paths = strdup(mask);
	char *rest = paths;
	char *path;
	int ret = paths ? 0 : -ENOMEM;

	snprintf(wrong, SMD_RESOURCE_PATH_SIZE, "%s", "");
	if (strcmp(mask, "*") == 0) {
		rest = NULL;
	}
	while (!ret && (path = strsep(&rest, ","))) {
		snprintf(wrong, SMD_RESOURCE_PATH_SIZE, "%s", path);
		ret = is_field(smd_resource_frontend(kind)->message, path) ? 0 : -EINVAL;
	}
	free(paths);
	return ret;
}

/* Copies what the path names, below `to`, which has what earlier paths named. */
static void copy_path(json_t *to, json_t *from, char *path)
{
	char *name = strsep(&path, ".");
	json_t *value = json_object_get(from, name);
	json_t *below;

	if (!value) {
		return;
	}
	if (!path || !json_is_object(value)) {
		json_object_set(to, name, value);
		return;
	}
	below = json_object_get(to, name);
	if (!below) {
		json_object_set_new(to, name, json_object());
		below = json_object_get(to, name);
	}
	copy_path(below, value, path);
	if (json_object_size(below) == 0) {
		json_object_del(to, name);
	}
}

void smd_resource_mask(json_t *resource, const char *mask)
{
	json_t *whole = json_copy(resource);
	char *paths = strdup(mask);
	char *rest = paths;
	char *path;

	if (whole && paths && strcmp(mask, "*") != 0) {
		json_object_clear(resource);
		while ((path = strsep(&rest, ","))) {
			camel_case(path);
			copy_path(resource, whole, path);
		}
	}
	free(paths);
	json_decref(whole);
}
