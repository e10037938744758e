/* Frames of an agent's connection: what is written is read, and what is none is refused. */
#include "worker/agent/wire/message.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int decode_text(
	struct smd_agent_message *out, enum smd_agent_kind kind, const char *text)
{
	struct smd_error error = {""};
	int ret = smd_agent_message_decode(
		out, kind, (const uint8_t *)text, strlen(text), &error);

	assert_true((ret == 0) == (error.text[0] == '\0'));
	return ret;
}

static void decode(struct smd_agent_message *out, enum smd_agent_kind kind, json_t *body)
{
	char *text = json_dumps(body, 0);

	assert_non_null(text);
	assert_int_equal(decode_text(out, kind, text), 0);
	json_decref(body);
	free(text);
}

static void refuse(enum smd_agent_kind kind, const char *text)
{
	struct smd_agent_message message;

	assert_int_equal(decode_text(&message, kind, text), -EPROTO);
	smd_agent_message_clear(&message);
}

static void test_heads(void **state)
{
	const struct smd_agent_head head = {.kind = SMD_AGENT_START, .length = 16u << 20};
	struct smd_agent_head out;
	uint8_t bytes[SMD_AGENT_FRAME_HEAD];
	const char *reason;

	(void)state;
	smd_agent_head_encode(&head, bytes);
	assert_int_equal(smd_agent_head_decode(bytes, SMD_AGENT_RUNNER, &out, &reason), 0);
	assert_int_equal(out.kind, SMD_AGENT_START);
	assert_int_equal(out.length, 16u << 20);
	assert_int_equal(smd_agent_head_decode(bytes, SMD_AGENT_HOST, &out, &reason), -EPROTO);
	assert_string_equal(reason, "a frame came that this end alone may send");
	bytes[0] = 1;
	assert_int_equal(smd_agent_head_decode(bytes, SMD_AGENT_RUNNER, &out, &reason), -EPROTO);
	assert_string_equal(reason, "a frame came that is longer than its kind may be");
	for (unsigned kind = 0; kind < 256; kind++) {
		memset(bytes, 0, sizeof(bytes));
		bytes[4] = (uint8_t)kind;
		assert_int_equal(
			smd_agent_head_decode(bytes, SMD_AGENT_RUNNER | SMD_AGENT_HOST, &out, &reason),
			kind >= 1 && kind <= 19 ? 0 : -EPROTO);
	}
}

static void test_hello(void **state)
{
	struct smd_host_interface interface = {.name = "eth0",
		.speed_mbps = 25000,
		.naddresses = 1,
		.below = {"bond0"},
		.nbelow = 1};
	char *gpus[] = {(char[]){"0"}, (char[]){"GPU-5a"}};
	char *rdma[] = {(char[]){"mlx5_0"}, (char[]){"mlx5_bond_0"}, (char[]){"rxe0"}};
	struct smd_host_facts facts = {.name = "node7",
		.folder = "/run/user/7/summand-agent-x",
		.network = "n",
		.cpus = 64,
		.memory_bytes = 1ull << 40,
		.clock_ns = 5,
		.gpus = gpus,
		.ngpus = 2,
		.rdma = rdma,
		.nrdma = 3,
		.interfaces = &interface,
		.ninterfaces = 1};
	struct smd_agent_message message;

	(void)state;
	assert_int_equal(smd_host_address_parse("10.0.0.7/24", &interface.addresses[0]), 0);
	decode(&message, SMD_AGENT_HELLO, smd_agent_hello_encode(3, &facts));
	assert_int_equal(message.protocol, SMD_AGENT_PROTOCOL);
	assert_string_equal(message.version, SUMMAND_VERSION);
	assert_int_equal(message.host, 3);
	assert_string_equal(message.facts.name, "node7");
	assert_int_equal(message.facts.ngpus, 2);
	assert_string_equal(message.facts.gpus[1], "GPU-5a");
	assert_int_equal(message.facts.nrdma, 3);
	assert_string_equal(message.facts.rdma[0], "mlx5_0");
	assert_string_equal(message.facts.rdma[2], "rxe0");
	assert_int_equal(message.facts.memory_bytes, 1ull << 40);
	assert_int_equal(message.facts.interfaces[0].speed_mbps, 25000);
	assert_int_equal(message.facts.interfaces[0].addresses[0].prefix, 24);
	assert_int_equal(message.facts.interfaces[0].nbelow, 1);
	assert_string_equal(message.facts.interfaces[0].below[0], "bond0");
	smd_agent_message_clear(&message);
	/* Of another version it is known by name. */
	assert_int_equal(decode_text(&message, SMD_AGENT_HELLO,
				 "{\"protocol\": 9, \"version\": \"9.9\", \"host\": 0, \"name\": "
				 "\"n\", \"more\": 1}"),
		0);
	assert_int_equal(message.protocol, 9);
	smd_agent_message_clear(&message);
	refuse(SMD_AGENT_HELLO, "{\"protocol\": 3, \"version\": \"" SUMMAND_VERSION
				"\", \"host\": 0, \"name\": \"n\"}");
	refuse(SMD_AGENT_HELLO, "[]");
}

