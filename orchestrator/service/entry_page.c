/* Reads the lines of a job's logs, and puts them in one order. */
#include "orchestrator/service/entry_page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orchestrator/job/trial.h"
#include "orchestrator/service/job_log.h"
#include "orchestrator/store/last_record.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

#define BYTES_MAX  ((size_t)16 << 20)  /* of logs, that one request looks at */
#define BYTES_MIN  ((size_t)256 << 10) /* of each of them */
#define RESOURCE   "ml_job"
#define KEY_TIME   "timestamp"
#define KEY_TRIAL  "labels.ml.googleapis.com/trial_id"
#define SHORT_TRIAL "labels.trial_id"
#define TIME_SIZE  32
#define TEXT_SIZE  32
#define PER_SECOND UINT64_C(4294967296) /* lines of one log in one second, at most */
#define PAGE_IS_FULL 1
#define IS_LATER     2 /* all that follow are */
#define SETTLED_S  2 /* then all logs have their lines of a second */

/* A log that is read: the job's own, or a trial's. */
struct entry_source {
	struct smd_entry_page *page;
	unsigned trial; /* 0: the job's */
	int64_t last;	/* seconds of lines that are asked for */
	size_t count;	/* of entries that it has given */
	struct smd_entry_place rest; /* of the line that was looked at last */
	/* Of the line that is looked at: */
	const struct smd_log_line *line;
	char time[TIME_SIZE];
	char insert_id[TEXT_SIZE];
	char job_id[TEXT_SIZE];
	char trial_id[TEXT_SIZE];
	char log_name[256];
};

/* Cloud Logging's LogSeverity. */
static const struct smd_filter_name severities[] = {{"DEFAULT", 0}, {"DEBUG", 100}, {"INFO", 200},
	{"NOTICE", 300}, {"WARNING", 400}, {"ERROR", 500}, {"CRITICAL", 600}, {"ALERT", 700},
	{"EMERGENCY", 800}, {NULL, 0}};

enum smd_filter_key smd_entry_key_of(const char *key, const struct smd_filter_name **values)
{
	static const char *const texts[] = {"resource.type", SMD_ENTRY_JOB, "resource.labels.task_name",
		"resource.labels.project_id", "resource.labels.location", "logName",
		"insertId", "textPayload", "jsonPayload.message", KEY_TRIAL, SHORT_TRIAL};

	*values = severities;
	if (strcmp(key, "severity") == 0) {
		return SMD_FILTER_NAME;
	}

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i]) == 0) {
			return SMD_FILTER_TEXT;
		}
	}
	return strcmp(key, KEY_TIME) == 0 ? SMD_FILTER_TIME : SMD_FILTER_NO_KEY;
}

static const char *value_of(void *arg, const char *key)
{
	const struct entry_source *source = arg;
	const struct smd_stored_job *job = source->page->job;
	const char *trial = source->trial ? source->trial_id : NULL;
	const struct {
		const char *key;
		const char *text;
	} texts[] = {{"resource.type", RESOURCE}, {SMD_ENTRY_JOB, source->job_id},
		{"resource.labels.task_name", source->line->task},
		{"resource.labels.project_id", job->project},
		{"resource.labels.location", job->location}, {"severity", source->line->severity},
		{"logName", source->log_name}, {"insertId", source->insert_id},
		{"textPayload", source->line->text}, {"jsonPayload.message", source->line->text},
		{KEY_TIME, source->time}, {KEY_TRIAL, trial}, {SHORT_TRIAL, trial}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i].key) == 0) {
			return texts[i].text;
		}
	}
	return NULL;
}

static json_t *make_entry(const struct entry_source *source)
{
	const struct smd_stored_job *job = source->page->job;
	char *text = strdup(source->line->text);
	json_t *entry;

	if (!text) {
		return NULL;
	}
	smd_printable(text);
	entry = json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s, s:s, s:s}}, s:s, s:s, s:s}", "insertId",
		source->insert_id, "logName", source->log_name, "resource", "type", RESOURCE,
		"labels", "project_id", job->project, "location", job->location, "job_id",
		source->job_id, "task_name", source->line->task, "timestamp", source->time,
		"severity", source->line->severity, "textPayload", text);
	if (entry && source->trial) {
		json_object_set_new(entry, "labels",
			json_pack("{s:s}", "ml.googleapis.com/trial_id", source->trial_id));
	}
	free(text);
	return entry;
}

/* ---- one log ---- */

