/* Answers entries:list of Cloud Logging: reads what is asked for. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/entry_page.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/parse.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000

/* ---- the request ---- */

static int read_token(struct smd_entry_page *page, const char *token)
{
	int length = 0;

	if (!token || !*token) {
		return 0;
	}
	if (*token == 'd' && page->is_descending) {
		uint64_t skipped;
		int ret = smd_parse_number(token + 1, 1, INT32_MAX, &skipped);

		page->skipped = ret ? 0 : (size_t)skipped;
		return ret;
	}
	return sscanf(token, "a%" SCNd64 "-%" SCNu64 "%n", &page->from.second, &page->from.number,
		       &length) == 2 &&
			       !token[length] && !page->is_descending
		       ? 0
		       : -EINVAL;
}

static void read_order(struct smd_call *call, struct smd_entry_page *page, const json_t *body)
{
	const char *order = json_string_value(json_object_get(body, "orderBy"));
	const json_t *size = json_object_get(body, "pageSize");
	json_int_t number = json_integer_value(size);

	if (order && strcmp(order, "timestamp desc") == 0) {
		page->is_descending = 1;
	} else if (order && *order && strcmp(order, "timestamp asc") != 0 &&
		   strcmp(order, "timestamp") != 0) {
		smd_answer_violate(&call->request->answer, "order_by",
			"order_by must be \"timestamp asc\" or \"timestamp desc\", got \"%.64s\"",
			order);
	}
	if (size && (!json_is_integer(size) || number < 0)) {
		smd_answer_violate(&call->request->answer, "page_size",
			"page_size must be a number from 0 on");
	}
	page->size = number <= 0 ? PAGE_DEFAULT : number > PAGE_MAX ? PAGE_MAX : (size_t)number;
	if (read_token(page, json_string_value(json_object_get(body, "pageToken")))) {
		smd_answer_violate(&call->request->answer, "page_token",
			"page_token must be the nextPageToken of another page");
	}
}

/* Whether it is a list of texts that are not empty, with one at least. */
static int is_list_of_names(const json_t *value)
{
	const json_t *name;
	size_t i;

	json_array_foreach (value, i, name) {
		if (!json_is_string(name) || !*json_string_value(name)) {
			return 0;
		}
	}
	return json_array_size(value) > 0;
}

static void check_fields(struct smd_call *call, const json_t *body)
{
	static const char *const texts[] = {"filter", "orderBy", "pageToken"};

	smd_call_check_fields(call, body,
		(const char *const[]){"resourceNames", "projectIds", "filter", "orderBy", "pageSize",
			"pageToken", NULL});
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const json_t *value = json_object_get(body, texts[i]);

		if (value && !json_is_string(value)) {
			smd_answer_violate(&call->request->answer, texts[i],
				"Invalid value at '%s' (TYPE_STRING)", texts[i]);
		}
	}
	if (!is_list_of_names(json_object_get(body, "resourceNames"))) {
		smd_answer_violate(&call->request->answer, "resource_names",
			"Invalid value at 'resource_names': must be a list with \"projects/PROJECT\"");
	}
}

/* Logs are those of a project. */
static int has_project(const json_t *body, const char *project)
{
	const json_t *names = json_object_get(body, "resourceNames");
	const json_t *name;
	size_t i;

	json_array_foreach (names, i, name) {
		const char *text = json_string_value(name);

		if (text && strncmp(text, "projects/", 9) == 0 && strcmp(text + 9, project) == 0) {
			return 1;
		}
	}
	return 0;
}

/* What is not there has no lines, as a job that has said nothing. */
static void list_entries(struct smd_call *call, struct smd_entry_page *page, const json_t *body)
{
	const char *only = smd_filter_only(page->filter, SMD_ENTRY_JOB);
	struct smd_error error = {""};
	struct smd_job_copy copy = {.text = NULL};
	uint64_t id;

	if (!only) {
		smd_answer_violate(&call->request->answer, "filter",
			"filter must have resource.labels.job_id=\"ID\"");
		return;
	}
	if (smd_parse_number(only, 1, INT64_MAX, &id) ||
		smd_store_get(call->desk->store, (int64_t)id, smd_job_copy_take, &copy, &error) ||
		!has_project(body, copy.job.project)) {
		smd_answer_set(&call->request->answer, json_object());
	} else {
		page->job = &copy.job;
		smd_answer_set(&call->request->answer, smd_entry_page_read(page));
	}
	smd_job_copy_free(&copy);
}

void smd_entries_list(struct smd_call *call)
{
	const struct smd_http_request *request = call->request;
	json_t *body = request->body ? json_loadb(request->body, request->length,
					       JSON_REJECT_DUPLICATES, NULL)
				     : NULL;
	const char *text = json_string_value(json_object_get(body, "filter"));
	struct smd_entry_page page = {.from = {.second = INT64_MIN}};
	struct smd_error error = {""};

	if (!json_is_object(body)) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INVALID_ARGUMENT,
			"Invalid JSON payload received. The body must be an object.");
	} else {
		check_fields(call, body);
		read_order(call, &page, body);
		if (smd_filter_parse(text ? text : "", smd_entry_key_of, &page.filter, &error)) {
			smd_answer_violate(
				&call->request->answer, "filter", "filter %s", error.text);
		}
	}
	if (!call->request->answer.status) {
		list_entries(call, &page, body);
	}
	smd_filter_free(page.filter);
	json_decref(body);
}
