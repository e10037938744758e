/* Asks a service about jobs. */
#include "orchestrator/cli/service_jobs.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/client/exchange.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/token.h"

#define VARIABLE(name)  (SMD_SERVICE_VARIABLE "_" name)
#define PROJECT_DEFAULT "local"
#define REGION_DEFAULT  "local"
#define ANY_REGION      "-"
#define TIMEOUT_S       60
#define ANSWER_MAX      ((size_t)64 << 20)
#define PLACE_SIZE      256
#define STATUS_OK       200
#define NOT_FOUND       404
#define EXHAUSTED       429
#define AUTHORIZATION   "Authorization: Bearer "

struct smd_service_jobs {
	const char *text; /* of the URL */
	struct smd_url url;
	struct smd_http_reach reach;
	const char *project;
	const char *region; /* NULL: any; new jobs are of a default one */
	char token[sizeof(AUTHORIZATION) + SMD_TOKEN_MAX + 2]; /* a header; "": none */
};

/* A process is one command. */
static struct {
	const char *service;
	const char *project;
	const char *region;
} choice;

const char **smd_service_choice(const char *option)
{
	return strcmp(option, "service") == 0   ? &choice.service
	       : strcmp(option, "project") == 0 ? &choice.project
						: &choice.region;
}

/* The first that is there and not empty. */
static const char *choose(const char *option, const char *variable, const char *other)
{
	const char *text = option ? option : getenv(variable);

	return text && *text ? text : other;
}

int smd_service_is_chosen(void)
{
	return choose(choice.service, SMD_SERVICE_VARIABLE, NULL) != NULL;
}

/* What goes into a path as it is. */
static int check_name(const char *what, const char *name, struct smd_error *error)
{
	return name && name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789-_.:")]
		       ? smd_error_set(error, EINVAL, "%s must be a name, got \"%.64s\"", what, name)
		       : 0;
}

static int read_token(struct smd_service_jobs *service, struct smd_error *error)
{
	const char *path = choose(NULL, VARIABLE("TOKEN_FILE"), NULL);
	char token[SMD_TOKEN_MAX + 1];
	int ret;

	if (!path) {
		return 0;
	}
	ret = smd_token_read(VARIABLE("TOKEN_FILE"), path, token, error);
	if (!ret) {
		snprintf(service->token, sizeof(service->token), AUTHORIZATION "%s\r\n", token);
	}
	explicit_bzero(token, sizeof(token));
	return ret;
}

int smd_service_jobs_open(struct smd_service_jobs **out, struct smd_error *error)
{
	struct smd_service_jobs *service = calloc(1, sizeof(*service));
	struct smd_error reason = {""};
	int ret = 0;

	if (!service) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	service->text = choose(choice.service, SMD_SERVICE_VARIABLE, "");
	service->project = choose(choice.project, "CLOUDSDK_CORE_PROJECT", PROJECT_DEFAULT);
	service->region = choose(choice.region, "CLOUDSDK_AI_REGION", NULL);
	service->reach = (struct smd_http_reach){
		.ca_file = choose(NULL, VARIABLE("CA"), NULL),
		.cert_file = choose(NULL, VARIABLE("CERT"), NULL),
		.key_file = choose(NULL, VARIABLE("KEY"), NULL),
		.timeout_s = TIMEOUT_S,
	};
	if (smd_url_parse(service->text, &service->url, &reason)) {
		ret = smd_error_set(error, EINVAL, "--service, " SMD_SERVICE_VARIABLE
			": %s, got \"%.128s\"", reason.text, service->text);
	}
	ret = ret ? ret : check_name("--project", service->project, error);
	ret = ret ? ret : check_name("--region", service->region, error);
	if (!ret && !service->reach.cert_file != !service->reach.key_file) {
		ret = smd_error_set(error, EINVAL, "%s, %s: must be given together",
			VARIABLE("CERT"), VARIABLE("KEY"));
	}
	ret = ret ? ret : read_token(service, error);
	if (ret) {
		smd_service_jobs_close(service);
		return ret;
	}
	*out = service;
	return 0;
}

void smd_service_jobs_close(struct smd_service_jobs *service)
{
	if (service) {
		explicit_bzero(service->token, sizeof(service->token));
		free(service);
	}
}

const char *smd_service_jobs_url(const struct smd_service_jobs *service)
{
	return service->text;
}

/* ---- asking ---- */

/* What the service says is wrong. */
static int refuse(const struct smd_service_jobs *service, int status, const json_t *answer,
	struct smd_error *error)
{
	const char *message =
		json_string_value(json_object_get(json_object_get(answer, "error"), "message"));

