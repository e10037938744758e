/* Keeps terminals, and answers requests about them. */
#include "orchestrator/service/terminals.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "orchestrator/service/base64.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/service/web_access.h"
#include "orchestrator/store/job_copy.h"
#include "orchestrator/store/session_socket.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "worker/agent/wire/message.h"

#define OUTPUT_MAX (64u << 10)  /* that is kept until it is known to have come */
#define INPUT_MAX  SMD_AGENT_INPUT_WINDOW
#define WAIT_NS    (20 * (uint64_t)SMD_SECOND_NS) /* a request for output */
#define ALONE_NS   (60 * (uint64_t)SMD_SECOND_NS) /* without one, and it is ended */
#define ID_BYTES   16
#define ID_SIZE    (2 * ID_BYTES + 1)
#define SESSION    1u /* the number of a connection's session */
#define TYPE       "xterm-256color"
#define SEGMENT    8 /* of its path: its id */

struct terminal {
	char id[ID_SIZE]; /* "": the place is free */
	int64_t job;
	struct smd_agent_link *link; /* NULL: the session is over, */
	int is_over;                 /* or is now */
	struct evbuffer *output;     /* that is not known to have come */
	uint64_t output_at;          /* the place of its first byte in all output */
	uint64_t input_at;           /* how many bytes of input have been taken */
	uint32_t credit;             /* for more */
	int has_ended;
	int exit_code; /* -1: none is known */
	char reason[SMD_EXIT_REASON_SIZE];
	struct smd_http_request *waiting; /* for output; or NULL */
	uint64_t asked_ns;                /* when output was asked for last */
};

struct smd_terminals {
	struct event_base *base;
	struct terminal list[SMD_TERMINALS_MAX];
};

/* ---- output ---- */

static void set_output(struct terminal *terminal, struct smd_answer *answer)
{
	size_t length = evbuffer_get_length(terminal->output);
	const uint8_t *bytes = evbuffer_pullup(terminal->output, -1);
	char *text = smd_base64_encode(bytes ? bytes : (const uint8_t *)"", bytes ? length : 0);
	char offset[24];
	json_t *body;

	snprintf(offset, sizeof(offset), "%" PRIu64, terminal->output_at);
	body = text ? json_pack("{s:s, s:s, s:b}", "offset", offset, "data", text, "hasEnded",
			      terminal->has_ended)
		    : NULL;
	if (body && terminal->has_ended && terminal->exit_code >= 0) {
		json_object_set_new(body, "exitCode", json_integer(terminal->exit_code));
	}
	if (body && terminal->reason[0]) {
		json_object_set_new(body, "reason", json_string(terminal->reason));
	}
	free(text);
	smd_answer_set(answer, body);
}

static void answer_waiting(struct terminal *terminal)
{
	struct smd_http_request *request = terminal->waiting;

	if (request) {
		terminal->waiting = NULL;
		set_output(terminal, &request->answer);
		smd_http_answer(request);
	}
}

/* Output up to there has come: the shell may print so much more. */
static void drop_output(struct terminal *terminal, uint64_t offset)
{
	size_t count = (size_t)(offset - terminal->output_at);

	evbuffer_drain(terminal->output, count);
	terminal->output_at = offset;
	if (count > 0 && terminal->link) {
		smd_agent_link_send_credit(terminal->link, SESSION, (uint32_t)count);
	}
}

/* ---- the session ---- */

static void end(struct terminal *terminal, int exit_code, const char *reason)
{
	if (!terminal->has_ended) {
		terminal->has_ended = 1;
		terminal->exit_code = exit_code;
		snprintf(terminal->reason, sizeof(terminal->reason), "%s", reason);
	}
	answer_waiting(terminal);
}

static void take_end(struct terminal *terminal, const struct smd_exit *how)
{
	int code = how->kind == SMD_EXIT_CODE     ? how->value
		   : how->kind == SMD_EXIT_SIGNAL ? SMD_EXIT_SIGNALLED + how->value
						  : -1;

	end(terminal, code,
		how->kind == SMD_EXIT_ERRNO && !how->reason[0] ? strerror(how->value)
							       : how->reason);
}

