/* Answers requests about jobs, of either kind. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/filter.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/store/deletion.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/parse.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000
#define ANY_LOCATION "-"
#define LABELS       "labels."

/* ---- one job ---- */

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
		int is_machine = room == smd_scheduler_capacity(call->desk->scheduler);

		smd_answer_fail(&call->request->answer, SMD_RPC_RESOURCE_EXHAUSTED,
			"the job's replicas need %" PRId64 " CPUs, %.1f GiB of memory and %" PRId64
			" GPUs together, and %s %" PRId64 ", %.1f GiB and %" PRId64 "%s",
			intake.demand.cpus, (double)intake.demand.memory_bytes / (1 << 30),
			intake.demand.gpus,
			is_machine ? "this machine has" : "the project's quota is", room->cpus,
			(double)room->memory_bytes / (1 << 30), room->gpus,
			is_machine ? "; a service with --oversubscribe runs the job all the same"
				   : "");
		smd_intake_clear(&intake);
		return;
	}
	smd_batch_add(call->desk->batch, call, &intake);
}

static void answer_job(struct smd_call *call, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	const char *mask = smd_uri_parameter(&call->request->uri, "readMask");
	json_t *resource = smd_resource_read(call->desk->store, job, call->has_numbers, &error);

	mask = mask ? mask : smd_uri_parameter(&call->request->uri, "read_mask");
	if (!resource) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "%s", error.text);
		return;
	}
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

	if (smd_call_find(call, &copy)) {
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
	smd_resource_name(deletion.resource, &copy.job);
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

/* ---- lists ---- */

static enum smd_filter_key key_of(const char *key)
{
	static const char *const texts[] = {"name", "displayName", "state", "labels"};
	static const char *const times[] = {"createTime", "startTime", "endTime", "updateTime"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i]) == 0) {
			return SMD_FILTER_TEXT;
		}
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (strcmp(key, times[i]) == 0) {
			return SMD_FILTER_TIME;
		}
	}
	return strncmp(key, LABELS, strlen(LABELS)) == 0 && key[strlen(LABELS)] ? SMD_FILTER_TEXT
										: SMD_FILTER_NO_KEY;
}

/* A job whose values are asked for. */
struct job_values {
	const struct smd_stored_job *job;
	json_t *labels; /* NULL: not read yet */
	char name[SMD_RESOURCE_NAME_SIZE];
};

static const char *value_of(void *arg, const char *key)
{
	struct job_values *values = arg;
	const struct smd_stored_job *job = values->job;
	const struct {
		const char *key;
		const char *text;
	} texts[] = {{"displayName", job->display_name}, {"state", job->state},
		{"createTime", job->create_time}, {"startTime", job->start_time},
		{"endTime", job->end_time}, {"updateTime", job->update_time},
		{"labels", job->labels}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i].key) == 0) {
			return texts[i].text;
		}
	}
	if (strcmp(key, "name") == 0) {
		smd_resource_name(values->name, job);
		return values->name;
	}
	if (!values->labels) {
		values->labels = json_loads(job->labels, 0, NULL);
	}
	return json_string_value(json_object_get(values->labels, key + strlen(LABELS)));
}

struct listing_page {
	struct smd_filter *filter;
	struct smd_job_copy jobs[PAGE_MAX + 1]; /* one more, if there is another page */
	size_t count;
	size_t size;
};

static int take_job(void *arg, const struct smd_stored_job *job)
{
	struct listing_page *page = arg;
	struct job_values values = {.job = job};
	int has = smd_filter_has(page->filter, value_of, &values);

	json_decref(values.labels);
	if (!has) {
		return 0;
	}
	if (smd_job_copy_take(&page->jobs[page->count], job)) {
		return -ENOMEM;
	}
	return ++page->count > page->size;
}

static const char *parameter(const struct smd_call *call, const char *name, const char *snake)
{
	const char *value = smd_uri_parameter(&call->request->uri, name);

	return value ? value : smd_uri_parameter(&call->request->uri, snake);
}

