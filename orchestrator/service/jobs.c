/* Answers requests about one job, of either kind. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/service/web_access.h"
#include "orchestrator/store/deletion.h"
#include "orchestrator/store/job_copy.h"

#define COUNT_SIZE 32

/* A quota may bound less than all of them. */
static void write_count(char text[COUNT_SIZE], int64_t count)
{
	if (count == INT64_MAX) {
		snprintf(text, COUNT_SIZE, "any number");
	} else {
		snprintf(text, COUNT_SIZE, "%" PRId64, count);
	}
}

static void write_memory(char text[COUNT_SIZE], int64_t bytes)
{
	if (bytes == INT64_MAX) {
		snprintf(text, COUNT_SIZE, "any memory");
	} else {
		snprintf(text, COUNT_SIZE, "%.1f GiB", (double)bytes / (1 << 30));
	}
}

static void refuse(
	struct smd_call *call, const struct smd_demand *room, const struct smd_demand *demand)
{
	int is_machine = room == smd_scheduler_capacity(call->desk->scheduler);
	char cpus[COUNT_SIZE], memory[COUNT_SIZE], gpus[COUNT_SIZE];

	write_count(cpus, room->cpus);
	write_memory(memory, room->memory_bytes);
	write_count(gpus, room->gpus);
	smd_answer_fail(&call->request->answer, SMD_RPC_RESOURCE_EXHAUSTED,
		"the job's replicas need %" PRId64 " CPUs, %.1f GiB of memory and %" PRId64
		" GPUs together, and %s %s, %s and %s%s",
		demand->cpus, (double)demand->memory_bytes / (1 << 30), demand->gpus,
		is_machine ? "this machine has" : "the project's quota is", cpus, memory, gpus,
		is_machine ? "; a service with --oversubscribe runs the job all the same" : "");
}

void smd_job_create(struct smd_call *call)
{
	const struct smd_http_request *request = call->request;
	const struct smd_demand *room;
	struct smd_intake intake;

	if (smd_intake_read(&call->desk->rules, call->kind, request->body ? request->body : "",
		    request->length, &intake, &call->request->answer)) {
		return;
	}
	room = smd_scheduler_refuses(call->desk->scheduler, call->project, &intake.demand);
	if (room) {
		refuse(call, room, &intake.demand);
		smd_intake_clear(&intake);
		return;
	}
	smd_batch_add(call->desk->batch, call, &intake);
}

static void answer_job(struct smd_call *call, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	const char *mask;
	json_t *resource;

	if (smd_call_read_mask(call, &mask)) {
		return;
	}
	resource = smd_resource_read(call->desk->store, job, call->has_numbers, &error);
	if (!resource) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "%s", error.text);
		return;
	}
	smd_web_access_add(call, job, resource);
	if (mask) {
		smd_resource_mask(resource, mask);
	}
	smd_answer_set(&call->request->answer, resource);
}

void smd_job_get(struct smd_call *call)
{
	struct smd_job_copy copy;

	if (!smd_call_find(call, &copy)) {
		answer_job(call, &copy.job);
		smd_job_copy_free(&copy);
	}
}

/* A job that has ended stays as it is, and that is no error: a client cannot know. */
void smd_job_cancel(struct smd_call *call)
{
	struct smd_error error = {""};
	struct smd_job_copy copy;
	int ret;

	if (smd_call_check_name_alone(call) || smd_call_find(call, &copy)) {
		return;
	}
	smd_job_copy_free(&copy);
	ret = smd_store_cancel(call->desk->store, call->id, &error);
	if (ret && ret != -EALREADY) {
		smd_answer_fail(
			&call->request->answer, SMD_RPC_FAILED_PRECONDITION, "%s", error.text);
		return;
	}
	smd_answer_set(&call->request->answer, json_object());
	smd_scheduler_wake(call->desk->scheduler);
}

/* -EAGAIN: not yet. */
static int remove_job(struct smd_call *call)
{
	struct smd_stored_deletion deletion;
	struct smd_error error = {""};
	struct smd_job_copy copy;
	int ret;

	if (smd_call_find(call, &copy)) {
		return 0;
	}
	smd_stored_job_name(deletion.resource, &copy.job);
	ret = smd_job_delete(call->desk->store, call->desk->state_dir, &copy.job, 0, &error);
	smd_job_copy_free(&copy);
	if (ret == -EAGAIN) {
		return ret;
	}
	ret = ret ? ret : smd_deletion_add(call->desk->store, &deletion, &error);
	if (ret) {
		smd_answer_fail(
			&call->request->answer, SMD_RPC_FAILED_PRECONDITION, "%s", error.text);
	} else {
		smd_answer_set(&call->request->answer, smd_operation_read(&deletion));
	}
	return 0;
}

/* A runner that still writes its last words needs a moment for that. */
void smd_job_remove(struct smd_call *call)
{
	struct smd_desk *desk = call->desk;

	if (remove_job(call) == 0) {
		return;
	}
	if (desk->nremovals == SMD_DESK_REMOVALS_MAX) {
		smd_answer_fail(&call->request->answer, SMD_RPC_UNAVAILABLE,
			"too many jobs are being deleted");
		return;
	}
	call->request->is_waiting = 1;
	desk->removals[desk->nremovals++] = *call;
}

void smd_job_remove_again(struct smd_desk *desk)
{
	size_t kept = 0;

	for (size_t i = 0; i < desk->nremovals; i++) {
		struct smd_call *call = &desk->removals[i];

		if (remove_job(call)) {
			desk->removals[kept++] = *call;
		} else {
			smd_http_answer(call->request);
		}
	}
	desk->nremovals = kept;
}
