/* Encodes and decodes the bodies of frames. */
#include "worker/agent/wire/message.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/bytes.h"

/* ---- how a command ended ---- */

json_t *smd_exit_encode(const struct smd_exit *end)
{
	static const char *const names[] = {
		[SMD_EXIT_CODE] = "exit_code", [SMD_EXIT_SIGNAL] = "signal", [SMD_EXIT_ERRNO] = "errno"};
	json_t *record = json_pack("{s:i}", names[end->kind], end->value);

	if (record && end->kind == SMD_EXIT_SIGNAL) {
		json_object_set_new(record, "core_dumped", json_boolean(end->core_dumped));
		json_object_set_new(record, "oom_killed", json_boolean(end->oom_killed));
	}
	if (record) {
		json_object_set_new(record, "start_time", json_string(end->start_time));
		json_object_set_new(record, "end_time", json_string(end->end_time));
	}
	return record;
}

int smd_exit_decode(const json_t *record, struct smd_exit *out)
{
	struct smd_exit read = {.value = -1};
	const char *start_time, *end_time;
	json_t *object = (json_t *)record;

	if (json_unpack(object, "{s:s, s:s}", "start_time", &start_time, "end_time", &end_time)) {
		return -EPROTO;
	}
	if (json_unpack(object, "{s:i}", "exit_code", &read.value) == 0) {
		read.kind = SMD_EXIT_CODE;
	} else if (json_unpack(object, "{s:i, s:b, s:b}", "signal", &read.value, "core_dumped",
			   &read.core_dumped, "oom_killed", &read.oom_killed) == 0) {
		read.kind = SMD_EXIT_SIGNAL;
	} else if (json_unpack(object, "{s:i}", "errno", &read.value) == 0) {
		read.kind = SMD_EXIT_ERRNO;
	} else {
		return -EPROTO;
	}
	if (read.value < 0) {
		return -EPROTO;
	}
	snprintf(read.start_time, sizeof(read.start_time), "%s", start_time);
	snprintf(read.end_time, sizeof(read.end_time), "%s", end_time);
	*out = read;
	return 0;
}

/* ---- encoding ---- */

json_t *smd_agent_hello_encode(int host, const struct smd_host_facts *facts)
{
	return json_pack("{s:i, s:s, s:i, s:s, s:o}", "protocol", SMD_AGENT_PROTOCOL, "version",
		SUMMAND_VERSION, "host", host, "name", facts->name, "facts",
		smd_host_facts_encode(facts));
}

json_t *smd_agent_welcome_encode(void)
{
	return json_pack("{s:i, s:s}", "protocol", SMD_AGENT_PROTOCOL, "version", SUMMAND_VERSION);
}

