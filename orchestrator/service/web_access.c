/* Says at which addresses the page shows terminals. */
#include "orchestrator/service/web_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/resource.h"
#include "orchestrator/store/last_record.h"

#define RUNS "RUNNING"

int smd_web_access_is_wanted(const json_t *resource)
{
	return json_is_true(
		json_object_get(json_object_get(resource, "jobSpec"), "enableWebAccess"));
}

/* Of a replica with several processes the first one has it, under the replica's name. */
static void add_uri(const struct smd_call *call, const char *job, const json_t *replica, json_t *uris)
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
		asprintf(&uri, "%s://%s/#/%s/terminal/%s", call->desk->scheme,
			call->request->host, job, node) >= 0) {
		json_object_set_new(uris, node, json_string(uri));
		free(uri);
	}
	free(node);
}

void smd_web_access_add(
	const struct smd_call *call, const struct smd_stored_job *job, json_t *resource)
{
	char name[SMD_STORE_NAME_SIZE];
	char shown[SMD_RESOURCE_NAME_SIZE];
	json_t *record, *replica;
	json_t *uris = json_object();
	size_t i;

	if (uris && smd_web_access_is_wanted(resource) && !job->end_time && job->directory) {
		smd_store_name(name, job->kind, job->id);
		smd_resource_name(shown, job);
		record = smd_last_record_replicas(job->directory, name);
		json_array_foreach (json_object_get(record, "replicas"), i, replica) {
			add_uri(call, shown, replica, uris);
		}
		json_decref(record);
	}
	if (json_object_size(uris) > 0) {
		json_object_set(resource, "webAccessUris", uris);
	}
	json_decref(uris);
}