static void test_start(void **state)
{
	char *argv[] = {(char[]){"python3"}, (char[]){"train.py"}, (char[]){""}, NULL};
	struct smd_variable variables[] = {{(char[]){"RANK"}, (char[]){"3"}},
		{(char[]){"EMPTY"}, (char[]){""}}, {(char[]){"LINES"}, (char[]){"a\nb\t\xc3\xa4"}}};
	const struct smd_environment environment = {
		.variables = variables, .count = 3, .has_servers = 1};
	const struct smd_mount mounts[] = {{"/a b", 1}, {"/token", 0}};
	struct smd_launch launch = {.argv = argv,
		.environment = &environment,
		.has_command = 1,
		.name = "summand-7-workerpool1-0",
		.mounts = mounts,
		.nmounts = 2,
		.directory = "/jobs/one",
		.grace_s = 30};
	struct smd_agent_message message;

	(void)state;
	decode(&message, SMD_AGENT_START, smd_agent_start_encode(7, 1000, &launch));
	assert_int_equal(message.id, 7);
	assert_int_equal(message.credit, 1000);
	assert_string_equal(message.launch.argv[1], "train.py");
	assert_string_equal(message.launch.argv[2], "");
	assert_null(message.launch.argv[3]);
	assert_int_equal(message.launch.environment->count, 3);
	assert_int_equal(message.launch.environment->has_servers, 1);
	assert_string_equal(smd_environment_get(message.launch.environment, "LINES"), "a\nb\t\xc3\xa4");
	assert_string_equal(message.launch.mounts[0].path, "/a b");
	assert_int_equal(message.launch.mounts[1].writable, 0);
	assert_string_equal(message.launch.directory, "/jobs/one");
	assert_null(message.launch.image);
	assert_null(message.launch.error_file);
	assert_int_equal(message.launch.grace_s, 30);
	smd_agent_message_clear(&message);
	launch.name = "x; rm";
	{
		json_t *body = smd_agent_start_encode(7, 1, &launch);
		char *text = json_dumps(body, 0);

		refuse(SMD_AGENT_START, text);
		free(text);
		json_decref(body);
	}
	launch.name = "a";
	argv[1] = (char[]){"\xff"};
	assert_null(smd_agent_start_encode(7, 1, &launch));
}

/* A session: its replica's number and its terminal go with START; EXEC asks for one. */
static void test_session(void **state)
{
	char *argv[] = {(char[]){"sh"}, NULL};
	const struct smd_environment environment = {.count = 0};
	const struct smd_launch launch = {.argv = argv,
		.environment = &environment,
		.name = "a",
		.is_session = 1,
		.of = 3,
		.terminal = {.rows = 24, .columns = 80, .type = "xterm-256color"}};
	const struct smd_terminal none = {.rows = 0};
	struct smd_agent_message message;

	(void)state;
	decode(&message, SMD_AGENT_START, smd_agent_start_encode(9, 1, &launch));
	assert_true(message.launch.is_session);
	assert_int_equal(message.launch.of, 3);
	assert_int_equal(message.launch.terminal.columns, 80);
	assert_string_equal(message.launch.terminal.type, "xterm-256color");
	smd_agent_message_clear(&message);
	decode(&message, SMD_AGENT_EXEC,
		smd_agent_exec_encode(1, 1000, "workerpool0-0", argv, &none));
	assert_string_equal(message.name, "workerpool0-0");
	assert_string_equal(message.argv[0], "sh");
	assert_int_equal(message.credit, 1000);
	assert_int_equal(message.terminal.rows, 0);
	smd_agent_message_clear(&message);
	decode(&message, SMD_AGENT_RESIZE,
		json_pack("{s:i, s:i, s:i}", "id", 1, "rows", 10000, "columns", 1));
	assert_int_equal(message.terminal.rows, 10000);
	smd_agent_message_clear(&message);
	refuse(SMD_AGENT_RESIZE, "{\"id\": 1, \"rows\": 10001, \"columns\": 1}");
	refuse(SMD_AGENT_RESIZE, "{\"id\": 1, \"rows\": 1, \"columns\": 0}");
	refuse(SMD_AGENT_EXEC, "{\"id\": 1, \"credit\": 1, \"replica\": \"r\", \"argv\": [1]}");
	refuse(SMD_AGENT_EXEC,
		"{\"id\": 1, \"credit\": 1, \"replica\": \"r\", \"argv\": [], "
		"\"terminal\": {\"rows\": 1, \"columns\": 1, \"type\": \"a b\"}}");
	refuse(SMD_AGENT_INPUT, "123");
}