	if (!message) {
		return smd_error_set(error, EPROTO, "%s: must be a service of Summand, answered %d",
			service->text, status);
	}
	return smd_error_set(error,
		status == NOT_FOUND   ? ENOENT
		: status == EXHAUSTED ? EAGAIN
				      : EREMOTEIO,
		"%s", message);
}

/* The answer's document. NULL: the reason is in the error. */
static json_t *ask(struct smd_service_jobs *service, const char *method, const char *path,
	const json_t *body, int *ret, struct smd_error *error)
{
	struct smd_exchange exchange = {
		.method = method, .path = path, .headers = service->token, .answer_max = ANSWER_MAX};
	char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
	json_t *answer = NULL;

	exchange.body = text;
	exchange.body_length = text ? strlen(text) : 0;
	*ret = body && !text ? smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM))
			     : smd_exchange(&service->url, &service->reach, &exchange, error);
	if (!*ret) {
		answer = json_loadb(exchange.answer, exchange.answer_length, 0, NULL);
		if (exchange.status != STATUS_OK || !json_is_object(answer)) {
			*ret = refuse(service, exchange.status, answer, error);
			json_decref(answer);
			answer = NULL;
		}
	}
	free(exchange.answer);
	free(text);
	return answer;
}

/* As a path's or a query's part. */
static char *escape(const char *text)
{
	char *out = malloc(3 * strlen(text) + 1);
	char *end = out;

	for (; out && *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-_.:/~", *text)) {
			*end++ = *text;
		} else {
			end += sprintf(end, "%%%02X", (unsigned)(unsigned char)*text);
		}
	}
	if (out) {
		*end = '\0';
	}
	return out;
}

json_t *smd_service_jobs_ask(struct smd_service_jobs *service, const char *method,
	const char *name, const char *rest, const json_t *body, int *ret, struct smd_error *error)
{
	char *escaped = escape(name);
	char *path = NULL;
	json_t *answer = NULL;

	if (!escaped || asprintf(&path, "/v1/%s%s", escaped, rest) < 0) {
		path = NULL;
		*ret = smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	} else {
		answer = ask(service, method, path, body, ret, error);
	}
	free(path);
	free(escaped);
	return answer;
}

/* ---- jobs ---- */

static const char *text_of(const json_t *resource, const char *key)
{
	return json_string_value(json_object_get(resource, key));
}

static int take_resource(enum smd_stored_kind kind, const json_t *resource, smd_stored_job_fn *take,
	void *arg, struct smd_error *error)
{
	const char *name = text_of(resource, "name");
	const char *last = name ? strrchr(name, '/') : NULL;
	const json_t *reason = json_object_get(resource, "error");
	const json_t *map = json_object_get(resource, "labels");
	char *labels = json_is_object(map) ? json_dumps(map, JSON_COMPACT) : strdup("{}");
	const char *display_name = text_of(resource, "displayName");
	struct smd_stored_job job = {
		.kind = kind,
		.resource_name = name,
		.display_name = display_name ? display_name : "",
		.state = text_of(resource, "state"),
		.create_time = text_of(resource, "createTime"),
		.start_time = text_of(resource, "startTime"),
		.end_time = text_of(resource, "endTime"),
		.update_time = text_of(resource, "updateTime"),
		.error_code = (int)json_integer_value(json_object_get(reason, "code")),
		.error_message = text_of(reason, "message"),
		.labels = labels,
		.directory = "",
	};
	uint64_t id = 0;
	int ret;

	if (!last || smd_parse_number(last + 1, 1, INT64_MAX, &id) || !job.state ||
		!job.create_time || !job.update_time || !labels) {
		ret = smd_error_set(error, EPROTO, "the service must answer with jobs");
	} else {
		job.id = (int64_t)id;
		ret = take(arg, &job);
	}
	free(labels);
	return ret;
}

/* "" as filter: all. */
static json_t *ask_page(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const char *filter, const char *token, int *ret, struct smd_error *error)
{
	char *escaped = escape(token);
	char *escaped_filter = escape(filter);
	char *path = NULL;
	json_t *page = NULL;

	if (!escaped || !escaped_filter ||
		asprintf(&path,
			"/v1/projects/%s/locations/%s/%s?pageSize=1000&pageToken=%s&filter=%s",
			service->project, service->region ? service->region : ANY_REGION,
			smd_stored_kind_collection(kind), escaped, escaped_filter) < 0) {
		path = NULL;
		*ret = smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	} else {
		page = ask(service, "GET", path, NULL, ret, error);
	}
	free(path);
	free(escaped_filter);
	free(escaped);
	return page;
}

