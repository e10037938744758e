/* Answers with what a job's directory says of it: its replicas, and its plan. */
#include <stdlib.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/store/job_copy.h"
#include "orchestrator/store/last_record.h"
#include "orchestrator/store/queue.h"

static int take_other(void *arg, const struct smd_stored_job *job)
{
	char name[SMD_STORE_NAME_SIZE];

	smd_stored_job_name(name, job);
	json_object_set_new(arg, "job", json_string(name));
	json_object_set_new(arg, "displayName", json_string(job->display_name));
	return 0;
}

/* What other jobs have to do with its room; of one that is gone there is no name. NULL: nothing. */
static json_t *preemption_of(const struct smd_call *call)
{
	struct smd_store *store = call->desk->store;
	struct smd_preemptions found;
	int64_t other;
	json_t *shown;

	if (smd_queue_preemptions(store, call->id, &found, NULL) ||
		(!found.makes_room_for && found.count == 0)) {
		return NULL;
	}
	other = found.makes_room_for ? found.makes_room_for : found.last_by;
	shown = json_pack("{s:b, s:i}", "makesRoom", found.makes_room_for != 0, "count",
		(int)found.count);
	if (found.last_time[0]) {
		json_object_set_new(shown, "lastTime", json_string(found.last_time));
	}
	(void)smd_store_get(store, other, take_other, shown, NULL);
	return shown;
}

/* A job that has not begun has none. */
void smd_job_replicas(struct smd_call *call)
{
	char name[SMD_STORE_NAME_SIZE];
	struct smd_job_copy copy;
	json_t *replicas, *preemption;

	if (smd_call_find(call, &copy)) {
		return;
	}
	smd_store_name(name, copy.job.kind, copy.job.id);
	replicas = smd_last_record_replicas(copy.job.directory, name);
	replicas = replicas ? replicas : json_pack("{s:[]}", "replicas");
	preemption = preemption_of(call);
	if (preemption) {
		json_object_set_new(replicas, "preemption", preemption);
	}
	smd_answer_set(&call->request->answer, replicas);
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