static void test_ended(void **state)
{
	struct smd_exit end = {.kind = SMD_EXIT_SIGNAL,
		.value = 9,
		.oom_killed = 1,
		.start_time = "s",
		.end_time = "e",
		.reason = "why"};
	struct smd_agent_message message;

	(void)state;
	decode(&message, SMD_AGENT_ENDED, smd_agent_ended_encode(1, &end, "{\"message\": 1}"));
	assert_int_equal(message.end.kind, SMD_EXIT_SIGNAL);
	assert_int_equal(message.end.value, 9);
	assert_true(message.end.oom_killed);
	assert_false(message.end.is_lost);
	assert_string_equal(message.end.reason, "why");
	assert_string_equal(message.end.end_time, "e");
	assert_string_equal(message.text, "{\"message\": 1}");
	smd_agent_message_clear(&message);
	end = (struct smd_exit){.kind = SMD_EXIT_ERRNO, .value = ENOENT, .is_lost = 1};
	decode(&message, SMD_AGENT_ENDED, smd_agent_ended_encode(1, &end, NULL));
	assert_int_equal(message.end.kind, SMD_EXIT_ERRNO);
	assert_true(message.end.is_lost);
	assert_null(message.text);
	smd_agent_message_clear(&message);
	refuse(SMD_AGENT_ENDED, "{\"id\": 1, \"is_lost\": false, \"reason\": \"\", \"end\": {}}");
}

static void test_ports(void **state)
{
	static const uint16_t ports[] = {20000, 65535};
	struct smd_agent_message message;

	(void)state;
	decode(&message, SMD_AGENT_PORTS, smd_agent_ports_encode(ports, 2));
	assert_int_equal(message.nports, 2);
	assert_int_equal(message.ports[1], 65535);
	smd_agent_message_clear(&message);
	refuse(SMD_AGENT_PORTS, "{\"ports\": [0]}");
	refuse(SMD_AGENT_PORTS, "{\"ports\": [65536]}");
	refuse(SMD_AGENT_PORTS, "{}");
}

static void test_what_is_none(void **state)
{
	(void)state;
	refuse(SMD_AGENT_SIGNAL, "{\"id\": 1, \"signal\": 19}");
	refuse(SMD_AGENT_SIGNAL, "{\"id\": -1, \"signal\": 15}");
	refuse(SMD_AGENT_SIGNAL, "{\"id\": 4294967296, \"signal\": 15}");
	refuse(SMD_AGENT_RESERVE, "{\"ports\": 65536}");
	refuse(SMD_AGENT_RESERVE, "{\"ports\": -1}");
	refuse(SMD_AGENT_FILE, "{\"name\": \"../x\", \"text\": \"\"}");
	refuse(SMD_AGENT_FILE, "{\"name\": \".x\", \"text\": \"\"}");
	refuse(SMD_AGENT_STARTED, "");
	refuse(SMD_AGENT_STARTED, "{\"id\": 1} x");
	refuse(SMD_AGENT_OUTPUT, "1234");
	refuse(SMD_AGENT_OUTPUT, "1234\x03x");
	refuse(SMD_AGENT_CREDIT, "1234567");
}

static void test_output(void **state)
{
	static const char body[] = "\x02\x00\x00\x00\x01some text";
	struct smd_agent_message message;

	(void)state;
	assert_int_equal(smd_agent_message_decode(&message, SMD_AGENT_OUTPUT,
				 (const uint8_t *)body, sizeof(body) - 1, NULL),
		0);
	assert_int_equal(message.id, 2);
	assert_int_equal(message.stream, SMD_AGENT_STDERR);
	assert_int_equal(message.length, 9);
	assert_memory_equal(message.bytes, "some text", 9);
	smd_agent_message_clear(&message);
}

static void test_invitation(void **state)
{
	const struct smd_invitation invitation = {.protocol = SMD_AGENT_PROTOCOL,
		.version = SUMMAND_VERSION,
		.job = "8199",
		.host = 3,
		.is_tcp = 1,
		.addresses = {"10.0.0.5:4187", "[fd00::5]:4187"},
		.naddresses = 2,
		.key = {1, 0xab},
		.silence_s = 15,
		.grace_s = 30};
	struct smd_error error = {""};
	struct smd_invitation out;
	char *line = smd_invitation_encode(&invitation);

	(void)state;
	assert_non_null(line);
	assert_int_equal(line[strlen(line) - 1], '\n');
	assert_int_equal(smd_invitation_decode(line, strlen(line) - 1, &out, &error), 0);
	assert_memory_equal(out.key, invitation.key, sizeof(out.key));
	assert_string_equal(out.addresses[1], "[fd00::5]:4187");
	assert_int_equal(out.host, 3);
	assert_int_equal(out.grace_s, 30);
	assert_true(out.is_tcp);
	for (size_t length = 0; length < strlen(line) - 1; length++) {
		assert_int_equal(smd_invitation_decode(line, length, &out, NULL), -EPROTO);
	}
	free(line);
	assert_int_equal(smd_invitation_decode("hello", 5, &out, &error), -EPROTO);
	assert_string_equal(error.text,
		"standard input: must begin with the invitation of a summand runner, in one line");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_session),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_invitation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