static int take_message(struct terminal *terminal, const struct smd_agent_message *message)
{
	switch (message->kind) {
	case SMD_AGENT_OUTPUT:
		if (evbuffer_add(terminal->output, message->bytes, message->length)) {
			return -ENOMEM;
		}
		answer_waiting(terminal);
		return 0;
	case SMD_AGENT_CREDIT:
		terminal->credit += message->credit;
		return 0;
	case SMD_AGENT_ENDED:
		take_end(terminal, &message->end);
		return 0;
	default:
		return 0; /* STARTED */
	}
}

static int on_frame(void *owner, const struct smd_agent_head *head, const uint8_t *body,
	struct smd_error *error)
{
	struct smd_agent_message message;
	int ret = smd_agent_message_decode(&message, head->kind, body, head->length, error);

	if (!ret) {
		ret = take_message(owner, &message);
		ret = ret ? smd_error_set(error, -ret, "%s", strerror(-ret)) : 0;
	}
	smd_agent_message_clear(&message);
	return ret;
}

static void on_over(void *owner, const char *reason)
{
	struct terminal *terminal = owner;

	(void)reason;
	terminal->is_over = 1;
	end(terminal, -1,
		"the job's runner has ended the connection: the job is over, or has as many "
		"sessions as it takes");
}

static const struct smd_agent_link_callbacks callbacks = {.on_frame = on_frame, .on_over = on_over};

/* ---- places ---- */

/* Its shell ends with the connection. */
static void terminal_free(struct terminal *terminal)
{
	end(terminal, -1, "it was closed");
	smd_agent_link_close(terminal->link);
	evbuffer_free(terminal->output);
	*terminal = (struct terminal){.id = ""};
}

static struct terminal *free_place(struct smd_terminals *terminals)
{
	for (size_t i = 0; i < SMD_TERMINALS_MAX; i++) {
		if (!terminals->list[i].id[0]) {
			return &terminals->list[i];
		}
	}
	return NULL;
}

/* One that cannot be guessed: an id is all that it takes to be in somebody's shell. */
static int make_id(char id[ID_SIZE])
{
	uint8_t bytes[ID_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		return -EIO;
	}
	for (size_t i = 0; i < ID_BYTES; i++) {
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	}
	return 0;
}

void smd_terminals_turn(struct smd_terminals *terminals)
{
	uint64_t now = smd_clock_ns();

	for (size_t i = 0; i < SMD_TERMINALS_MAX; i++) {
		struct terminal *terminal = &terminals->list[i];

		if (terminal->link && terminal->is_over) {
			smd_agent_link_close(terminal->link);
			terminal->link = NULL;
		}
		if (terminal->waiting && now - terminal->asked_ns > WAIT_NS) {
			terminal->asked_ns = now;
			answer_waiting(terminal);
		}
		if (terminal->id[0] && !terminal->waiting &&
			now - terminal->asked_ns > ALONE_NS) {
			terminal_free(terminal);
		}
	}
}

int smd_terminals_open(struct smd_terminals **out, struct event_base *base)
{
	*out = calloc(1, sizeof(**out));
	if (*out) {
		(*out)->base = base;
	}
	return *out ? 0 : -ENOMEM;
}

void smd_terminals_close(struct smd_terminals *terminals)
{
	for (size_t i = 0; terminals && i < SMD_TERMINALS_MAX; i++) {
		terminals->list[i].waiting = NULL;
		if (terminals->list[i].id[0]) {
			terminal_free(&terminals->list[i]);
		}
	}
	free(terminals);
}

/* ---- requests ---- */

/* The body's members, which the call's document holds. NULL: it has been answered. */
static json_t *read_body(struct smd_call *call)
{
	const struct smd_http_request *request = call->request;
	json_t *body = json_loadb(request->body ? request->body : "", request->length,
		JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(body)) {
		smd_answer_violate(&call->request->answer, "", "The request must be a JSON object");
		json_decref(body);
		return NULL;
	}
	return body;
}

static struct terminal *find(struct smd_call *call)
{
	const char *id = call->request->uri.segments[SEGMENT];

	for (size_t i = 0; i < SMD_TERMINALS_MAX && *id; i++) {
		struct terminal *terminal = &call->desk->terminals->list[i];

		if (terminal->job == call->id && strcmp(terminal->id, id) == 0) {
			return terminal;
		}
	}
	smd_answer_fail(&call->request->answer, SMD_RPC_NOT_FOUND,
		"The terminal does not exist: it has been closed, or nobody has looked at it for "
		"%d s",
		(int)(ALONE_NS / SMD_SECOND_NS));
	return NULL;
}