static json_t *encode_words(char *const *words)
{
	json_t *list = json_array();

	for (; list && *words; words++) {
		if (json_array_append_new(list, json_string(*words))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *encode_environment(const struct smd_environment *environment)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < environment->count; i++) {
		const struct smd_variable *variable = &environment->variables[i];

		if (json_array_append_new(
			    list, json_pack("[s, s]", variable->name, variable->value))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *encode_mounts(const struct smd_launch *launch)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < launch->nmounts; i++) {
		if (json_array_append_new(list, json_pack("[s, b]", launch->mounts[i].path,
							launch->mounts[i].writable))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *encode_terminal(const struct smd_terminal *terminal)
{
	return json_pack("{s:i, s:i, s:s}", "rows", (int)terminal->rows, "columns",
		(int)terminal->columns, "type", terminal->type);
}

json_t *smd_agent_exec_encode(uint32_t id, uint32_t credit, const char *replica,
	char *const *argv, const struct smd_terminal *terminal)
{
	return json_pack("{s:I, s:I, s:s, s:o, s:o*}", "id", (json_int_t)id, "credit",
		(json_int_t)credit, "replica", replica, "argv", encode_words(argv), "terminal",
		terminal->rows ? encode_terminal(terminal) : NULL);
}

static json_t *encode_launch(uint32_t id, uint32_t credit, const struct smd_launch *launch)
{
	return json_pack("{s:I, s:I, s:s, s:o, s:o, s:b, s:o, s:i, s:b, s:s*, s:s*, s:s*, s:s*}", "id",
		(json_int_t)id, "credit", (json_int_t)credit, "name", launch->name, "argv",
		encode_words(launch->argv), "environment", encode_environment(launch->environment),
		"has_servers", launch->environment->has_servers, "mounts", encode_mounts(launch),
		"grace_s", (int)launch->grace_s, "has_command", launch->has_command, "directory",
		launch->directory, "image", launch->image, "runtime", launch->runtime, "error_file",
		launch->error_file);
}

json_t *smd_agent_start_encode(uint32_t id, uint32_t credit, const struct smd_launch *launch)
{
	json_t *body = encode_launch(id, credit, launch);

	if (body && launch->is_session) {
		json_object_set_new(body, "of", json_integer(launch->of));
	}
	if (body && launch->terminal.rows) {
		json_object_set_new(body, "terminal", encode_terminal(&launch->terminal));
	}
	return body;
}

json_t *smd_agent_ended_encode(uint32_t id, const struct smd_exit *end, const char *error_text)
{
	return json_pack("{s:I, s:b, s:o, s:s, s:s*}", "id", (json_int_t)id, "is_lost",
		end->is_lost, "end", smd_exit_encode(end), "reason", end->reason, "error_file",
		error_text);
}

json_t *smd_agent_ports_encode(const uint16_t *ports, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list, json_integer(ports[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", "ports", list);
}

/* ---- decoding ---- */

static int decode_hello(struct smd_agent_message *out, struct smd_error *error)
{
	if (json_unpack(out->root, "{s:i, s:s, s:i, s:s}", "protocol", &out->protocol, "version",
		    &out->version, "host", &out->host, "name", &out->name)) {
		return -EPROTO;
	}
	/* Of another version it is known by its name alone. */
	return out->protocol == SMD_AGENT_PROTOCOL && strcmp(out->version, SUMMAND_VERSION) == 0
		       ? smd_host_facts_decode(
				 json_object_get(out->root, "facts"), &out->facts, error)
		       : 0;
}

static int decode_ports(struct smd_agent_message *out)
{
	json_t *list = json_object_get(out->root, "ports");
	size_t count = json_array_size(list);

	out->text = json_string_value(json_object_get(out->root, "text"));
	if (out->text) {
		return 0;
	}
	if (!json_is_array(list) || count > SMD_AGENT_PORTS_MAX) {
		return -EPROTO;
	}
	out->ports = calloc(count + 1, sizeof(*out->ports));
	if (!out->ports) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		json_int_t port = json_integer_value(json_array_get(list, i));

		if (port < 1 || port > UINT16_MAX) {
			return -EPROTO;
		}
		out->ports[i] = (uint16_t)port;
		out->nports++;
	}
	return 0;
}

static int decode_id(struct smd_agent_message *out)
{
	const json_t *id = json_object_get(out->root, "id");
	json_int_t value = json_integer_value(id);

	if (!json_is_integer(id) || value < 0 || value > UINT32_MAX) {
		return -EPROTO;
	}
	out->id = (uint32_t)value;
	return 0;
}

static int decode_argv(struct smd_agent_message *out)
{
	const json_t *list = json_object_get(out->root, "argv");
	size_t count = json_array_size(list);

	out->argv = calloc(count + 1, sizeof(*out->argv));
	if (!out->argv) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		out->argv[i] = (char *)json_string_value(json_array_get(list, i));
		if (!out->argv[i]) {
			return -EPROTO;
		}
	}
	return json_is_array(list) ? 0 : -EPROTO;
}

static int decode_environment(struct smd_agent_message *out)
{
	const json_t *list = json_object_get(out->root, "environment");
	size_t count = json_array_size(list);
	struct smd_environment *environment = &out->environment;

	environment->variables = calloc(count + 1, sizeof(*environment->variables));
	if (!environment->variables) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		struct smd_variable *variable = &environment->variables[i];

		if (json_unpack(json_array_get(list, i), "[s, s!]", &variable->name,
			    &variable->value) ||
			!*variable->name || strchr(variable->name, '=')) {
			return -EPROTO;
		}
		environment->count++;
	}
	return json_is_array(list) ? 0 : -EPROTO;
}

static int decode_mounts(struct smd_agent_message *out)
{
	const json_t *list = json_object_get(out->root, "mounts");
	size_t count = json_array_size(list);

	if (!json_is_array(list) || count > SMD_AGENT_MOUNTS_MAX) {
		return -EPROTO;
	}
	for (size_t i = 0; i < count; i++) {
		if (json_unpack(json_array_get(list, i), "[s, b!]", &out->mounts[i].path,
			    &out->mounts[i].writable) ||
			out->mounts[i].path[0] != '/') {
			return -EPROTO;
		}
	}
	out->launch.mounts = out->mounts;
	out->launch.nmounts = count;
	return 0;
}

/* A name becomes a part of a path and of command lines. */
static int is_plain_name(const char *name)
{
	return *name && *name != '.' && *name != '-' && strlen(name) < SMD_FACTS_NAME_SIZE &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
		       strlen(name);
}

static int is_size(int rows, int columns)
{
	return rows > 0 && rows <= SMD_TERMINAL_SIZE_MAX && columns > 0 &&
	       columns <= SMD_TERMINAL_SIZE_MAX;
}

/* The type becomes a variable, and a word of a command line. */
static int is_terminal_type(const char *type)
{
	return strlen(type) < SMD_FACTS_NAME_SIZE &&
	       strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+") ==
		       strlen(type);
}

/* One that is not there is no terminal. */
static int decode_terminal(const json_t *object, struct smd_terminal *out)
{
	int rows, columns;

	if (!object) {
		return 0;
	}
	if (json_unpack((json_t *)object, "{s:i, s:i, s:s}", "rows", &rows, "columns", &columns,
		    "type", &out->type) ||
		!is_size(rows, columns) || !is_terminal_type(out->type)) {
		return -EPROTO;
	}
	out->rows = (unsigned)rows;
	out->columns = (unsigned)columns;
	return 0;
}

static int decode_resize(struct smd_agent_message *out)
{
	int rows, columns;
	int ret = decode_id(out);

	if (ret || json_unpack(out->root, "{s:i, s:i}", "rows", &rows, "columns", &columns) ||
		!is_size(rows, columns)) {
		return -EPROTO;
	}
	out->terminal.rows = (unsigned)rows;
	out->terminal.columns = (unsigned)columns;
	return 0;
}

static int decode_exec(struct smd_agent_message *out)
{
	json_int_t credit;
	int ret = decode_id(out);

	ret = ret ? ret : decode_argv(out);
	ret = ret ? ret : decode_terminal(json_object_get(out->root, "terminal"), &out->terminal);
	if (ret || json_unpack(out->root, "{s:s, s:I}", "replica", &out->name, "credit", &credit) ||
		credit < 0 || credit > UINT32_MAX) {
		return ret ? ret : -EPROTO;
	}
	out->credit = (uint32_t)credit;
	return 0;
}

/* Of a session: beside which process it runs. */
static int decode_session(struct smd_agent_message *out)
{
	const json_t *of = json_object_get(out->root, "of");
	json_int_t value = json_integer_value(of);

	if (!of) {
		return 0;
	}
	if (!json_is_integer(of) || value < 0 || value > UINT32_MAX) {
		return -EPROTO;
	}
	out->launch.is_session = 1;
	out->launch.of = (uint32_t)value;
	return decode_terminal(json_object_get(out->root, "terminal"), &out->launch.terminal);
}

static int decode_start(struct smd_agent_message *out)
{
	struct smd_launch *launch = &out->launch;
	json_int_t credit;
	int grace_s;
	int ret = decode_id(out);

	ret = ret ? ret : decode_argv(out);
	ret = ret ? ret : decode_environment(out);
	ret = ret ? ret : decode_mounts(out);
	ret = ret ? ret : decode_session(out);
	if (ret) {
		return ret;
	}
	if (json_unpack(out->root, "{s:I, s:s, s:b, s:i, s:b, s?s, s?s, s?s, s?s}", "credit",
		    &credit, "name", &launch->name, "has_servers", &out->environment.has_servers,
		    "grace_s", &grace_s, "has_command", &launch->has_command, "directory",
		    &launch->directory, "image", &launch->image, "runtime", &launch->runtime,
		    "error_file", &launch->error_file) ||
		credit < 0 || credit > UINT32_MAX || grace_s < 0 || !is_plain_name(launch->name) ||
		(launch->image ? !launch->runtime : !out->argv[0]) ||
		(launch->directory && launch->directory[0] != '/')) {
		return -EPROTO;
	}
	launch->grace_s = (unsigned)grace_s;
	launch->argv = out->argv;
	launch->environment = &out->environment;
	out->credit = (uint32_t)credit;
	return 0;
}

static int decode_file(struct smd_agent_message *out)
{
	return json_unpack(out->root, "{s:s, s:s}", "name", &out->name, "text", &out->text) ||
			       !is_plain_name(out->name)
		       ? -EPROTO
		       : 0;
}

static int decode_signal(struct smd_agent_message *out)
{
	int ret = decode_id(out);

	if (ret || json_unpack(out->root, "{s:i}", "signal", &out->signo) ||
		(out->signo != SIGTERM && out->signo != SIGKILL)) {
		return -EPROTO;
	}
	return 0;
}

static int decode_ended(struct smd_agent_message *out)
{
	const char *reason;
	int ret = decode_id(out);

	ret = ret ? ret : smd_exit_decode(json_object_get(out->root, "end"), &out->end);
	if (ret || json_unpack(out->root, "{s:b, s:s, s?s}", "is_lost", &out->end.is_lost, "reason",
			   &reason, "error_file", &out->text)) {
		return -EPROTO;
	}
	snprintf(out->end.reason, sizeof(out->end.reason), "%s", reason);
	return 0;
}

static int decode_reserve(struct smd_agent_message *out)
{
	int count;

	if (json_unpack(out->root, "{s:i}", "ports", &count) || count < 0 ||
		count > SMD_AGENT_PORTS_MAX) {
		return -EPROTO;
	}
	out->nports = (unsigned)count;
	return 0;
}

static int decode_text(struct smd_agent_message *out)
{
	return json_unpack(out->root, "{s:s}", "text", &out->text) ? -EPROTO : 0;
}

static int decode_json(struct smd_agent_message *out, struct smd_error *error)
{
	switch (out->kind) {
	case SMD_AGENT_HELLO:
		return decode_hello(out, error);
	case SMD_AGENT_WELCOME:
		return json_unpack(out->root, "{s:i, s:s}", "protocol", &out->protocol, "version",
			       &out->version)
			       ? -EPROTO
			       : 0;
	case SMD_AGENT_REFUSE:
	case SMD_AGENT_LEAVING:
		return decode_text(out);
	case SMD_AGENT_RESERVE:
		return decode_reserve(out);
	case SMD_AGENT_PORTS:
		return decode_ports(out);
	case SMD_AGENT_FILE:
		return decode_file(out);
	case SMD_AGENT_START:
		return decode_start(out);
	case SMD_AGENT_STARTED:
		return decode_id(out);
	case SMD_AGENT_SIGNAL:
		return decode_signal(out);
	case SMD_AGENT_ENDED:
		return decode_ended(out);
	case SMD_AGENT_EXEC:
		return decode_exec(out);
	case SMD_AGENT_RESIZE:
		return decode_resize(out);
	default:
		return 0; /* CLOSE */
	}
}

/* 1: the kind has no JSON. */
static int decode_binary(struct smd_agent_message *out, const uint8_t *body, size_t length)
{
	if (out->kind == SMD_AGENT_CREDIT) {
		if (length != 8) {
			return -EPROTO;
		}
		out->id = smd_get32(body);
		out->credit = smd_get32(body + 4);
		return 0;
	}
	if (out->kind == SMD_AGENT_OUTPUT) {
		if (length <= SMD_AGENT_OUTPUT_HEAD || body[4] >= SMD_AGENT_STREAMS) {
			return -EPROTO;
		}
		out->id = smd_get32(body);
		out->stream = (enum smd_agent_stream)body[4];
		out->bytes = body + SMD_AGENT_OUTPUT_HEAD;
		out->length = length - SMD_AGENT_OUTPUT_HEAD;
		return 0;
	}
	if (out->kind == SMD_AGENT_INPUT) {
		if (length < SMD_AGENT_INPUT_HEAD) {
			return -EPROTO;
		}
		out->id = smd_get32(body);
		out->bytes = body + SMD_AGENT_INPUT_HEAD;
		out->length = length - SMD_AGENT_INPUT_HEAD;
		return 0;
	}
	return 1;
}

int smd_agent_message_decode(struct smd_agent_message *out, enum smd_agent_kind kind,
	const uint8_t *body, size_t length, struct smd_error *error)
{
	int ret;

	*out = (struct smd_agent_message){.kind = kind};
	ret = decode_binary(out, body, length);
	if (ret == 1) {
		out->root = json_loadb((const char *)body, length, JSON_REJECT_DUPLICATES, NULL);
		ret = json_is_object(out->root) ? decode_json(out, error) : -EPROTO;
	}
	return ret ? smd_error_set(error, -ret, "a %s frame came that is none",
			     smd_agent_kind_name(kind))
		   : 0;
}

void smd_agent_message_clear(struct smd_agent_message *message)
{
	smd_host_facts_clear(&message->facts);
	free(message->ports);
	free(message->argv);
	free(message->environment.variables);
	json_decref(message->root);
	*message = (struct smd_agent_message){.root = NULL};
}
