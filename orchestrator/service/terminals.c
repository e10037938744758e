/* Keeps terminals, and answers requests about them. */
#include "orchestrator/service/terminals.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "orchestrator/job/trial.h"
#include "orchestrator/service/base64.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/service/shell.h"
#include "orchestrator/service/web_access.h"
#include "orchestrator/store/job_copy.h"
#include "orchestrator/store/last_record.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"

#define WAIT_NS     (20 * (uint64_t)SMD_SECOND_NS) /* a request for output */
#define ALONE_NS    (60 * (uint64_t)SMD_SECOND_NS) /* without one, and it is ended */
#define ID_BYTES    16
#define ID_SIZE     (2 * ID_BYTES + 1)
#define TYPE        "xterm-256color"
#define SEGMENT     8    /* of its path: its id */
#define WORDS_MAX   1024 /* of a command */

struct terminal {
	char id[ID_SIZE]; /* "": the place is free */
	int64_t job;
	struct smd_shell shell;
	struct smd_http_request *waiting; /* for output; or NULL */
	uint64_t asked_ns;                /* when output was asked for last */
};

struct smd_terminals {
	struct event_base *base;
	struct terminal list[SMD_TERMINALS_MAX];
};

static void answer_waiting(struct terminal *terminal)
{
	struct smd_http_request *request = terminal->waiting;

	if (request) {
		terminal->waiting = NULL;
		smd_answer_set(&request->answer, smd_shell_show(&terminal->shell));
		smd_http_answer(request);
	}
}

static void wake(struct smd_shell *shell)
{
	answer_waiting((struct terminal *)((char *)shell - offsetof(struct terminal, shell)));
}

/* ---- places ---- */

/* Whoever waits for its output is told that there is none any more. */
static void terminal_free(struct terminal *terminal)
{
	struct smd_shell *shell = &terminal->shell;

	if (!shell->has_ended) {
		shell->has_ended = 1;
		snprintf(shell->reason, sizeof(shell->reason), "it was closed");
	}
	answer_waiting(terminal);
	smd_shell_close(shell);
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
			"the job must be created with enableWebAccess (gcloud's "
			"--enable-web-access), and was not; `exec` on the service's own machine "
			"does without");
	} else if (job->end_time || !job->directory) {
		smd_answer_fail(&call->request->answer, SMD_RPC_FAILED_PRECONDITION,
			"the job must run, and its state is %s", job->state);
	} else {
		return 0;
	}
	return -EACCES;
}

/* What a request for a terminal says; the texts are its document's. */
struct wish {
	struct smd_shell_request shell;
	uint64_t trial; /* 0: none */
	char by[SMD_HTTP_CLIENT_SIZE + 32];
	char *words[WORDS_MAX + 1];
};

static int read_command(struct smd_call *call, const json_t *command, struct wish *wish)
{
	const json_t *word;
	size_t i;

	if (json_array_size(command) > WORDS_MAX) {
		smd_answer_violate(&call->request->answer, "command",
			"command must have at most %d words", WORDS_MAX);
		return -E2BIG;
	}
	json_array_foreach (command, i, word) {
		wish->words[i] = (char *)json_string_value(word);
		if (!wish->words[i]) {
			smd_answer_violate(&call->request->answer, "command",
				"command must be a list of texts");
			return -EINVAL;
		}
	}
	wish->shell.command = wish->words;
	return 0;
}

/* Trials are named by their numbers, and only those of tuning jobs have replicas. */
static int read_trial(struct smd_call *call, const char *trial, struct wish *wish)
{
	int is_tuning = call->kind == SMD_STORED_TUNING_JOB;

	if (is_tuning != (trial != NULL) ||
		(trial && smd_parse_number(trial, 1, UINT32_MAX, &wish->trial))) {
		smd_answer_violate(&call->request->answer, "trial",
			is_tuning ? "trial must be the id of a trial that runs"
				  : "trial must be of a hyperparameterTuningJob");
		return -EINVAL;
	}
	return 0;
}

