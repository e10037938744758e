/*
 * Servers that break the protocol, one rule each: the worker's call returns an error that names the
 * server and the rule, and everything can still be closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"

enum { COUNT = 16, CHUNK = 4096 };

/* ---- a server that is one socket ---- */

struct false_server {
	int listener;
	char address[64];
	const struct lie *lie;
	pthread_t thread;
};

struct lie {
	const char *name;
	void (*greet)(struct raw *raw);  /* says this instead of WELCOME; NULL: WELCOME */
	void (*answer)(struct raw *raw); /* says this to the first INPUT */
	int err;
	const char *reason;
};

static void send_welcome(struct raw *raw, uint32_t shard, uint32_t shards)
{
	const struct smd_welcome welcome = {.server_id = 1,
		.shard = shard,
		.shards = shards,
		.chunk_bytes = CHUNK,
		.weight = 100};
	uint8_t payload[SMD_CONTROL_MAX];

	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
		smd_welcome_encode(&welcome, payload));
}

static void serve_frames(struct raw *raw, const struct lie *lie)
{
	while (raw_receive(raw)) {
		struct smd_frame frame = raw->frame;

		switch (frame.kind) {
		case SMD_FRAME_HELLO:
			if (lie->greet) {
				lie->greet(raw);
			} else {
				send_welcome(raw, 0, 1);
			}
			break;
		case SMD_FRAME_JOIN:
			frame.kind = SMD_FRAME_JOINED;
			frame.window = 1;
			raw_send(raw, frame, NULL, 0);
			break;
		case SMD_FRAME_INPUT:
			lie->answer(raw);
			break;
		default:
			break;
		}
	}
}

static void *serve(void *arg)
{
	struct false_server *server = arg;
	struct raw raw = {.payload = malloc(SMD_CHUNK_LIMIT + 1)};

	raw.fd = accept(server->listener, NULL, NULL);
	CHECK(raw.fd >= 0);
	serve_frames(&raw, server->lie);
	raw_close(&raw);
	return NULL;
}

static void server_listen(struct false_server *server)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->listener >= 0);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(server->listener, 1), 0);
	assert_int_equal(getsockname(server->listener, (struct sockaddr *)&name, &size), 0);
	snprintf(server->address, sizeof(server->address), "127.0.0.1:%u", ntohs(name.sin_port));
}

static void server_start(struct false_server *server, const struct lie *lie)
{
	server->lie = lie;
	server_listen(server);
	assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct false_server *server)
{
	pthread_join(server->thread, NULL);
	close(server->listener);
}

/* ---- instead of WELCOME ---- */

static void say_what_is_no_frame(struct raw *raw)
{
	char text[SMD_FRAME_SIZE] = "HTTP/1.1 400 Bad Request\r\n\r\n";

	raw_write(raw, text, sizeof(text));
}

static void say_another_version(struct raw *raw)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_WELCOME};
	uint8_t bytes[SMD_FRAME_SIZE];

	smd_frame_encode(&frame, bytes);
	bytes[3] = 1;
	raw_write(raw, bytes, sizeof(bytes));
}

static void say_a_malformed_welcome(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, "abc", 3);
}

static void welcome_to_another_shard(struct raw *raw)
{
	send_welcome(raw, 1, 2);
}

static void say_a_result_first(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_RESULT}, NULL, 0);
}

/* ---- in answer to an INPUT, which raw->frame is ---- */

static void answer_with(struct raw *raw, struct smd_frame frame, size_t length)
{
	static const int32_t values[COUNT + 1];

	frame.kind = SMD_FRAME_RESULT;
	frame.window = 1;
	raw_send(raw, frame, values, length);
}

static void another_ordinal(struct raw *raw)
{
	struct smd_frame frame = raw->frame;

	frame.ordinal = 1;
	answer_with(raw, frame, 4 * COUNT);
}

static void a_result_twice(struct raw *raw)
{
	answer_with(raw, raw->frame, 4 * COUNT);
	answer_with(raw, raw->frame, 4 * COUNT);
}

static void another_chunk(struct raw *raw)
{
	struct smd_frame frame = raw->frame;

	frame.chunk = 7;
	answer_with(raw, frame, 4 * COUNT);
}

static void a_result_that_is_too_short(struct raw *raw)
{
	answer_with(raw, raw->frame, 4 * COUNT - 4);
}

static void a_result_that_is_too_long(struct raw *raw)
{
	answer_with(raw, raw->frame, 4 * COUNT + 4);
}

/* One that says that more follows, or (window 1) that it is the last one. */
static void say_piece(struct raw *raw, uint64_t first, uint64_t count, uint16_t window)
{
	struct smd_frame frame = raw->frame;
	static const int32_t values[COUNT + 1];

	frame.kind = SMD_FRAME_RESULT;
	frame.window = window;
	frame.offset += first;
	raw_send(raw, frame, values, 4 * count);
}