/* "TIME/ID" of the last job of the page before. 0; else it has been answered. */
static int read_position(struct smd_call *call, char *token, struct smd_store_position *position)
{
	char *slash = strchr(token, '/');
	uint64_t id;
	int64_t ns;

	if (!*token) {
		return 0;
	}
	if (slash) {
		*slash = '\0';
	}
	if (!slash || smd_filter_time(token, &ns) ||
		smd_parse_number(slash + 1, 1, INT64_MAX, &id)) {
		smd_answer_violate(&call->request->answer, "page_token",
			"Invalid value at 'page_token': must be the nextPageToken of another page");
		return -EINVAL;
	}
	*position = (struct smd_store_position){.create_time = token, .id = (int64_t)id};
	return 0;
}

static int read_page(struct smd_call *call, struct listing_page *page)
{
	const char *filter = parameter(call, "filter", "filter");
	const char *size = parameter(call, "pageSize", "page_size");
	const char *order = parameter(call, "orderBy", "order_by");
	struct smd_error error = {""};
	uint64_t number = 0;

	if (filter && smd_filter_parse(filter, key_of, &page->filter, &error)) {
		smd_answer_violate(&call->request->answer, "filter",
			"Invalid value at 'filter': %s", error.text);
	}
	if (size && smd_parse_number(size, 0, INT32_MAX, &number)) {
		smd_answer_violate(&call->request->answer, "page_size",
			"Invalid value at 'page_size': must be a number from 0 on, got \"%.32s\"",
			size);
	}
	if (order && *order && strcmp(order, "create_time desc") != 0 &&
		strcmp(order, "createTime desc") != 0) {
		smd_answer_violate(&call->request->answer, "order_by",
			"Invalid value at 'order_by': must be \"create_time desc\", got \"%.64s\"",
			order);
	}
	page->size = number == 0 ? PAGE_DEFAULT : number > PAGE_MAX ? PAGE_MAX : number;
	return call->request->answer.status ? -EINVAL : 0;
}

static json_t *make_page(
	struct smd_call *call, const struct listing_page *page, struct smd_error *error)
{
	const char *mask = parameter(call, "readMask", "read_mask");
	size_t shown = page->count > page->size ? page->size : page->count;
	json_t *list = json_array();
	json_t *body;
	char *token = NULL;

	for (size_t i = 0; i < shown; i++) {
		json_t *resource = smd_resource_read(
			call->desk->store, &page->jobs[i].job, call->has_numbers, error);

		if (resource && mask) {
			smd_resource_mask(resource, mask);
		}
		if (json_array_append_new(list, resource)) {
			json_decref(list);
			return NULL;
		}
	}
	body = json_pack("{s:o}", smd_stored_kind_collection(call->kind), list);
	if (page->count > page->size && body) {
		const struct smd_stored_job *last = &page->jobs[shown - 1].job;

		if (asprintf(&token, "%s/%" PRId64, last->create_time, last->id) >= 0) {
			json_object_set_new(body, "nextPageToken", json_string(token));
			free(token);
		}
	}
	return body;
}

static void list(struct smd_call *call, struct listing_page *page, char *token)
{
	struct smd_store_position position = {.create_time = NULL};
	int is_any = strcmp(call->location, ANY_LOCATION) == 0;
	struct smd_error error = {""};
	json_t *body;

	if (read_page(call, page) || read_position(call, token, &position)) {
		return;
	}
	if (smd_store_each_of(call->desk->store, call->kind, call->project,
		    is_any ? NULL : call->location, &position, take_job, page, &error) < 0) {
		smd_answer_fail(&call->request->answer, SMD_RPC_UNAVAILABLE, "%s", error.text);
		return;
	}
	body = make_page(call, page, &error);
	if (body) {
		smd_answer_set(&call->request->answer, body);
	} else {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "%s", error.text);
	}
}

void smd_job_list(struct smd_call *call)
{
	const char *given = parameter(call, "pageToken", "page_token");
	struct listing_page *page = calloc(1, sizeof(*page));
	char *token = strdup(given ? given : "");

	if (page && token) {
		list(call, page, token);
	} else {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "out of memory");
	}
	for (size_t i = 0; page && i < page->count; i++) {
		smd_job_copy_free(&page->jobs[i]);
	}
	smd_filter_free(page ? page->filter : NULL);
	free(token);
	free(page);
}