/* 0; else it has been answered. Without rows and columns there is no terminal. */
static int read_wish(struct smd_call *call, json_t *body, struct wish *wish)
{
	const char *trial = NULL;
	const char *type = TYPE;
	const json_t *command = NULL;
	int rows = 0, columns = 0;

	*wish = (struct wish){.shell = {.by = wish->by}};
	snprintf(wish->by, sizeof(wish->by), "the service's client %s", call->request->client);
	if (json_unpack(body, "{s:s, s?s, s?o, s?i, s?i, s?s !}", "replica", &wish->shell.replica,
		    "trial", &trial, "command", &command, "rows", &rows, "columns", &columns,
		    "terminalType", &type) ||
		(command && !json_is_array(command))) {
		smd_answer_violate(&call->request->answer, "",
			"The request must have a text \"replica\"; it may have a text \"trial\", a "
			"list \"command\", and numbers \"rows\" and \"columns\" with a text "
			"\"terminalType\"");
		return -EINVAL;
	}
	if (json_object_get(body, "rows") || json_object_get(body, "columns")) {
		if (check_size(call, rows, columns)) {
			return -EINVAL;
		}
		wish->shell.terminal = (struct smd_terminal){
			.rows = (unsigned)rows, .columns = (unsigned)columns, .type = type};
	}
	return read_trial(call, trial, wish) || read_command(call, command, wish) ? -EINVAL : 0;
}

/* By the name that the record has, or the node's, whose first process that is. */
static int is_replica(const json_t *replica, const char *wanted)
{
	const char *name = json_string_value(json_object_get(replica, "name"));
	size_t length = name ? strcspn(name, ".") : 0;

	return name && (strcmp(name, wanted) == 0 ||
			       (strncmp(name, wanted, length) == 0 && !wanted[length]));
}

/* 0; else it has been answered that there is no such replica. Before there is a record the runner
 * alone knows. */
static int check_replica(struct smd_call *call, const char *directory, const struct wish *wish)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *record, *replica;
	int is_there;
	size_t i;

	smd_store_name(name, call->kind, call->id);
	record = smd_last_record_replicas(directory, wish->trial ? NULL : name);
	is_there = !record;
	json_array_foreach (json_object_get(record, "replicas"), i, replica) {
		is_there |= is_replica(replica, wish->shell.replica);
	}
	json_decref(record);
	if (!is_there) {
		smd_answer_fail(&call->request->answer, SMD_RPC_NOT_FOUND,
			"%.64s: the job has no replica of that name", wish->shell.replica);
		return -ENOENT;
	}
	return 0;
}

/* A trial's runner has its own directory. */
static char *directory_of(const struct smd_stored_job *job, const struct wish *wish)
{
	char *path;

	if (!wish->trial) {
		return strdup(job->directory);
	}
	return asprintf(&path, "%s/" SMD_TRIAL_FOLDER, job->directory, (unsigned)wish->trial) < 0
		       ? NULL
		       : path;
}

static void begin(struct smd_call *call, const char *directory, const struct wish *wish)
{
	struct terminal *terminal = free_place(call->desk->terminals);
	char name[SMD_STORE_NAME_SIZE + ID_SIZE];
	struct smd_error error = {""};

	if (!terminal) {
		smd_answer_fail(&call->request->answer, SMD_RPC_RESOURCE_EXHAUSTED,
			"the service has %d terminals at most", SMD_TERMINALS_MAX);
		return;
	}
	*terminal = (struct terminal){
		.job = call->id, .asked_ns = smd_clock_ns(), .shell = {.wake = wake}};
	if (make_id(terminal->id) ||
		smd_shell_open(&terminal->shell, call->desk->terminals->base, directory,
			&wish->shell, &error)) {
		smd_answer_fail(&call->request->answer, SMD_RPC_UNAVAILABLE, "%s",
			error.text[0] ? error.text : strerror(ENOMEM));
		terminal_free(terminal);
	} else {
		snprintf(name, sizeof(name), "projects/%s/locations/%s/%s/%" PRId64 "/terminals/%s",
			call->project, call->location, smd_stored_kind_collection(call->kind),
			call->id, terminal->id);
		smd_answer_set(&call->request->answer, json_pack("{s:s}", "name", name));
	}
}

/* Takes over the directory; NULL: memory ran out. */
static void begin_in(struct smd_call *call, char *directory, const struct wish *wish)
{
	if (!directory) {
		smd_answer_fail(&call->request->answer, SMD_RPC_INTERNAL, "%s", strerror(ENOMEM));
	} else if (!check_replica(call, directory, wish)) {
		begin(call, directory, wish);
	}
	free(directory);
}

