/* Answers lists of jobs, of either kind: filtered, in an order, and in pages. */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/filter.h"
#include "orchestrator/service/page_token.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/service/web_access.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/parse.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000
#define ANY          "-"
#define LABELS       "labels."
#define LABEL_SIZE   512

static enum smd_filter_key key_of(const char *key, const struct smd_filter_name **values)
{
	static const char *const texts[] = {"name", "displayName", "labels"};
	static const char *const times[] = {"createTime", "startTime", "endTime", "updateTime"};

	*values = smd_resource_states;
	if (strcmp(key, "state") == 0) {
		return SMD_FILTER_NAME;
	}
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
	json_t *labels; /* NULL: not parsed yet */
	char label[LABEL_SIZE];
	char name[SMD_STORE_NAME_SIZE];
};

/* Labels are stored as {"KEY":"VALUE",...}. Where nothing in them is escaped, each quote begins or ends
 * a text, so a label is found without a parser, which takes ten times as long. */
static const char *find_label(struct job_values *values, const char *key)
{
	size_t length = strlen(key);
	const char *at = values->job->labels;

	while ((at = strstr(at, key))) {
		if (at - values->job->labels >= 2 && at[-1] == '"' && strncmp(at + length, "\":\"", 3) == 0 &&
			strchr("{,", at[-2])) {
			const char *value = at + length + 3;

			snprintf(values->label, sizeof(values->label), "%.*s",
				(int)strcspn(value, "\""), value);
			return values->label;
		}
		at++;
	}
	return NULL;
}

static const char *label_of(struct job_values *values, const char *key)
{
	if (values->labels ||
		strlen(values->job->labels) > sizeof(values->label) ||
		strpbrk(values->job->labels, "\\") || strpbrk(key, "\"\\") || !*key) {
		values->labels = values->labels ? values->labels
						: json_loads(values->job->labels, 0, NULL);
		return json_string_value(json_object_get(values->labels, key));
	}
	return find_label(values, key);
}

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
		smd_stored_job_name(values->name, job);
		return values->name;
	}
	return label_of(values, key + strlen(LABELS));
}

struct listing_page {
	struct smd_filter *filter;
	struct smd_store_selection selection;
	struct smd_page_token *after; /* NULL: this is the first */
	const char *mask;
	struct smd_job_copy jobs[PAGE_MAX + 1]; /* one more, if there is another page */
	size_t count;
	size_t size;
};

static int fits(void *arg, const struct smd_stored_job *job)
{
	const struct listing_page *page = arg;
	struct job_values values;
	int has;

	values.job = job;
	values.labels = NULL;
	has = smd_filter_has(page->filter, value_of, &values);
	json_decref(values.labels);
	return has;
}

static int take_job(void *arg, const struct smd_stored_job *job)
{
	struct listing_page *page = arg;

	if (smd_job_copy_take(&page->jobs[page->count], job)) {
		return -ENOMEM;
	}
	return ++page->count > page->size;
}

static int read_page(struct smd_call *call, struct listing_page *page)
{
	const char *filter = smd_call_parameter(call, "filter", "filter");
	const char *size = smd_call_parameter(call, "pageSize", "page_size");
	const char *order = smd_call_parameter(call, "orderBy", "order_by");
	const char *token = smd_call_parameter(call, "pageToken", "page_token");
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
	page->size = number == 0 ? PAGE_DEFAULT : number > PAGE_MAX ? PAGE_MAX : number;
	smd_call_read_mask(call, &page->mask);
	if (smd_order_parse(order ? order : "", &page->selection.order, &error)) {
		smd_answer_violate(&call->request->answer, "order_by",
			"Invalid value at 'order_by': %s", error.text);
	} else if (token && *token && smd_page_token_parse(token, &page->selection.order, &page->after)) {
		smd_answer_violate(&call->request->answer, "page_token",
			"Invalid value at 'page_token': must be the nextPageToken of another page "
			"in the same order");
	}
	return call->request->answer.status ? -1 : 0;
}

static json_t *make_page(
	struct smd_call *call, const struct listing_page *page, struct smd_error *error)
{
	size_t shown = page->count > page->size ? page->size : page->count;
	json_t *list = json_array();
	json_t *body;
	char *token = NULL;

	for (size_t i = 0; i < shown; i++) {
		json_t *resource = smd_resource_read(
			call->desk->store, &page->jobs[i].job, call->has_numbers, error);

		if (resource) {
			smd_web_access_add(call, &page->jobs[i].job, resource);
		}
		if (resource && page->mask) {
			smd_resource_mask(resource, page->mask);
		}
		if (json_array_append_new(list, resource)) {
			json_decref(list);
			return NULL;
		}
	}
	body = json_pack("{s:o}", smd_stored_kind_collection(call->kind), list);
	if (page->count > page->size && body) {
		token = smd_page_token_write(&page->selection.order, &page->jobs[shown - 1].job);
		json_object_set_new(body, "nextPageToken", token ? json_string(token) : NULL);
		free(token);
	}
	return body;
}

static void list(struct smd_call *call, struct listing_page *page)
{
	struct smd_store_selection *selection = &page->selection;
	struct smd_error error = {""};
	json_t *body;

	if (read_page(call, page)) {
		return;
	}
	selection->kind = call->kind;
	selection->project = strcmp(call->project, ANY) == 0 ? NULL : call->project;
	selection->location = strcmp(call->location, ANY) == 0 ? NULL : call->location;
	selection->after = page->after ? &page->after->place : NULL;
	selection->fits = page->filter ? fits : NULL;
	selection->fits_arg = page;
	if (smd_store_each_of(call->desk->store, selection, take_job, page, &error) < 0) {
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
	struct listing_page *page = calloc(1, sizeof(*page));

	if (!page) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "out of memory");
		return;
	}
	list(call, page);
	for (size_t i = 0; i < page->count; i++) {
		smd_job_copy_free(&page->jobs[i]);
	}
	smd_filter_free(page->filter);
	smd_page_token_free(page->after);
	free(page);
}
