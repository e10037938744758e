/* Answers requests about operations: a deletion is over when it is answered. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/store/deletion.h"

#define TYPE     "type.googleapis.com/"
#define METADATA TYPE "google.cloud.aiplatform.v1.DeleteOperationMetadata"
#define EMPTY    TYPE "google.protobuf.Empty"

json_t *smd_operation_read(const struct smd_stored_deletion *deletion)
{
	char name[SMD_DELETION_RESOURCE_SIZE + 64];

	snprintf(name, sizeof(name), "%s/operations/%" PRId64, deletion->resource, deletion->id);
	return json_pack("{s:s, s:{s:s, s:{s:s, s:s}}, s:b, s:{s:s}}", "name", name, "metadata",
		"@type", METADATA, "genericMetadata", "createTime", deletion->create_time,
		"updateTime", deletion->create_time, "done", 1, "response", "@type", EMPTY);
}

/* Under its own name, or under that of its place alone. */
static int is_of_place(const struct smd_call *call, const struct smd_stored_deletion *deletion)
{
	char prefix[SMD_DELETION_RESOURCE_SIZE];

	snprintf(
		prefix, sizeof(prefix), "projects/%s/locations/%s/", call->project, call->location);
	return strncmp(deletion->resource, prefix, strlen(prefix)) == 0;
}

void smd_operation_get(struct smd_call *call)
{
	struct smd_stored_deletion deletion;
	struct smd_error error = {""};

	if (smd_deletion_find(call->desk->store, call->id, &deletion, &error) == 0 &&
		is_of_place(call, &deletion)) {
		smd_answer_set(&call->request->answer, smd_operation_read(&deletion));
	} else {
		smd_answer_fail(
			&call->request->answer, SMD_RPC_NOT_FOUND, "The operation does not exist");
	}
}