static void a_piece_that_is_all(struct raw *raw)
{
	say_piece(raw, 0, COUNT, 0);
}

static void a_piece_that_is_nothing(struct raw *raw)
{
	say_piece(raw, 0, 0, 0);
}

static void a_piece_of_half_an_element(struct raw *raw)
{
	struct smd_frame frame = raw->frame;

	frame.kind = SMD_FRAME_RESULT;
	frame.window = 0;
	raw_send(raw, frame, "12", 2);
}

static void pieces_with_a_gap(struct raw *raw)
{
	say_piece(raw, 0, 4, 0);
	say_piece(raw, 5, 4, 0);
}

static void pieces_that_overlap(struct raw *raw)
{
	say_piece(raw, 0, 4, 0);
	say_piece(raw, 3, COUNT - 4, 1);
}

static void pieces_that_end_early(struct raw *raw)
{
	say_piece(raw, 0, 4, 0);
	say_piece(raw, 4, COUNT - 5, 1);
}

static void pieces_that_are_too_much(struct raw *raw)
{
	say_piece(raw, 0, 4, 0);
	say_piece(raw, 4, COUNT - 3, 0);
}

static void a_frame_of_workers(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_INPUT}, NULL, 0);
}

static void a_second_welcome(struct raw *raw)
{
	send_welcome(raw, 0, 1);
}

static void a_malformed_abort(struct raw *raw)
{
	struct smd_frame frame = raw->frame;

	frame.kind = SMD_FRAME_ABORT;
	raw_send(raw, frame, "\0\0\0\0", 4);
}

static void half_a_result(struct raw *raw)
{
	struct smd_frame frame = raw->frame;
	uint8_t header[SMD_FRAME_SIZE];

	frame.kind = SMD_FRAME_RESULT;
	frame.window = 1;
	frame.length = 4 * COUNT;
	smd_frame_encode(&frame, header);
	raw_write(raw, header, sizeof(header));
	raw_write(raw, "1234", 4);
	CHECK(shutdown(raw->fd, SHUT_WR) == 0);
}

static const struct lie lies[] = {
#define GREETING(body, reason)                                                                     \
	{                                                                                          \
#body, body, NULL, -EPROTO, reason                                                 \
	}
#define ANSWER(body, err, reason)                                                                  \
	{                                                                                          \
#body, NULL, body, err, reason                                                     \
	}
	GREETING(say_what_is_no_frame, "frame: magic must be SMD, got 485454"),
	GREETING(say_another_version, "frame: version must be 6, got 1"),
	GREETING(say_a_malformed_welcome, "WELCOME: payload must be as specs/design/wire.md says"),
	GREETING(welcome_to_another_shard, "WELCOME: shard must be 0, got 1"),
	GREETING(say_a_result_first, "RESULT: must come after WELCOME"),
	ANSWER(say_what_is_no_frame, -EPROTO, "frame: magic must be SMD, got 485454"),
	ANSWER(another_ordinal, -EPROTO, "RESULT: ordinal must be 0 of 1 sent, got 1"),
	ANSWER(a_result_twice, -EPROTO, "RESULT: ordinal must be 1 of "),
	ANSWER(another_chunk, -EPROTO, "RESULT: chunk must be 0, got 7"),
	ANSWER(a_result_that_is_too_short, -EPROTO, "RESULT: length must be 64, got 60"),
	ANSWER(a_result_that_is_too_long, -EPROTO, "RESULT: length must be 64, got 68"),
	ANSWER(a_piece_that_is_all, -EPROTO,
		"RESULT: a piece must be whole elements and less than 64 bytes, got 64"),
	ANSWER(a_piece_that_is_nothing, -EPROTO,
		"RESULT: a piece must be whole elements and less than 64 bytes, got 0"),
	ANSWER(a_piece_of_half_an_element, -EPROTO,
		"RESULT: a piece must be whole elements and less than 64 bytes, got 2"),
	ANSWER(pieces_with_a_gap, -EPROTO, "RESULT: a piece must begin at element 4, got 5"),
	ANSWER(pieces_that_overlap, -EPROTO, "RESULT: a piece must begin at element 4, got 3"),
	ANSWER(pieces_that_end_early, -EPROTO, "RESULT: length must be 48, got 44"),
	ANSWER(pieces_that_are_too_much, -EPROTO,
		"RESULT: a piece must be whole elements and less than 48 bytes, got 52"),
	ANSWER(a_frame_of_workers, -EPROTO, "INPUT: must not be sent to a worker"),
	ANSWER(a_second_welcome, -EPROTO, "WELCOME: must come first and once"),
	ANSWER(a_malformed_abort, -EPROTO, "ABORT: payload must be as specs/design/wire.md says"),
	ANSWER(half_a_result, -ECONNRESET, "the other end closed the connection"),
};
#define NLIES (sizeof(lies) / sizeof(lies[0]))

