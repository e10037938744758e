/*
 * The handshake with servers that say what they should not: a worker with the job's token lets none
 * of them near its elements, and tells it no token.
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

#include "tests/unit/allreduce/capture.h"
#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/allreduce/raw.h"
#include "tests/unit/allreduce/token_worker.h"

enum { CHUNK = 4096 };

struct false_server {
	int listener;
	char address[64];
	void (*answer)(struct raw *raw); /* to HELLO; decodes it first */
	uint8_t heard[1 << 16];          /* all that the worker has said */
	size_t length;
	pthread_t thread;
};

static void hear(struct false_server *server, const struct raw *raw)
{
	CHECK(server->length + raw->frame.length < sizeof(server->heard));
	memcpy(server->heard + server->length, raw->payload, raw->frame.length);
	server->length += raw->frame.length;
}

static void *serve(void *arg)
{
	struct false_server *server = arg;
	struct raw raw = {.payload = malloc(SMD_CHUNK_LIMIT + 1)};

	raw.fd = accept(server->listener, NULL, NULL);
	CHECK(raw.fd >= 0);
	raw_expect(&raw, SMD_FRAME_HELLO);
	hear(server, &raw);
	CHECK(smd_hello_decode(raw.payload, raw.frame.length, &raw.handshake.hello, NULL) == 0);
	server->answer(&raw);
	while (raw_receive(&raw)) {
		hear(server, &raw);
	}
	raw_close(&raw);
	return NULL;
}

static void assert_not_taken_in(void (*answer)(struct raw *raw), int err, const char *text)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct false_server server = {.answer = answer};
	socklen_t size = sizeof(name);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server.listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(server.listener, 1), 0);
	assert_int_equal(getsockname(server.listener, (struct sockaddr *)&name, &size), 0);
	snprintf(server.address, sizeof(server.address), "127.0.0.1:%u", ntohs(name.sin_port));
	assert_int_equal(pthread_create(&server.thread, NULL, serve, &server), 0);
	assert_int_equal(token_work(server.address, "raw", TOKEN), err);
	token_assert_said(server.address);
	token_assert_said(text);
	pthread_join(server.thread, NULL);
	close(server.listener);
	assert_true(server.length > 0);
	assert_null(memmem(server.heard, server.length, TOKEN, strlen(TOKEN)));
}

static void send_challenge(struct raw *raw)
{
	uint8_t payload[SMD_CONTROL_MAX];

	CHECK(smd_nonce_draw(raw->handshake.challenge.nonce) == 0);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_CHALLENGE}, payload,
		smd_challenge_encode(&raw->handshake.challenge, payload));
}

static void send_welcome(struct raw *raw, const struct smd_proof *proof)
{
	struct smd_welcome welcome = {
		.server_id = 1, .shards = 1, .chunk_bytes = CHUNK, .weight = 1, .proved = proof};
	uint8_t payload[SMD_CONTROL_MAX];

	if (proof) {
		welcome.proof = *proof;
	}
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
		smd_welcome_encode(&welcome, payload));
}

static void welcome_at_once(struct raw *raw)
{
	send_welcome(raw, NULL);
}

static void proof_without_challenge(struct raw *raw)
{
	const struct smd_proof proof = {.bytes = "no nonce"};

	send_welcome(raw, &proof);
}

static void no_proof_after_challenge(struct raw *raw)
{
	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	send_welcome(raw, NULL);
}

static void the_workers_own_proof(struct raw *raw)
{
	struct smd_proof proof;

	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	CHECK(smd_proof_decode(raw->payload, raw->frame.length, &proof, NULL) == 0);
	send_welcome(raw, &proof);
}

static void a_proof_by_another_token(struct raw *raw)
{
	const struct smd_welcome welcome = {
		.server_id = 1, .shards = 1, .chunk_bytes = CHUNK, .weight = 1};
	struct smd_proof proof;

	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	CHECK(smd_handshake_prove_server(&raw->handshake, &welcome, "guessed", &proof) == 0);
	send_welcome(raw, &proof);
}

static void the_right_proof_of_another_welcome(struct raw *raw)
{
	const struct smd_welcome welcome = {
		.server_id = 1, .shards = 1, .chunk_bytes = 2 * CHUNK, .weight = 1};
	struct smd_proof proof;

	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	CHECK(smd_handshake_prove_server(&raw->handshake, &welcome, TOKEN, &proof) == 0);
	send_welcome(raw, &proof);
}

/* What a server of the job said on another lane, for another nonce of the worker's. */
static void a_recorded_handshake(struct raw *raw)
{
	const struct smd_welcome welcome = {
		.server_id = 1, .shards = 1, .chunk_bytes = CHUNK, .weight = 1};
	struct smd_proof proof;

	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	raw->handshake.hello.nonce[0] ^= 1;
	CHECK(smd_handshake_prove_server(&raw->handshake, &welcome, TOKEN, &proof) == 0);
	send_welcome(raw, &proof);
}

/* The right one, but for its last byte. */
static void a_proof_cut_short(struct raw *raw)
{
	struct smd_welcome welcome = {
		.server_id = 1, .shards = 1, .chunk_bytes = CHUNK, .weight = 1, .proved = true};
	uint8_t payload[SMD_CONTROL_MAX];

	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	CHECK(smd_handshake_prove_server(&raw->handshake, &welcome, TOKEN, &welcome.proof) == 0);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_WELCOME}, payload,
		smd_welcome_encode(&welcome, payload) - 1);
}

static void two_challenges(struct raw *raw)
{
	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	send_challenge(raw);
}

static void a_challenge_that_is_too_short(struct raw *raw)
{
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_CHALLENGE}, "abc", 3);
}

static void joined_before_welcome(struct raw *raw)
{
	send_challenge(raw);
	raw_expect(raw, SMD_FRAME_PROOF);
	raw_send(raw, (struct smd_frame){.kind = SMD_FRAME_JOINED, .window = 1}, NULL, 0);
}

static void false_servers_are_not_believed(void **state)
{
	static const char no_proof[] = "does not show that it has the job's token";
	static const char wrong[] = "says that it has the job's token and has not";

	(void)state;
	assert_not_taken_in(welcome_at_once, -EACCES, no_proof);
	assert_not_taken_in(proof_without_challenge, -EACCES, no_proof);
	assert_not_taken_in(no_proof_after_challenge, -EACCES, no_proof);
	assert_not_taken_in(the_workers_own_proof, -EACCES, wrong);
	assert_not_taken_in(a_proof_by_another_token, -EACCES, wrong);
	assert_not_taken_in(the_right_proof_of_another_welcome, -EACCES, wrong);
	assert_not_taken_in(a_recorded_handshake, -EACCES, wrong);
	assert_not_taken_in(a_proof_cut_short, -EPROTO, "WELCOME: payload must be");
	assert_not_taken_in(two_challenges, -EPROTO, "CHALLENGE: must come once");
	assert_not_taken_in(a_challenge_that_is_too_short, -EPROTO, "CHALLENGE: payload must be");
	assert_not_taken_in(joined_before_welcome, -EPROTO, "JOINED: must come after WELCOME");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(false_servers_are_not_believed),
	};

	return cmocka_run_group_tests(tests, capture_set_up, capture_tear_down);
}