static int check_size(struct smd_call *call, int rows, int columns)
{
	if (rows < 1 || rows > SMD_TERMINAL_SIZE_MAX || columns < 1 ||
		columns > SMD_TERMINAL_SIZE_MAX) {
		smd_answer_violate(&call->request->answer, "rows",
			"rows and columns must be from 1 to %d", SMD_TERMINAL_SIZE_MAX);
		return -EINVAL;
	}
	return 0;
}

/* 0; else it has been answered why there are no terminals of that job. */
static int check_job(struct smd_call *call, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	json_t *resource = smd_resource_read(call->desk->store, job, 0, &error);
	int is_wanted = smd_web_access_is_wanted(resource);

	json_decref(resource);
	if (!resource) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "%s", error.text);
	} else if (!is_wanted) {
		smd_answer_fail(&call->request->answer, SMD_RPC_FAILED_PRECONDITION,
			"the job must be created with enableWebAccess, and was not");
	} else if (job->end_time || !job->directory) {
		smd_answer_fail(&call->request->answer, SMD_RPC_FAILED_PRECONDITION,
			"the job must run, and its state is %s", job->state);
	} else {
		return 0;
	}
	return -EACCES;
}

static int connect_to(struct smd_call *call, const char *directory, struct terminal *terminal)
{
	struct smd_agent_link_options options = {
		.end = SMD_AGENT_RUNNER, .callbacks = &callbacks, .owner = terminal};
	struct smd_error error = {""};
	int fd = smd_session_socket_connect(directory, &error);
	int ret = fd < 0 ? fd : 0;

	*terminal = (struct terminal){.job = call->id,
		.credit = INPUT_MAX,
		.exit_code = -1,
		.asked_ns = smd_clock_ns()};
	options.read_fd = options.write_fd = fd;
	ret = ret ? ret
		  : smd_agent_link_open(
			    &terminal->link, call->desk->terminals->base, &options, &error);
	terminal->output = ret ? NULL : evbuffer_new();
	if (!ret && (!terminal->output || make_id(terminal->id))) {
		smd_agent_link_close(terminal->link);
		ret = smd_error_set(&error, ENOMEM, "%s", strerror(ENOMEM));
	}
	if (ret) {
		smd_answer_fail(&call->request->answer, SMD_RPC_UNAVAILABLE, "%s", error.text);
		*terminal = (struct terminal){.id = ""};
	}
	return ret;
}

static void begin(struct smd_call *call, const char *directory, const char *replica,
	const struct smd_terminal *size)
{
	static char *const shell[] = {NULL};
	struct terminal *terminal = free_place(call->desk->terminals);
	char name[SMD_RESOURCE_NAME_SIZE + ID_SIZE];

	if (!terminal) {
		smd_answer_fail(&call->request->answer, SMD_RPC_RESOURCE_EXHAUSTED,
			"the service has %d terminals at most", SMD_TERMINALS_MAX);
		return;
	}
	if (connect_to(call, directory, terminal)) {
		return;
	}
	smd_agent_link_send_json(terminal->link, SMD_AGENT_EXEC,
		smd_agent_exec_encode(SESSION, OUTPUT_MAX, replica, shell, size));
	snprintf(name, sizeof(name), "projects/%s/locations/%s/customJobs/%" PRId64 "/terminals/%s",
		call->project, call->location, call->id, terminal->id);
	smd_answer_set(&call->request->answer, json_pack("{s:s}", "name", name));
}

void smd_terminal_create(struct smd_call *call)
{
	struct smd_terminal size = {.type = TYPE};
	struct smd_job_copy copy;
	const char *replica;
	int rows, columns;
	json_t *body = read_body(call);

	if (!body) {
		return;
	}
	if (json_unpack(body, "{s:s, s:i, s:i !}", "replica", &replica, "rows", &rows, "columns",
		    &columns)) {
		smd_answer_violate(&call->request->answer, "",
			"The request must have a text \"replica\" and numbers \"rows\" and "
			"\"columns\"");
	} else if (!check_size(call, rows, columns) && !smd_call_find(call, &copy)) {
		size.rows = (unsigned)rows;
		size.columns = (unsigned)columns;
		if (!check_job(call, &copy.job)) {
			begin(call, copy.job.directory, replica, &size);
		}
		smd_job_copy_free(&copy);
	}
	json_decref(body);
}

