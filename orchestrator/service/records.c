/* Answers with what a job's directory says of it: its replicas, and its plan. */
#include <stdlib.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/store/job_copy.h"
#include "orchestrator/store/last_record.h"

/* A job that has not begun has none. */
void smd_job_replicas(struct smd_call *call)
{
	char name[SMD_STORE_NAME_SIZE];
	struct smd_job_copy copy;
	json_t *replicas;

	if (smd_call_find(call, &copy)) {
		return;
	}
	smd_store_name(name, copy.job.kind, copy.job.id);
	replicas = smd_last_record_replicas(copy.job.directory, name);
	smd_answer_set(
		&call->request->answer, replicas ? replicas : json_pack("{s:[]}", "replicas"));
	smd_job_copy_free(&copy);
}

void smd_job_plan(struct smd_call *call)
{
	struct smd_job_copy copy;
	char *text;

	if (smd_call_find(call, &copy)) {
		return;
	}
	text = smd_last_record_plan(copy.job.directory);
	smd_answer_set(
		&call->request->answer, text ? json_pack("{s:s}", "text", text) : json_object());
	free(text);
	smd_job_copy_free(&copy);
}