static int each_of(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const char *filter, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	char *token = strdup("");
	int ret = token ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	while (!ret && token) {
		json_t *page = ask_page(service, kind, filter, token, &ret, error);
		const char *next = text_of(page, "nextPageToken");
		const json_t *resource;
		size_t i;

		json_array_foreach (
			json_object_get(page, smd_stored_kind_collection(kind)), i, resource) {
			ret = ret ? ret : take_resource(kind, resource, take, arg, error);
		}
		free(token);
		token = next ? strdup(next) : NULL;
		json_decref(page);
	}
	free(token);
	return ret;
}

int smd_service_jobs_each(struct smd_service_jobs *service, enum smd_stored_kind kind,
	smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	return each_of(service, kind, "", take, arg, error);
}

int smd_service_jobs_get(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const char *name, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	int ret;
	json_t *resource = smd_service_jobs_ask(service, "GET", name, "", NULL, &ret, error);

	ret = ret ? ret : take_resource(kind, resource, take, arg, error);
	json_decref(resource);
	return ret;
}

json_t *smd_service_jobs_resource(
	struct smd_service_jobs *service, const char *name, struct smd_error *error)
{
	int ret;

	return smd_service_jobs_ask(service, "GET", name, "", NULL, &ret, error);
}

/* ---- finding ---- */

/* The better a word fits, the smaller; those that fit equally are several. */
enum fit { FIT_ID, FIT_NAME, FIT_BEGINNING, FIT_NONE };

/* The jobs that fit best so far, the first ones of them. */
struct job_search {
	const char *word;
	enum fit best;
	size_t count;
	struct smd_job_copy jobs[SMD_STORE_MATCHES];
};

static enum fit fit_of(const struct smd_stored_job *job, const char *word)
{
	size_t length = strlen(word);
	char id[32];

	snprintf(id, sizeof(id), "%" PRId64, job->id);
	return strcmp(id, word) == 0 || strcmp(job->resource_name, word) == 0 ? FIT_ID
	       : strcmp(job->display_name, word) == 0                         ? FIT_NAME
	       : strncmp(id, word, length) == 0 ||
			       strncmp(job->display_name, word, length) == 0
		       ? FIT_BEGINNING
		       : FIT_NONE;
}

static size_t count_kept(const struct job_search *search)
{
	return search->count < SMD_STORE_MATCHES ? search->count : SMD_STORE_MATCHES;
}

static void forget_found(struct job_search *search)
{
	for (size_t i = 0; i < count_kept(search); i++) {
		smd_job_copy_free(&search->jobs[i]);
	}
	search->count = 0;
}

static int take_fitting(void *arg, const struct smd_stored_job *job)
{
	struct job_search *search = arg;
	enum fit fit = fit_of(job, search->word);
	int ret = 0;

	if (fit == FIT_NONE || fit > search->best) {
		return 0;
	}
	if (fit < search->best) {
		forget_found(search);
		search->best = fit;
	}
	if (search->count < SMD_STORE_MATCHES) {
		ret = smd_job_copy_take(&search->jobs[search->count], job);
	}
	search->count += ret == 0;
	return ret;
}

/* Those that may fit, for the service to look for: it does not tell small letters from large ones. */
static char *make_filter(enum smd_stored_kind kind, const char *word)
{
	char *quoted = malloc(2 * strlen(word) + 1);
	char *to = quoted;
	char *filter;

	for (; quoted && *word; word++) {
		if (*word == '"' || *word == '\\') {
			*to++ = '\\';
		}
		*to++ = *word;
	}
	if (!quoted) {
		return NULL;
	}
	*to = '\0';
	if (asprintf(&filter, "displayName:\"%s*\" OR name:\"%s/%s\"", quoted,
		    smd_stored_kind_collection(kind), quoted) < 0) {
		filter = NULL;
	}
	free(quoted);
	return filter;
}

static int search_for(struct smd_service_jobs *service, enum smd_stored_kind kind,
	struct job_search *search, struct smd_error *error)
{
	char *filter = make_filter(kind, search->word);
	int ret = filter ? each_of(service, kind, filter, take_fitting, search, error)
			 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));

	free(filter);
	if (!ret && search->count == 0) {
		ret = smd_error_set(error, ENOENT,
			"%.128s: there is no such job; `summand %s list` shows those of %s",
			search->word, smd_stored_kind_group(kind), service->text);
	}
	return ret;
}