/* Another page that asks for the same takes the place of the one that waits. */
void smd_terminal_get(struct smd_call *call)
{
	const char *text = smd_uri_parameter(&call->request->uri, "offset");
	struct terminal *terminal = find(call);
	uint64_t offset, last;

	if (!terminal) {
		return;
	}
	last = terminal->output_at + evbuffer_get_length(terminal->output);
	if (smd_parse_number(text ? text : "0", terminal->output_at, last, &offset)) {
		smd_answer_violate(&call->request->answer, "offset",
			"offset must be from %" PRIu64 " to %" PRIu64
			": that output is there, got \"%.32s\"",
			terminal->output_at, last, text ? text : "0");
		return;
	}
	answer_waiting(terminal);
	drop_output(terminal, offset);
	terminal->asked_ns = smd_clock_ns();
	if (evbuffer_get_length(terminal->output) > 0 || terminal->has_ended) {
		set_output(terminal, &call->request->answer);
		return;
	}
	call->request->is_waiting = 1;
	terminal->waiting = call->request;
}

static void give_input(struct terminal *terminal, const uint8_t *bytes, size_t count)
{
	terminal->input_at += count;
	terminal->credit -= (uint32_t)count;
	if (terminal->link && count > 0) {
		smd_agent_link_send_input(terminal->link, SESSION, bytes, count);
	}
}

/* What has been taken before is not taken twice. */
static void take_input(
	struct smd_call *call, struct terminal *terminal, const char *offset, const char *data)
{
	struct smd_answer *answer = &call->request->answer;
	uint8_t bytes[INPUT_MAX];
	long count = smd_base64_decode(data, bytes, sizeof(bytes));
	uint64_t at, known;

	if (smd_parse_number(offset, 0, terminal->input_at, &at)) {
		smd_answer_violate(answer, "offset",
			"offset must be from 0 to %" PRIu64 ": so much input has come, got \"%.32s\"",
			terminal->input_at, offset);
	} else if (count < 0) {
		smd_answer_violate(
			answer, "data", "data must be base64 of at most %u bytes", INPUT_MAX);
	} else {
		known = terminal->input_at - at;
		known = known < (uint64_t)count ? known : (uint64_t)count;
		if ((uint64_t)count - known > terminal->credit) {
			smd_answer_fail(answer, SMD_RPC_RESOURCE_EXHAUSTED,
				"the shell has not read what it was given: it takes %u bytes now",
				terminal->credit);
			return;
		}
		give_input(terminal, bytes + known, (size_t)((uint64_t)count - known));
		smd_answer_set(answer, json_object());
	}
}

void smd_terminal_write(struct smd_call *call)
{
	struct terminal *terminal = find(call);
	json_t *body = terminal ? read_body(call) : NULL;
	const char *offset, *data;

	if (body && json_unpack(body, "{s:s, s:s !}", "offset", &offset, "data", &data)) {
		smd_answer_violate(&call->request->answer, "",
			"The request must have texts \"offset\" and \"data\"");
	} else if (body) {
		take_input(call, terminal, offset, data);
	}
	json_decref(body);
}

void smd_terminal_resize(struct smd_call *call)
{
	struct terminal *terminal = find(call);
	json_t *body = terminal ? read_body(call) : NULL;
	int rows, columns;

	if (body && json_unpack(body, "{s:i, s:i !}", "rows", &rows, "columns", &columns)) {
		smd_answer_violate(&call->request->answer, "",
			"The request must have numbers \"rows\" and \"columns\"");
	} else if (body && !check_size(call, rows, columns)) {
		if (terminal->link) {
			smd_agent_link_send_resize(terminal->link, SESSION, rows, columns);
		}
		smd_answer_set(&call->request->answer, json_object());
	}
	json_decref(body);
}

void smd_terminal_remove(struct smd_call *call)
{
	struct terminal *terminal = find(call);

	if (terminal) {
		terminal_free(terminal);
		smd_answer_set(&call->request->answer, json_object());
	}
}