static void assert_named(const struct false_server *server)
{
	char text[300];

	snprintf(text, sizeof(text), "reduction server %s was lost: %s", server->address,
		server->lie->reason);
	if (!strstr(smd_error_message(), text)) {
		fail_msg("expected \"%s\" in \"%s\"", text, smd_error_message());
	}
}

static int work(smd_context *context)
{
	int32_t values[COUNT] = {0};
	smd_comm *comm;
	int ret;

	assert_int_equal(smd_comm_create(context, "lied to", 1, 0, &comm), 0);
	do { /* a lie may come after what was true */
		ret = smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM);
	} while (ret == 0);
	smd_comm_destroy(comm);
	return ret;
}

static void a_server_that_lies_is_named(void **state)
{
	struct false_server server;
	const struct smd_context_options options = {
		.servers = server.address, .replica = "worker", .connect_timeout_s = 60};
	smd_context *context;
	int ret;

	server_start(&server, *state);
	ret = smd_context_create(&options, &context);
	if (!server.lie->greet) {
		assert_int_equal(ret, 0);
		ret = work(context);
	}
	assert_int_equal(ret, server.lie->err);
	assert_named(&server);
	if (!server.lie->greet) {
		smd_context_destroy(context);
	}
	server_stop(&server);
}

/* ---- a server that answers what it cannot have: the parts are still in the worker ---- */

enum { LARGE_CHUNK = 4 << 20, LARGE_WINDOW = 16 }; /* more than sockets hold */

static void *serve_early(void *arg)
{
	struct false_server *server = arg;
	struct raw raw = {.payload = malloc(SMD_CHUNK_LIMIT + 1)};
	const struct smd_welcome welcome = {
		.server_id = 1, .shards = 1, .chunk_bytes = LARGE_CHUNK, .weight = 100000};
	uint8_t payload[SMD_CONTROL_MAX];
	struct smd_frame frame;

	raw.fd = accept(server->listener, NULL, NULL);
	CHECK(raw.fd >= 0);
	raw_expect(&raw, SMD_FRAME_HELLO);
	raw_send(&raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
		smd_welcome_encode(&welcome, payload));
	raw_expect(&raw, SMD_FRAME_JOIN);
	frame = raw.frame;
	frame.kind = SMD_FRAME_JOINED;
	frame.window = LARGE_WINDOW;
	raw_send(&raw, frame, NULL, 0);
	raw_expect(&raw, SMD_FRAME_INPUT);
	frame = raw.frame;
	frame.kind = SMD_FRAME_RESULT;
	frame.window = LARGE_WINDOW;
	for (unsigned i = 0; i < LARGE_WINDOW; i++) { /* as many as were granted, and read none */
		raw_send(&raw, frame, raw.payload, raw.frame.length);
		frame.ordinal++;
		frame.chunk++;
	}
	while (recv(raw.fd, raw.payload, SMD_CHUNK_LIMIT, 0) > 0) {
	}
	raw_close(&raw);
	return NULL;
}

static void a_result_of_what_has_not_left_is_refused(void **state)
{
	const size_t count = (size_t)LARGE_CHUNK / 4 * LARGE_WINDOW;
	struct false_server server;
	const struct smd_context_options options = {
		.servers = server.address, .replica = "worker", .connect_timeout_s = 60};
	int32_t *values = calloc(count, sizeof(*values));
	smd_context *context;
	smd_comm *comm;

	(void)state;
	server_listen(&server);
	assert_int_equal(pthread_create(&server.thread, NULL, serve_early, &server), 0);
	assert_int_equal(smd_context_create(&options, &context), 0);
	assert_int_equal(smd_comm_create(context, "early", 1, 0, &comm), 0);
	assert_int_equal(smd_allreduce(comm, values, values, count, SMD_INT32, SMD_SUM), -EPROTO);
	assert_non_null(strstr(smd_error_message(), "must not come before the chunk has left"));
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	server_stop(&server);
	free(values);
}

int main(void)
{
	struct CMUnitTest tests[NLIES + 1];

	for (size_t i = 0; i < NLIES; i++) {
		tests[i] = (struct CMUnitTest){
			lies[i].name, a_server_that_lies_is_named, NULL, NULL, (void *)&lies[i]};
	}
	tests[NLIES] =
		(struct CMUnitTest)cmocka_unit_test(a_result_of_what_has_not_left_is_refused);
	setenv("SUMMAND_ZERO_BLOCKS", "off", 1); /* the servers here know no maps of them */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