/* Keeps one, and of those that are shown from the end no more than a page may need. */
static int keep(struct entry_source *source)
{
	struct smd_entry_page *page = source->page;
	size_t most = page->size + page->skipped + 1;

	if (!page->is_descending && source->count == page->size) {
		return PAGE_IS_FULL; /* and this one is left */
	}
	if (json_array_append_new(page->entries, make_entry(source))) {
		return -ENOMEM;
	}
	source->count++;
	if (page->is_descending && source->count > most) {
		json_array_remove(page->entries, json_array_size(page->entries) - source->count);
		source->count--;
	}
	return 0;
}

static int take_line(void *arg, const struct smd_log_line *line)
{
	struct entry_source *source = arg;
	time_t second = (time_t)line->second;
	struct tm parts;

	if (line->second > source->last) {
		return IS_LATER;
	}
	source->line = line;
	source->rest = (struct smd_entry_place){
		line->second, (uint64_t)source->trial * PER_SECOND + line->ordinal % PER_SECOND};
	gmtime_r(&second, &parts);
	strftime(source->time, sizeof(source->time), "%Y-%m-%dT%H:%M:%SZ", &parts);
	snprintf(source->insert_id, sizeof(source->insert_id), "%019" PRIu64, source->rest.number);
	return smd_filter_has(source->page->filter, value_of, source) ? keep(source) : 0;
}

/* Where a page begins in this log: in one second trials come in their order, behind the job. */
static void begin_at(
	const struct smd_entry_place *from, unsigned trial, struct smd_log_span *span)
{
	unsigned of_page = (unsigned)(from->number / PER_SECOND);

	if (span->first > from->second) {
		return;
	}
	span->first = from->second + (trial < of_page);
	span->first_ordinal = trial == of_page ? from->number % PER_SECOND : 0;
}

/* What a log that was not read to its end has not given, no other one may give before it. */
static int read_log(struct smd_entry_page *page, const char *directory, unsigned trial,
	const struct smd_log_span *wanted)
{
	struct entry_source source = {.page = page, .trial = trial, .last = wanted->last};
	struct smd_log_span span = *wanted;
	int ret;

	begin_at(&page->from, trial, &span);
	snprintf(source.job_id, sizeof(source.job_id), "%" PRId64, page->job->id);
	snprintf(source.trial_id, sizeof(source.trial_id), "%u", trial);
	snprintf(source.log_name, sizeof(source.log_name), "projects/%s/logs/summand",
		page->job->project);
	ret = smd_job_log_read(directory, &span, take_line, &source);
	if ((ret == PAGE_IS_FULL || ret == -EFBIG) && !page->is_descending &&
		(!page->is_left || source.rest.second < page->rest.second ||
			(source.rest.second == page->rest.second &&
				source.rest.number < page->rest.number))) {
		page->is_left = 1;
		page->rest = source.rest;
	}
	return ret < 0 && ret != -EFBIG ? ret : 0;
}

/* ---- all logs of a job ---- */

static int64_t second_of(int64_t ns)
{
	int64_t unit = (int64_t)SMD_SECOND_NS;

	return ns / unit - (ns % unit < 0);
}

/* Whether the trial has run in these seconds, and its number. */
static int has_lines(const json_t *trial, const struct smd_log_span *span, unsigned *number)
{
	const char *id = json_string_value(json_object_get(trial, "id"));
	const char *begin = json_string_value(json_object_get(trial, "startTime"));
	const char *end = json_string_value(json_object_get(trial, "endTime"));
	int64_t ns;
	uint64_t value;

	if (!id || smd_parse_number(id, 1, UINT32_MAX, &value) || !begin ||
		(smd_filter_time(begin, &ns) == 0 && second_of(ns) > span->last) ||
		(end && smd_filter_time(end, &ns) == 0 && second_of(ns) < span->first)) {
		return 0;
	}
	*number = (unsigned)value;
	return 1;
}

static int read_trials(struct smd_entry_page *page, struct smd_log_span *span)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *trials, *trial;
	char *directory;
	unsigned number;
	size_t i;
	int ret = 0;

	smd_store_name(name, page->job->kind, page->job->id);
	trials = smd_last_record_trials(page->job->directory, name);
	if (!page->job->end_time && span->last > (int64_t)time(NULL) - SETTLED_S) {
		span->last = (int64_t)time(NULL) - SETTLED_S;
	}
	span->bytes_max = BYTES_MAX / (json_array_size(trials) + 1);
	span->bytes_max = span->bytes_max > BYTES_MIN ? span->bytes_max : BYTES_MIN;
	json_array_foreach (trials, i, trial) {
		if (ret || !has_lines(trial, span, &number)) {
			continue;
		}
		if (asprintf(&directory, "%s/" SMD_TRIAL_FOLDER, page->job->directory, number) < 0) {
			ret = -ENOMEM;
			break;
		}
		ret = read_log(page, directory, number, span);
		free(directory);
	}
	json_decref(trials);
	return ret;
}

