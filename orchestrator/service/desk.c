/* Finds what answers a request: by its method and the path of the resource. */
#include "orchestrator/service/desk.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "orchestrator/service/page.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/parse.h"

#define STATUS_BAD_METHOD 405

/* A path below projects/P/locations/L. "*" is a job's id, or an operation's; WORD is any. */
struct route {
	enum smd_http_method method;
	const char *segments[4];
	const char *verb;
	smd_call_fn *answer;
	int is_of_jobs; /* the first segment is a kind's collection */
};

#define OF_JOBS "JOBS"
#define WORD    "WORD"

static const struct route routes[] = {
	{SMD_HTTP_POST, {OF_JOBS}, NULL, smd_job_create, 1},
	{SMD_HTTP_GET, {OF_JOBS}, NULL, smd_job_list, 1},
	{SMD_HTTP_GET, {OF_JOBS, "*"}, NULL, smd_job_get, 1},
	{SMD_HTTP_DELETE, {OF_JOBS, "*"}, NULL, smd_job_remove, 1},
	{SMD_HTTP_POST, {OF_JOBS, "*"}, "cancel", smd_job_cancel, 1},
	{SMD_HTTP_GET, {OF_JOBS, "*", "replicas"}, NULL, smd_job_replicas, 1},
	{SMD_HTTP_GET, {OF_JOBS, "*", "plan"}, NULL, smd_job_plan, 1},
	{SMD_HTTP_GET, {OF_JOBS, "*", "artifacts"}, NULL, smd_job_artifacts, 1},
	{SMD_HTTP_POST, {OF_JOBS, "*", "terminals"}, NULL, smd_terminal_create, 1},
	{SMD_HTTP_GET, {OF_JOBS, "*", "terminals", WORD}, NULL, smd_terminal_get, 1},
	{SMD_HTTP_DELETE, {OF_JOBS, "*", "terminals", WORD}, NULL, smd_terminal_remove, 1},
	{SMD_HTTP_POST, {OF_JOBS, "*", "terminals", WORD}, "write", smd_terminal_write, 1},
	{SMD_HTTP_POST, {OF_JOBS, "*", "terminals", WORD}, "resize", smd_terminal_resize, 1},
	{SMD_HTTP_GET, {OF_JOBS, "*", "operations", "*"}, NULL, smd_operation_get, 1},
	{SMD_HTTP_GET, {"operations", "*"}, NULL, smd_operation_get, 0},
};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))
#define PLACE  5 /* segments before it: v1/projects/P/locations/L */

static int takes_segment(const char *wanted, const char *segment, struct smd_call *call)
{
	uint64_t id;

	if (strcmp(wanted, OF_JOBS) == 0) {
		for (int kind = 0; kind <= SMD_STORED_TUNING_JOB; kind++) {
			if (strcmp(segment,
				    smd_stored_kind_collection((enum smd_stored_kind)kind)) == 0) {
				call->kind = (enum smd_stored_kind)kind;
				return 1;
			}
		}
		return 0;
	}
	if (strcmp(wanted, "*") == 0) {
		/* What is no number is the name of nothing that is here. */
		call->id = smd_parse_number(segment, 1, INT64_MAX, &id) ? 0 : (int64_t)id;
		return 1;
	}
	return strcmp(wanted, WORD) == 0 || strcmp(wanted, segment) == 0;
}

static int is_path_of(const struct route *route, const struct smd_uri *uri, struct smd_call *call)
{
	size_t n = 0;

	while (n < 4 && route->segments[n] && PLACE + n < uri->nsegments &&
		takes_segment(route->segments[n], uri->segments[PLACE + n], call)) {
		n++;
	}
	return PLACE + n == uri->nsegments && (n == 4 || !route->segments[n]) &&
	       (route->verb ? uri->verb && strcmp(route->verb, uri->verb) == 0 : !uri->verb);
}

/* A project's or a location's name goes into the store, into names and back. */
static int is_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= SMD_PROJECT_MAX &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "-_.:")] == '\0';
}

static int is_place(const struct smd_uri *uri, struct smd_call *call)
{
	if (uri->nsegments < PLACE ||
		(strcmp(uri->segments[0], "v1") != 0 && strcmp(uri->segments[0], "v1beta1") != 0) ||
		strcmp(uri->segments[1], "projects") != 0 ||
		strcmp(uri->segments[3], "locations") != 0 || !is_name(uri->segments[2]) ||
		!is_name(uri->segments[4])) {
		return 0;
	}
	call->project = uri->segments[2];
	call->location = uri->segments[4];
	return 1;
}