void smd_terminal_create(struct smd_call *call)
{
	struct smd_job_copy copy;
	struct wish wish;
	json_t *body = read_body(call);

	if (body && !read_wish(call, body, &wish) && !smd_call_find(call, &copy)) {
		if (!check_job(call, &copy.job)) {
			begin_in(call, directory_of(&copy.job, &wish), &wish);
		}
		smd_job_copy_free(&copy);
	}
	json_decref(body);
}

/* 0, and that output has come; else it has been answered. */
static int take_offset(struct smd_call *call, struct smd_shell *shell, const char *name,
	enum smd_shell_output stream)
{
	const char *text = smd_uri_parameter(&call->request->uri, name);
	uint64_t first = shell->streams[stream].at;
	uint64_t last = smd_shell_last(shell, stream);
	uint64_t offset;

	if (!text && stream == SMD_SHELL_ERRORS) {
		return 0;
	}
	if (smd_parse_number(text ? text : "0", first, last, &offset)) {
		smd_answer_violate(&call->request->answer, name,
			"%s must be from %" PRIu64 " to %" PRIu64
			": that output is there, got \"%.32s\"",
			name, first, last, text ? text : "0");
		return -EINVAL;
	}
	smd_shell_drop(shell, stream, offset);
	return 0;
}

/* Another page that asks for the same takes the place of the one that waits. */
void smd_terminal_get(struct smd_call *call)
{
	struct terminal *terminal = find(call);

	if (!terminal) {
		return;
	}
	answer_waiting(terminal);
	if (take_offset(call, &terminal->shell, "offset", SMD_SHELL_OUT) ||
		take_offset(call, &terminal->shell, "errorOffset", SMD_SHELL_ERRORS)) {
		return;
	}
	terminal->asked_ns = smd_clock_ns();
	if (smd_shell_has_news(&terminal->shell)) {
		smd_answer_set(&call->request->answer, smd_shell_show(&terminal->shell));
		return;
	}
	call->request->is_waiting = 1;
	terminal->waiting = call->request;
}

/* As proto's JSON has it: whole numbers of 64 bits are texts, and may be numbers. */
static int read_number(const json_t *value, uint64_t most, uint64_t *out)
{
	if (json_is_integer(value)) {
		*out = (uint64_t)json_integer_value(value);
		return json_integer_value(value) >= 0 && *out <= most ? 0 : -ERANGE;
	}
	return smd_parse_number(
		json_is_string(value) ? json_string_value(value) : "", 0, most, out);
}

/* 0; else it has been answered. */
static int take_input(
	struct smd_call *call, struct smd_shell *shell, const json_t *offset, const char *data)
{
	struct smd_answer *answer = &call->request->answer;
	uint8_t bytes[SMD_SHELL_INPUT_MAX];
	long count = smd_base64_decode(data, bytes, sizeof(bytes));
	uint64_t at;

	if (read_number(offset, shell->input_at, &at)) {
		smd_answer_violate(answer, "offset",
			"offset must be a whole number from 0 to %" PRIu64
			": so much input has come",
			shell->input_at);
	} else if (count < 0) {
		smd_answer_violate(answer, "data", "data must be base64 of at most %u bytes",
			SMD_SHELL_INPUT_MAX);
	} else if (smd_shell_write(shell, at, bytes, (size_t)count)) {
		smd_answer_fail(answer, SMD_RPC_RESOURCE_EXHAUSTED,
			"the shell has not read what it was given: it takes %u bytes now",
			shell->credit);
	} else {
		return 0;
	}
	return -EINVAL;
}

void smd_terminal_write(struct smd_call *call)
{
	struct terminal *terminal = find(call);
	json_t *body = terminal ? read_body(call) : NULL;
	const json_t *offset;
	const char *data;
	int is_last = 0;

	if (body && json_unpack(body, "{s:o, s:s, s?b !}", "offset", &offset, "data", &data,
			    "isLast", &is_last)) {
		smd_answer_violate(&call->request->answer, "",
			"The request must have a whole number \"offset\" and a text \"data\"; it "
			"may have \"isLast\", true or false, and nothing else");
	} else if (body && !take_input(call, &terminal->shell, offset, data)) {
		if (is_last) {
			smd_shell_end_input(&terminal->shell);
		}
		smd_answer_set(&call->request->answer, json_object());
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
		smd_shell_resize(&terminal->shell, rows, columns);
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