static int read_logs(struct smd_entry_page *page)
{
	struct smd_filter_span times = smd_filter_span_of(page->filter, KEY_TIME);
	struct smd_log_span span = {.first = second_of(times.first_ns),
		.last = second_of(times.last_ns),
		.bytes_max = BYTES_MAX,
		.is_end = page->is_descending};
	int ret = 0;

	if (page->job->kind == SMD_STORED_TUNING_JOB) {
		ret = read_trials(page, &span);
	}
	return ret ? ret : read_log(page, page->job->directory, 0, &span);
}

static const char *text_of(const json_t *entry, const char *key)
{
	return json_string_value(json_object_get(entry, key));
}

/* Both texts have one length each. */
static int compare(const void *a, const void *b)
{
	const json_t *one = *(json_t *const *)a;
	const json_t *other = *(json_t *const *)b;
	int order = strcmp(text_of(one, "timestamp"), text_of(other, "timestamp"));

	return order ? order : strcmp(text_of(one, "insertId"), text_of(other, "insertId"));
}

static int sort(json_t *entries)
{
	size_t count = json_array_size(entries);
	json_t **list = calloc(count + 1, sizeof(json_t *));

	if (!list) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		list[i] = json_incref(json_array_get(entries, i));
	}
	qsort(list, count, sizeof(json_t *), compare);
	for (size_t i = 0; i < count; i++) {
		json_array_set_new(entries, i, list[i]);
	}
	free(list);
	return 0;
}

/* ---- the page ---- */

/* The last ones first, without those of the pages before. */
static void reverse(const struct smd_entry_page *page, json_t *body)
{
	size_t count = json_array_size(page->entries);
	size_t first = count > page->skipped ? count - page->skipped : 0;
	json_t *shown = json_array();
	char token[TEXT_SIZE];

	while (first > 0 && json_array_size(shown) < page->size) {
		json_array_append(shown, json_array_get(page->entries, --first));
	}
	json_object_set_new(body, "entries", shown);
	if (first > 0) {
		snprintf(token, sizeof(token), "d%zu", page->skipped + json_array_size(shown));
		json_object_set_new(body, "nextPageToken", json_string(token));
	}
}

static struct smd_entry_place place_of(const json_t *entry)
{
	struct smd_entry_place place = {0, 0};
	int64_t ns = 0;

	smd_filter_time(text_of(entry, "timestamp"), &ns);
	place.second = second_of(ns);
	smd_parse_number(text_of(entry, "insertId"), 0, UINT64_MAX, &place.number);
	return place;
}

static int is_behind(const struct smd_entry_place *place, const struct smd_entry_place *rest)
{
	return place->second > rest->second ||
	       (place->second == rest->second && place->number >= rest->number);
}

/* Of several logs more may have come than a page has, or than one of them was read up to. */
static void cut(struct smd_entry_page *page)
{
	size_t count;

	while ((count = json_array_size(page->entries)) > 0) {
		struct smd_entry_place last = place_of(json_array_get(page->entries, count - 1));

		if (count <= page->size && !(page->is_left && is_behind(&last, &page->rest))) {
			return;
		}
		page->is_left = 1;
		page->rest = last;
		json_array_remove(page->entries, count - 1);
	}
}

static json_t *make_body(struct smd_entry_page *page)
{
	json_t *body = json_object();
	char token[64];

	if (page->is_descending) {
		reverse(page, body);
		return body;
	}
	cut(page);
	json_object_set(body, "entries", page->entries);
	if (page->is_left) {
		snprintf(token, sizeof(token), "a%" PRId64 "-%" PRIu64, page->rest.second,
			page->rest.number);
		json_object_set_new(body, "nextPageToken", json_string(token));
	}
	return body;
}

json_t *smd_entry_page_read(struct smd_entry_page *page)
{
	json_t *body = NULL;

	page->entries = json_array();
	if (page->entries && read_logs(page) == 0 && sort(page->entries) == 0) {
		body = make_body(page);
	}
	json_decref(page->entries);
	return body;
}