/* Parameters of the query that any method has; more are the method's own. */
static int is_known_parameter(const char *name)
{
	static const char *const names[] = {"alt", "$alt", "prettyPrint", "$prettyPrint", "key",
		"quotaUser", "$.xgafv", "fields", "$fields", "uploadType", "upload_protocol",
		"access_token", "oauth_token", "callback", "filter", "pageSize", "page_size",
		"pageToken", "page_token", "orderBy", "order_by", "readMask", "read_mask", "artifact", "offset", "errorOffset"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

/* 0; else it has been answered. */
static int read_parameters(struct smd_call *call)
{
	const struct smd_uri *uri = &call->request->uri;
	const char *alt = smd_uri_parameter(uri, "$alt");

	for (size_t i = 0; i < uri->nparameters; i++) {
		if (!is_known_parameter(uri->parameters[i].name)) {
			smd_answer_violate(&call->request->answer, "",
				"Invalid JSON payload received. Unknown name \"%.64s\": Cannot "
				"bind query parameter. Field could not be found in request "
				"message.",
				uri->parameters[i].name);
		}
	}
	alt = alt ? alt : smd_uri_parameter(uri, "alt");
	call->has_numbers = alt && strcmp(alt, "json;enum-encoding=int") == 0;
	if (alt && !call->has_numbers && strcmp(alt, "json") != 0) {
		smd_answer_violate(&call->request->answer, "alt",
			"Invalid value at 'alt': must be json or json;enum-encoding=int, got "
			"\"%.64s\"",
			alt);
	}
	return call->request->answer.status ? -EINVAL : 0;
}

static void answer_call(struct smd_call *call)
{
	struct smd_http_request *request = call->request;
	int has_path = 0;

	for (size_t i = 0; i < ROUTES; i++) {
		if (!is_path_of(&routes[i], &request->uri, call)) {
			continue;
		}
		has_path = 1;
		if (routes[i].method == request->method) {
			if (read_parameters(call) == 0) {
				routes[i].answer(call);
			}
			return;
		}
	}
	if (has_path) {
		smd_answer_refuse(&request->answer, STATUS_BAD_METHOD, SMD_RPC_UNIMPLEMENTED,
			"the resource has no such method");
	}
}

void smd_desk_handle(void *arg, struct smd_http_request *request)
{
	struct smd_call call = {.desk = arg, .request = request};
	const struct smd_uri *uri = &request->uri;
	const struct smd_page_part *part =
		request->method == SMD_HTTP_GET ? smd_page_find(request->target) : NULL;

	if (part) {
		smd_answer_show(&request->answer, part);
	} else if (is_place(uri, &call)) {
		answer_call(&call);
	} else if (request->method == SMD_HTTP_POST && uri->nsegments == 2 &&
		   strcmp(uri->segments[0], "v2") == 0 &&
		   strcmp(uri->segments[1], "entries") == 0 && uri->verb &&
		   strcmp(uri->verb, "list") == 0) {
		if (read_parameters(&call) == 0) {
			smd_entries_list(&call);
		}
	}
	if (!request->answer.status && !request->is_waiting) {
		smd_answer_fail(&request->answer, SMD_RPC_NOT_FOUND,
			"the service has no such resource or method");
	}
}

const char *smd_call_parameter(const struct smd_call *call, const char *name, const char *snake)
{
	const char *value = smd_uri_parameter(&call->request->uri, name);

	return value ? value : smd_uri_parameter(&call->request->uri, snake);
}

int smd_call_read_mask(struct smd_call *call, const char **mask)
{
	char wrong[SMD_RESOURCE_PATH_SIZE];

	*mask = smd_call_parameter(call, "readMask", "read_mask");
	if (*mask && smd_resource_check_mask(call->kind, *mask, wrong)) {
		smd_answer_violate(&call->request->answer, "read_mask",
			"Invalid value at 'read_mask': must be paths of fields of a %s, got "
			"\"%s\"",
			smd_stored_kind_noun(call->kind), wrong);
		return -EINVAL;
	}
	return 0;
}

void smd_call_check_fields(struct smd_call *call, const json_t *body, const char *const *names)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)body, name, value) {
		size_t i = 0;

		while (names[i] && strcmp(name, names[i]) != 0) {
			i++;
		}
		if (!names[i]) {
			smd_answer_violate(&call->request->answer, "",
				"Invalid JSON payload received. Unknown name \"%.64s\": Cannot "
				"find field.",
				name);
		}
	}
}

int smd_call_check_name_alone(struct smd_call *call)
{
	const struct smd_http_request *request = call->request;
	json_t *body;

	if (request->length == 0) {
		return 0;
	}
	body = json_loadb(request->body, request->length, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(body)) {
		smd_call_check_fields(call, body, (const char *const[]){"name", NULL});
	} else {
		smd_answer_violate(&call->request->answer, "",
			"Invalid JSON payload received. The body must be an object.");
	}
	json_decref(body);
	return request->answer.status ? -EINVAL : 0;
}

int smd_call_find(struct smd_call *call, struct smd_job_copy *out)
{
	struct smd_error error = {""};
	struct smd_answer *answer = &call->request->answer;
	int ret;

	out->text = NULL;
	ret = smd_store_get(call->desk->store, call->id, smd_job_copy_take, out, &error);
	if (!ret && (out->job.kind != call->kind || strcmp(out->job.project, call->project) != 0 ||
			    strcmp(out->job.location, call->location) != 0)) {
		smd_job_copy_free(out);
		ret = -ENOENT;
	}
	if (ret == -ENOENT) {
		smd_answer_fail(answer, SMD_RPC_NOT_FOUND,
			"The %s does not exist: projects/%s/locations/%s/%s/%s",
			smd_stored_kind_noun(call->kind), call->project, call->location,
			smd_stored_kind_collection(call->kind),
			call->request->uri.segments[PLACE + 1]);
	} else if (ret) {
		smd_answer_fail(answer, SMD_RPC_UNAVAILABLE, "%s", error.text);
	}
	return ret;
}
