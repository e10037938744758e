/* Answers entries:list of Cloud Logging: the lines of a job's stream that a filter has. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/service/filter.h"
#include "orchestrator/service/job_log.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000
#define BYTES_MAX    ((size_t)16 << 20) /* of a log, that one request looks at */
#define RESOURCE     "ml_job"
#define KEY_JOB      "resource.labels.job_id"
#define KEY_TIME     "timestamp"
#define TIME_SIZE    32
#define INSERT_SIZE  32

struct entry_list {
	const struct smd_stored_job *job;
	struct smd_filter *filter;
	size_t size;
	int is_descending;
	size_t skipped; /* of the last ones, when descending */
	/* Where a page begins, when ascending. */
	int64_t from_second;
	uint64_t from_ordinal;
	json_t *entries;
	int is_full;
	struct smd_log_line next; /* the first that is not among them */
	/* Of the line that is looked at: */
	const struct smd_log_line *line;
	char time[TIME_SIZE];
	char insert_id[INSERT_SIZE];
	char job_id[INSERT_SIZE];
	char log_name[256];
};

static enum smd_filter_key key_of(const char *key)
{
	static const char *const texts[] = {"resource.type", KEY_JOB, "resource.labels.task_name",
		"resource.labels.project_id", "resource.labels.location", "severity", "logName",
		"insertId", "textPayload", "jsonPayload.message"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i]) == 0) {
			return SMD_FILTER_TEXT;
		}
	}
	return strcmp(key, KEY_TIME) == 0 ? SMD_FILTER_TIME : SMD_FILTER_NO_KEY;
}

static const char *value_of(void *arg, const char *key)
{
	const struct entry_list *list = arg;
	const struct {
		const char *key;
		const char *text;
	} texts[] = {{"resource.type", RESOURCE}, {KEY_JOB, list->job_id},
		{"resource.labels.task_name", list->line->task},
		{"resource.labels.project_id", list->job->project},
		{"resource.labels.location", list->job->location},
		{"severity", list->line->severity}, {"logName", list->log_name},
		{"insertId", list->insert_id}, {"textPayload", list->line->text},
		{"jsonPayload.message", list->line->text}, {KEY_TIME, list->time}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i].key) == 0) {
			return texts[i].text;
		}
	}
	return NULL;
}

static json_t *make_entry(struct entry_list *list)
{
	char *text = strdup(list->line->text);
	json_t *entry;

	if (!text) {
		return NULL;
	}
	smd_printable(text);
	entry = json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s, s:s, s:s}}, s:s, s:s, s:s}", "insertId",
		list->insert_id, "logName", list->log_name, "resource", "type", RESOURCE, "labels",
		"project_id", list->job->project, "location", list->job->location, "job_id",
		list->job_id, "task_name", list->line->task, "timestamp", list->time, "severity",
		list->line->severity, "textPayload", text);
	free(text);
	return entry;
}

/* Keeps one, and of those that are shown from the end no more than a page may need. */
static int keep(struct entry_list *list)
{
	if (!list->is_descending && json_array_size(list->entries) == list->size) {
		list->is_full = 1;
		list->next = *list->line;
		return 1;
	}
	if (json_array_append_new(list->entries, make_entry(list))) {
		return -ENOMEM;
	}
	if (list->is_descending &&
		json_array_size(list->entries) > list->size + list->skipped + 1) {
		json_array_remove(list->entries, 0);
	}
	return 0;
}

static int take_line(void *arg, const struct smd_log_line *line)
{
	struct entry_list *list = arg;
	time_t second = (time_t)line->second;
	struct tm parts;

	list->line = line;
	list->next = *line;
	gmtime_r(&second, &parts);
	strftime(list->time, sizeof(list->time), "%Y-%m-%dT%H:%M:%SZ", &parts);
	snprintf(list->insert_id, sizeof(list->insert_id), "%012" PRIu64, line->ordinal);
	return smd_filter_has(list->filter, value_of, list) ? keep(list) : 0;
}

/* The last ones first, without those of the pages before. */
static void reverse(struct entry_list *list, json_t *body)
{
	size_t count = json_array_size(list->entries);
	size_t first = count > list->skipped ? count - list->skipped : 0;
	json_t *page = json_array();
	char token[32];

	while (first > 0 && json_array_size(page) < list->size) {
		json_array_append(page, json_array_get(list->entries, --first));
	}
	json_object_set_new(body, "entries", page);
	if (first > 0) {
		snprintf(token, sizeof(token), "d%zu", list->skipped + json_array_size(page));
		json_object_set_new(body, "nextPageToken", json_string(token));
	}
}

