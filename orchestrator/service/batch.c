/* Writes the jobs that came together in one transaction, so that one wait for the disk does for
 * all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/store/job_copy.h"

struct batch_item {
	struct smd_http_request *request;
	struct smd_intake intake;
	int has_numbers;
};

struct smd_batch {
	struct batch_item *items;
	struct smd_new_job *jobs; /* of the same numbers */
	size_t count;
	size_t size;
};

int smd_batch_open(struct smd_batch **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static void clear(struct smd_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		smd_intake_clear(&batch->items[i].intake);
	}
	batch->count = 0;
}

void smd_batch_close(struct smd_batch *batch)
{
	if (batch) {
		clear(batch);
		free(batch->items);
		free(batch->jobs);
		free(batch);
	}
}

static int grow(struct smd_batch *batch)
{
	size_t size = batch->size ? 2 * batch->size : 16;
	void *items = realloc(batch->items, size * sizeof(*batch->items));
	void *jobs;

	if (!items) {
		return -ENOMEM;
	}
	batch->items = items;
	jobs = realloc(batch->jobs, size * sizeof(*batch->jobs));
	if (!jobs) {
		return -ENOMEM;
	}
	batch->jobs = jobs;
	batch->size = size;
	return 0;
}

int smd_batch_add(struct smd_batch *batch, struct smd_call *call, struct smd_intake *intake)
{
	if (batch->count == batch->size && grow(batch)) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "out of memory");
		smd_intake_clear(intake);
		return -ENOMEM;
	}
	batch->jobs[batch->count] = (struct smd_new_job){.kind = call->kind,
		.project = call->project,
		.location = call->location,
		.display_name = intake->display_name,
		.resource = intake->resource,
		.spec = intake->spec,
		.demand = intake->demand,
		.priority = intake->priority,
		.preemption = intake->preemption,
		.max_wait_s = intake->max_wait_s,
		.timeout_s = intake->timeout_s};
	batch->items[batch->count++] = (struct batch_item){
		.request = call->request, .intake = *intake, .has_numbers = call->has_numbers};
	call->request->is_waiting = 1;
	return 0;
}

/* What can be read from the store again, now that it is there. */
static void answer_item(
	struct smd_desk *desk, const struct batch_item *item, const struct smd_new_job *job)
{
	struct smd_error error = {""};
	struct smd_job_copy copy = {.text = NULL};
	int ret = smd_store_get(desk->store, job->id, smd_job_copy_take, &copy, &error);

	if (!ret) {
		smd_answer_set(&item->request->answer,
			smd_resource_read(desk->store, &copy.job, item->has_numbers, &error));
	} else {
		smd_answer_fail(&item->request->answer, SMD_RPC_UNAVAILABLE, "%s", error.text);
	}
	smd_job_copy_free(&copy);
}

void smd_batch_write(struct smd_desk *desk)
{
	struct smd_batch *batch = desk->batch;
	struct smd_error error = {""};
	int ret;

	if (batch->count == 0) {
		return;
	}
	ret = smd_queue_add(desk->store, batch->jobs, batch->count, &error);
	for (size_t i = 0; i < batch->count; i++) {
		if (ret) {
			smd_answer_fail(&batch->items[i].request->answer, SMD_RPC_UNAVAILABLE,
				"the job could not be stored: %s", error.text);
		} else {
			answer_item(desk, &batch->items[i], &batch->jobs[i]);
		}
		smd_http_answer(batch->items[i].request);
	}
	clear(batch);
	smd_scheduler_wake(desk->scheduler);
}