int smd_service_jobs_find(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const char *word, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	struct job_search search = {.word = word, .best = FIT_NONE};
	int ret;

	if (strncmp(word, "projects/", strlen("projects/")) == 0) {
		return smd_service_jobs_get(service, kind, word, take, arg, error);
	}
	ret = search_for(service, kind, &search, error);
	for (size_t i = 0; !ret && i < count_kept(&search); i++) {
		ret = take(arg, &search.jobs[i].job);
	}
	if (ret >= 0 && search.count > 1) {
		ret = smd_error_set(error, EEXIST, "%.128s: %zu jobs fit; name one by its id", word,
			search.count);
	}
	forget_found(&search);
	return ret > 0 ? 0 : ret;
}

/* ---- changing ---- */

json_t *smd_service_jobs_create(struct smd_service_jobs *service, enum smd_stored_kind kind,
	const json_t *job, struct smd_error *error)
{
	char path[PLACE_SIZE];
	int ret;

	snprintf(path, sizeof(path), "/v1/projects/%.64s/locations/%.64s/%s", service->project,
		service->region ? service->region : REGION_DEFAULT,
		smd_stored_kind_collection(kind));
	return ask(service, "POST", path, job, &ret, error);
}

int smd_service_jobs_cancel(
	struct smd_service_jobs *service, const char *name, struct smd_error *error)
{
	json_t *body = json_object();
	int ret;

	json_decref(smd_service_jobs_ask(service, "POST", name, ":cancel", body, &ret, error));
	json_decref(body);
	return ret;
}

int smd_service_jobs_delete(
	struct smd_service_jobs *service, const char *name, struct smd_error *error)
{
	int ret;

	json_decref(smd_service_jobs_ask(service, "DELETE", name, "", NULL, &ret, error));
	return ret;
}

/* ---- logs ---- */

/* As gcloud asks: what is behind the last line that it has. */
static json_t *make_question(const struct smd_service_jobs *service,
	const struct smd_stored_job *job, const struct smd_service_log_place *place)
{
	char filter[512];
	int length = snprintf(
		filter, sizeof(filter), "resource.labels.job_id=\"%" PRId64 "\"%s", job->id,
		job->kind == SMD_STORED_TUNING_JOB ? " AND NOT labels.trial_id:*" : "");

	if (*place->time) {
		snprintf(filter + length, sizeof(filter) - (size_t)length,
			" AND ((timestamp=\"%s\" AND insertId>\"%s\") OR timestamp>\"%s\")",
			place->time, place->insert_id, place->time);
	}
	return json_pack("{s:[o], s:s, s:s, s:i}", "resourceNames",
		json_sprintf("projects/%s", service->project), "filter", filter, "orderBy",
		"timestamp asc", "pageSize", 1000);
}

static int take_entry(const json_t *entry, struct smd_service_log_place *place,
	smd_service_line_fn *take, void *arg)
{
	const json_t *labels = json_object_get(json_object_get(entry, "resource"), "labels");
	const char *insert_id = text_of(entry, "insertId");
	const struct smd_service_line line = {.severity = text_of(entry, "severity"),
		.time = text_of(entry, "timestamp"),
		.task = text_of(labels, "task_name"),
		.text = text_of(entry, "textPayload")};

	if (!line.severity || !line.time || !line.task || !line.text || !insert_id ||
		strpbrk(line.time, "\"\\") || strpbrk(insert_id, "\"\\")) {
		return -EPROTO;
	}
	snprintf(place->time, sizeof(place->time), "%s", line.time);
	snprintf(place->insert_id, sizeof(place->insert_id), "%s", insert_id);
	take(arg, &line);
	return 0;
}

int smd_service_jobs_read_log(struct smd_service_jobs *service, const struct smd_stored_job *job,
	struct smd_service_log_place *place, smd_service_line_fn *take, void *arg,
	struct smd_error *error)
{
	json_t *question = make_question(service, job, place);
	const json_t *entry;
	int count = 0;
	size_t i;
	int ret;
	json_t *answer = ask(service, "POST", "/v2/entries:list", question, &ret, error);

	json_array_foreach (json_object_get(answer, "entries"), i, entry) {
		ret = ret ? ret : take_entry(entry, place, take, arg);
		count++;
	}
	json_decref(answer);
	json_decref(question);
	return ret == -EPROTO ? smd_error_set(error, EPROTO, "the service must answer with lines")
	       : ret          ? ret
			      : count;
}