static json_t *make_body(struct entry_list *list, int has_more)
{
	json_t *body = json_object();
	char token[64];

	if (list->is_descending) {
		reverse(list, body);
		return body;
	}
	json_object_set(body, "entries", list->entries);
	if (has_more) {
		snprintf(token, sizeof(token), "a%" PRId64 "-%" PRIu64, list->next.second,
			list->next.ordinal);
		json_object_set_new(body, "nextPageToken", json_string(token));
	}
	return body;
}

static int64_t second_of(int64_t ns)
{
	int64_t unit = (int64_t)SMD_SECOND_NS;

	return ns / unit - (ns % unit < 0);
}

static void read_entries(struct smd_call *call, struct entry_list *list)
{
	struct smd_filter_span times = smd_filter_span_of(list->filter, KEY_TIME);
	struct smd_log_span span = {.first = second_of(times.first_ns),
		.last = second_of(times.last_ns),
		.bytes_max = BYTES_MAX,
		.is_end = list->is_descending};
	int ret;

	if (span.first <= list->from_second) {
		span.first = list->from_second;
		span.first_ordinal = list->from_ordinal;
	}
	list->entries = json_array();
	ret = list->entries ? smd_job_log_read(list->job->directory, &span, take_line, list)
			    : -ENOMEM;
	if (ret < 0 && ret != -EFBIG) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "%s", strerror(-ret));
	} else {
		smd_answer_set(
			&call->request->answer, make_body(list, list->is_full || ret == -EFBIG));
	}
	json_decref(list->entries);
}

/* ---- the request ---- */

static int read_token(struct entry_list *list, const char *token)
{
	int length = 0;

	if (!token || !*token) {
		return 0;
	}
	if (*token == 'd' && list->is_descending) {
		uint64_t skipped;
		int ret = smd_parse_number(token + 1, 1, INT32_MAX, &skipped);

		list->skipped = ret ? 0 : (size_t)skipped;
		return ret;
	}
	return sscanf(token, "a%" SCNd64 "-%" SCNu64 "%n", &list->from_second, &list->from_ordinal,
		       &length) == 2 &&
			       !token[length] && !list->is_descending
		       ? 0
		       : -EINVAL;
}

static void read_order(struct smd_call *call, struct entry_list *list, const json_t *body)
{
	const char *order = json_string_value(json_object_get(body, "orderBy"));
	const json_t *size = json_object_get(body, "pageSize");
	json_int_t number = json_integer_value(size);

	if (order && strcmp(order, "timestamp desc") == 0) {
		list->is_descending = 1;
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
	list->size = number <= 0 ? PAGE_DEFAULT : number > PAGE_MAX ? PAGE_MAX : (size_t)number;
	if (read_token(list, json_string_value(json_object_get(body, "pageToken")))) {
		smd_answer_violate(&call->request->answer, "page_token",
			"page_token must be the nextPageToken of another page");
	}
}

static void check_fields(struct smd_call *call, const json_t *body)
{
	static const char *const names[] = {
		"resourceNames", "projectIds", "filter", "orderBy", "pageSize", "pageToken"};
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)body, name, value) {
		size_t i = 0;

		while (i < sizeof(names) / sizeof(names[0]) && strcmp(name, names[i]) != 0) {
			i++;
		}
		if (i == sizeof(names) / sizeof(names[0])) {
			smd_answer_violate(&call->request->answer, "",
				"Invalid JSON payload received. Unknown name \"%.64s\": Cannot "
				"find field.",
				name);
		}
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
static void list_entries(struct smd_call *call, struct entry_list *list, const json_t *body)
{
	const char *only = smd_filter_only(list->filter, KEY_JOB);
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
		list->job = &copy.job;
		snprintf(list->job_id, sizeof(list->job_id), "%" PRId64, copy.job.id);
		snprintf(list->log_name, sizeof(list->log_name), "projects/%s/logs/summand",
			copy.job.project);
		read_entries(call, list);
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
	struct entry_list list = {.from_second = INT64_MIN};
	struct smd_error error = {""};

	if (!json_is_object(body)) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INVALID_ARGUMENT,
			"Invalid JSON payload received. The body must be an object.");
	} else {
		check_fields(call, body);
		read_order(call, &list, body);
		if (smd_filter_parse(text ? text : "", key_of, &list.filter, &error)) {
			smd_answer_violate(
				&call->request->answer, "filter", "filter %s", error.text);
		}
	}
	if (!call->request->answer.status) {
		list_entries(call, &list, body);
	}
	smd_filter_free(list.filter);
	json_decref(body);
}
