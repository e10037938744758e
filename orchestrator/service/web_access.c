/* Says at which addresses the page shows terminals: of a job's replicas, or of each trial's. */
#include "orchestrator/service/web_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/job/trial.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/store/last_record.h"
#include "reduction_server/base/parse.h"

#define RUNS      "RUNNING"
#define REQUESTED "REQUESTED" /* a trial that has not begun */

int smd_web_access_is_wanted(const json_t *resource)
{
	const json_t *spec = json_object_get(resource, "jobSpec");

	spec = spec ? spec : json_object_get(resource, "trialJobSpec");
	return json_is_true(json_object_get(spec, "enableWebAccess"));
}

/* Of a replica with several processes the first one has it, under the replica's name. */
static void add_uri(const struct smd_call *call, const char *job, const char *trial,
	const json_t *replica, json_t *uris)
{
	const char *state = json_string_value(json_object_get(replica, "state"));
	const char *name = json_string_value(json_object_get(replica, "name"));
	char *node = state && name && strcmp(state, RUNS) == 0 ? strdup(name) : NULL;
	char *uri;

	if (!node) {
		return;
	}
	node[strcspn(node, ".")] = '\0';
	if (!json_object_get(uris, node) &&
		asprintf(&uri, "%s://%s/#/%s/terminal/%s%s%s", call->desk->scheme,
			call->request->host, job, node, trial ? "/" : "", trial ? trial : "") >= 0) {
		json_object_set_new(uris, node, json_string(uri));
		free(uri);
	}
	free(node);
}

/* To the job or the trial of whose replicas that is the directory. */
static void add_uris(const struct smd_call *call, const struct smd_stored_job *job,
	const char *trial, const char *directory, const char *record_name, json_t *to)
{
	char shown[SMD_STORE_NAME_SIZE];
	json_t *record = smd_last_record_replicas(directory, record_name);
	json_t *uris = json_object();
	json_t *replica;
	size_t i;

	smd_stored_job_name(shown, job);
	json_array_foreach (json_object_get(record, "replicas"), i, replica) {
		add_uri(call, shown, trial, replica, uris);
	}
	if (json_object_size(uris) > 0) {
		json_object_set(to, "webAccessUris", uris);
	}
	json_decref(uris);
	json_decref(record);
}

static void add_of_trial(
	const struct smd_call *call, const struct smd_stored_job *job, json_t *trial)
{
	const char *state = json_string_value(json_object_get(trial, "state"));
	const char *id = json_string_value(json_object_get(trial, "id"));
	uint64_t number;
	char *directory;

	/* Names of enumerations, or numbers. */
	if (json_object_get(trial, "endTime") || !id ||
		smd_parse_number(id, 1, UINT32_MAX, &number) ||
		(state && strcmp(state, REQUESTED) == 0) ||
		asprintf(&directory, "%s/" SMD_TRIAL_FOLDER, job->directory, (unsigned)number) < 0) {
		return;
	}
	add_uris(call, job, id, directory, NULL, trial);
	free(directory);
}

void smd_web_access_add(
	const struct smd_call *call, const struct smd_stored_job *job, json_t *resource)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *trial;
	size_t i;

	if (!smd_web_access_is_wanted(resource) || job->end_time || !job->directory) {
		return;
	}
	if (job->kind == SMD_STORED_CUSTOM_JOB) {
		smd_store_name(name, job->kind, job->id);
		add_uris(call, job, NULL, job->directory, name, resource);
		return;
	}
	json_array_foreach (json_object_get(resource, "trials"), i, trial) {
		add_of_trial(call, job, trial);
	}
}
