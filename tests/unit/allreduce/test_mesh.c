/*
 * Meshes make a lane between each two ranks, on a loop of the test's, whoever else connects to
 * where they listen and whatever that one says; or say why they cannot (specs/design/exchange.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/address.h"
#include "reduction_server/transport/loop.h"
#include "reduction_server/wire/handshake.h"
#include "worker/libsummand/config.h"
#include "worker/libsummand/mesh.h"

enum { RANKS = 3, ID = 0x1234, MAKING_S = 5 };

/* ---- three ranks ---- */

struct meeting_rank {
	struct smd_config config;
	struct smd_mesh *mesh;
	unsigned made;   /* on_made(true), */
	unsigned failed; /* and on_made(false) */
	unsigned heard;  /* frames */
	unsigned lost;   /* lanes */
};

static struct event_base *base;
static struct meeting_rank ranks[RANKS];
static struct smd_mesh_place places[RANKS];

static void on_made(struct smd_mesh *mesh, bool all)
{
	struct meeting_rank *rank = mesh->owner;

	rank->made += all;
	rank->failed += !all;
}

static int on_header(struct smd_mesh_peer *peer, const struct smd_frame *frame, void **payload,
	struct smd_error *error)
{
	(void)peer;
	(void)frame;
	(void)payload;
	(void)error;
	return 0;
}

static int on_frame(struct smd_mesh_peer *peer, const struct smd_frame *frame, void *payload,
	struct smd_error *error)
{
	struct meeting_rank *rank = peer->mesh->owner;

	(void)payload;
	(void)error;
	assert_int_equal(frame->rank, peer->rank);
	rank->heard++;
	return 0;
}

static void on_lost(struct smd_mesh_peer *peer)
{
	struct meeting_rank *rank = peer->mesh->owner;

	rank->lost++;
}

static const struct smd_mesh_user user = {
	.on_made = on_made, .on_header = on_header, .on_frame = on_frame, .on_lost = on_lost};

static void create(unsigned r)
{
	struct smd_error error = {""};
	struct sockaddr_in address = {.sin_family = AF_INET};
	uint8_t bytes[16];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(smd_address_bytes((struct sockaddr *)&address, bytes));
	snprintf(ranks[r].config.replica, sizeof(ranks[r].config.replica), "replica-%u", r);
	ranks[r].mesh = smd_mesh_create(
		base, &ranks[r].config, bytes, RANKS, (uint16_t)r, &user, &ranks[r], &error);
	assert_string_equal(error.text, "");
	assert_non_null(ranks[r].mesh);
	places[r] = ranks[r].mesh->place;
}

static int set_up(void **state)
{
	(void)state;
	memset(ranks, 0, sizeof(ranks));
	base = event_base_new();
	for (unsigned r = 0; r < RANKS; r++) {
		create(r);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned r = 0; r < RANKS; r++) {
		smd_mesh_close(ranks[r].mesh);
		event_base_loop(base, EVLOOP_NONBLOCK);
		smd_mesh_free(ranks[r].mesh);
	}
	smd_loop_free(base);
	return 0;
}

static void connect_rank(unsigned r)
{
	smd_mesh_connect(ranks[r].mesh, ID, places);
}

static void connect_all(void)
{
	for (unsigned r = 0; r < RANKS; r++) {
		connect_rank(r);
	}
}

/* Turns the loop for so long. */
static void turn(unsigned ms)
{
	uint64_t end_ns = smd_clock_ns() + (uint64_t)ms * 1000000;

	do {
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(1000);
	} while (smd_clock_ns() < end_ns);
}

/* Turns the loop until that holds, or the test fails. It is looked at again in the end. */
#define TURN_UNTIL(condition)                                                                      \
	do {                                                                                       \
		uint64_t end_ns = smd_clock_ns() + 3 * MAKING_S * SMD_SECOND_NS;                   \
                                                                                                   \
		while (!(condition) && smd_clock_ns() < end_ns) {                                  \
			turn(2);                                                                   \
		}                                                                                  \
		assert_true(condition);                                                            \
	} while (0)

static unsigned concluded(void)
{
	unsigned n = 0;

	for (unsigned r = 0; r < RANKS; r++) {
		n += ranks[r].made + ranks[r].failed;
	}
	return n;
}

static void check_made(void)
{
	TURN_UNTIL(concluded() == RANKS);
	for (unsigned r = 0; r < RANKS; r++) {
		assert_int_equal(ranks[r].made, 1);
		assert_null(ranks[r].mesh->listener);
		for (unsigned k = 0; k < RANKS; k++) {
			char name[16];

			snprintf(name, sizeof(name), "replica-%u", k);
			assert_true(k == r ||
				    (ranks[r].mesh->peers[k].made && ranks[r].mesh->peers[k].lane));
			assert_true(k == r || strcmp(ranks[r].mesh->peers[k].name, name) == 0);
		}
	}
}

static void check_failed(unsigned r, const char *text)
{
	TURN_UNTIL(ranks[r].failed);
	assert_int_equal(ranks[r].made, 0);
	assert_int_equal(ranks[r].failed, 1);
	if (!strstr(ranks[r].mesh->why.text, text)) {
		fail_msg("rank %u: expected \"%s\" in \"%s\"", r, text, ranks[r].mesh->why.text);
	}
}

/* ---- lanes ---- */

static void say_to_all(unsigned r)
{
	for (unsigned k = 0; k < RANKS; k++) {
		struct smd_frame frame = {.kind = SMD_FRAME_MESH, .rank = (uint16_t)r};

		if (k != r) {
			assert_int_equal(smd_lane_send_control(
						 ranks[r].mesh->peers[k].lane, &frame, NULL, 0),
				0);
		}
	}
}

static void lanes_are_made_and_carry_frames(void **state)
{
	struct smd_lane_counts counts = {0};

	(void)state;
	connect_all();
	check_made();
	for (unsigned r = 0; r < RANKS; r++) {
		say_to_all(r);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		TURN_UNTIL(ranks[r].heard == RANKS - 1);
		assert_int_equal(ranks[r].lost, 0);
	}
	smd_mesh_close(ranks[1].mesh);
	TURN_UNTIL(ranks[0].lost && ranks[2].lost);
	assert_int_equal(ranks[0].lost, 1);
	assert_int_equal(ranks[1].lost, 0);
	assert_int_equal(ranks[2].lost, 1);
	assert_true(ranks[0].mesh->peers[1].lost && !ranks[0].mesh->peers[1].lane);
	assert_true(ranks[0].mesh->peers[1].why[0]);
	smd_mesh_count(ranks[1].mesh, &counts);
	assert_true(counts.bytes_sent > 2 * SMD_FRAME_SIZE);
}

static void who_calls_before_the_places_are_known_is_answered_then(void **state)
{
	(void)state;
	connect_rank(2);
	connect_rank(1);
	turn(100);
	assert_int_equal(concluded(), 0);
	connect_rank(0);
	check_made();
}

static void with_the_jobs_token_too(void **state)
{
	(void)state;
	for (unsigned r = 0; r < RANKS; r++) {
		snprintf(ranks[r].config.token, sizeof(ranks[r].config.token), "secret");
	}
	connect_all();
	check_made();
}

static void who_has_another_token_is_refused(void **state)
{
	(void)state;
	snprintf(ranks[1].config.token, sizeof(ranks[1].config.token), "wrong");
	connect_all();
	TURN_UNTIL(concluded() == RANKS);
	check_failed(1, "rank 1 cannot be connected with rank 0: ");
	check_failed(1, "rank 0 must prove that it has the job's token");
	check_failed(2, "rank 2 cannot be connected with rank 1: ");
	check_failed(0, "rank 0 must be connected with rank 1 within 5 s");
}

static void a_place_where_nobody_listens_is_named(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	places[0].port = ntohs(address.sin_port);
	connect_rank(2);
	check_failed(2, "rank 2 cannot be connected with rank 0: ");
	close(fd);
}

static void who_closes_before_all_lanes_are_there_is_named(void **state)
{
	(void)state;
	connect_rank(1);
	connect_rank(0);
	turn(100);
	smd_mesh_close(ranks[0].mesh);
	connect_rank(2);
	check_failed(2, "rank 2 cannot be connected with rank 0: ");
}

/* Others have agreed without this rank, which has given up. */
static void places_that_come_too_late_are_not_used(void **state)
{
	(void)state;
	smd_mesh_close(ranks[2].mesh);
	connect_rank(2);
	turn(100);
	assert_int_equal(concluded(), 0);
	assert_null(ranks[2].mesh->peers[0].lane);
}

/* ---- strangers ---- */

static int stranger(unsigned r)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(places[r].port);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), length);
}

static void say_frame(int fd, struct smd_frame frame, const uint8_t *payload, size_t length)
{
	uint8_t header[SMD_FRAME_SIZE];

	frame.length = (uint32_t)length;
	smd_frame_encode(&frame, header);
	say(fd, header, sizeof(header));
	say(fd, payload, length);
}

/* Closed, and told nothing. */
static void check_refused(int fd)
{
	uint8_t byte;
	ssize_t n;

	TURN_UNTIL((n = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK)) >= 0 || errno != EAGAIN);
	assert_int_not_equal(n, 1);
	close(fd);
}

static struct smd_mesh_words words_of(unsigned caller, unsigned callee)
{
	struct smd_mesh_words words = {
		.id = ID, .caller = (uint16_t)caller, .callee = (uint16_t)callee};

	snprintf(words.caller_name, sizeof(words.caller_name), "stranger");
	return words;
}

static void call_as(int fd, const struct smd_mesh_words *words)
{
	const struct smd_frame frame = {.kind = SMD_FRAME_MESH, .window = SMD_MESH_CALLS};
	uint8_t payload[SMD_CONTROL_MAX];

	say_frame(fd, frame, payload, smd_mesh_words_call(words, payload));
}

static void strangers_are_refused_and_harm_nobody(void **state)
{
	static const char http[SMD_FRAME_SIZE + 1] = "GET / HTTP/1.1\r\nHost: summand\r\n\r\n";
	const struct smd_frame hello = {.kind = SMD_FRAME_HELLO};
	const struct smd_frame proof = {.kind = SMD_FRAME_MESH, .window = SMD_MESH_PROVES};
	const struct smd_frame cut = {.kind = SMD_FRAME_MESH, .window = SMD_MESH_CALLS};
	static const uint8_t zeros[SMD_PROOF_SIZE];
	struct smd_mesh_words words = words_of(2, 0);
	int fd;

	(void)state;
	connect_rank(0);
	fd = stranger(0);
	say(fd, http, SMD_FRAME_SIZE);
	check_refused(fd);
	fd = stranger(0);
	say_frame(fd, hello, zeros, sizeof(zeros));
	check_refused(fd);
	fd = stranger(0);
	say_frame(fd, proof, zeros, sizeof(zeros)); /* before it has called */
	check_refused(fd);
	fd = stranger(0);
	say_frame(fd, cut, zeros, 7); /* fewer bytes than a call has */
	check_refused(fd);
	words.id++; /* another mesh */
	fd = stranger(0);
	call_as(fd, &words);
	check_refused(fd);
	words = words_of(0, 0); /* the rank itself */
	fd = stranger(0);
	call_as(fd, &words);
	check_refused(fd);
	words = words_of(RANKS, 0); /* no rank */
	fd = stranger(0);
	call_as(fd, &words);
	check_refused(fd);
	connect_rank(1);
	connect_rank(2);
	check_made();
}

/* It has all but the secret of the place. */
static void a_wrong_proof_is_refused(void **state)
{
	const struct smd_frame proof = {.kind = SMD_FRAME_MESH, .window = SMD_MESH_PROVES};
	struct smd_mesh_words words = words_of(2, 0);
	uint8_t answer[4096] = "";
	uint8_t payload[SMD_CONTROL_MAX];
	int fd;

	(void)state;
	connect_rank(0);
	fd = stranger(0);
	call_as(fd, &words);
	TURN_UNTIL(recv(fd, answer, 1, MSG_DONTWAIT | MSG_PEEK) > 0); /* it is answered, */
	assert_in_range(recv(fd, answer, sizeof(answer), 0), SMD_FRAME_SIZE, sizeof(answer) - 1);
	assert_memory_equal(answer, "SMD", 3);
	assert_int_equal(smd_mesh_words_proof(&words, true, "", places[1].secret, &words.proof), 0);
	say_frame(fd, proof, payload, smd_mesh_words_prove(&words, payload));
	check_refused(fd); /* and heard no further */
	assert_false(ranks[0].mesh->peers[2].made);
	connect_rank(1);
	connect_rank(2);
	check_made();
}

/* The place of rank 0 is the stranger's, who answers what it likes. */
static void a_false_place_is_refused(void **state)
{
	static const struct smd_frame frame = {.kind = SMD_FRAME_MESH, .window = SMD_MESH_ANSWERS};
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	struct smd_mesh_words words = words_of(2, 0);
	uint8_t payload[SMD_CONTROL_MAX];
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd;

	(void)state;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	places[0].port = ntohs(address.sin_port);
	connect_rank(2);
	fd = accept(listener, NULL, NULL);
	say_frame(fd, frame, payload, smd_mesh_words_answer(&words, payload));
	check_failed(2, "rank 0 must prove that it has the job's token");
	close(fd);
	close(listener);
}

static void who_says_nothing_makes_room(void **state)
{
	int fds[40];

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		fds[i] = stranger(0);
		turn(2);
	}
	assert_in_range(ranks[0].mesh->nguests, 1, 32);
	connect_all();
	check_made();
	for (unsigned i = 0; i < 40; i++) {
		close(fds[i]);
	}
}

/* After 5 s; and so does whoever has called, while the places are not known. */
static void who_says_nothing_for_long_is_closed(void **state)
{
	struct smd_mesh_words words = words_of(2, 0);
	int silent = stranger(0);
	int caller = stranger(0);
	int another;

	(void)state;
	call_as(caller, &words);
	turn((MAKING_S + 1) * 1000);
	another = stranger(0);
	check_refused(silent);
	check_refused(caller);
	assert_int_equal(ranks[0].mesh->nguests, 1);
	connect_all();
	check_made();
	close(another);
}

/* ---- words ---- */

static void words_are_read_as_they_were_said(void **state)
{
	struct smd_mesh_words words = words_of(2, 1);
	struct smd_mesh_words read = {0};
	struct smd_error error = {""};
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length;

	(void)state;
	memset(words.caller_nonce, 1, sizeof(words.caller_nonce));
	words.caller_flags = SMD_MESH_ZEROS;
	length = smd_mesh_words_call(&words, payload);
	assert_int_equal(smd_mesh_words_take_call(payload, length, &read, &error), 0);
	assert_int_equal(read.id, ID);
	assert_int_equal(read.caller, 2);
	assert_int_equal(read.caller_flags, SMD_MESH_ZEROS);
	assert_string_equal(read.caller_name, "stranger");
	assert_memory_equal(read.caller_nonce, words.caller_nonce, sizeof(words.caller_nonce));
	for (size_t cut = 0; cut < length; cut++) {
		assert_int_equal(smd_mesh_words_take_call(payload, cut, &read, NULL), -EPROTO);
	}
	assert_int_equal(smd_mesh_words_take_call(payload, length + 1, &read, &error), -EPROTO);
	assert_string_equal(
		error.text, "MESH: who connects must be as specs/design/exchange.md says");
	words.caller_flags = 2; /* there is no such thing to want */
	length = smd_mesh_words_call(&words, payload);
	assert_int_equal(smd_mesh_words_take_call(payload, length, &read, NULL), -EPROTO);
	words.callee_flags = SMD_MESH_ZEROS;
	length = smd_mesh_words_answer(&words, payload);
	assert_int_equal(smd_mesh_words_take_answer(payload, length, &read, &error), 0);
	assert_int_equal(read.callee_flags, SMD_MESH_ZEROS);
	words.callee_flags = 3;
	length = smd_mesh_words_answer(&words, payload);
	assert_int_equal(smd_mesh_words_take_answer(payload, length, &read, NULL), -EPROTO);
}

/* Each word that is signed matters, and whose proof it is. */
static void proofs_are_of_all_words(void **state)
{
	const struct smd_mesh_words words = words_of(2, 1);
	const uint8_t secret[SMD_NONCE_SIZE] = {1};
	const uint8_t other[SMD_NONCE_SIZE] = {2};
	struct smd_proof right;
	struct smd_proof proof;

	(void)state;
	assert_int_equal(smd_mesh_words_proof(&words, true, "token", secret, &right), 0);
	assert_int_equal(smd_mesh_words_proof(&words, false, "token", secret, &proof), 0);
	assert_false(smd_proof_equals(&right, &proof));
	assert_int_equal(smd_mesh_words_proof(&words, true, "token", other, &proof), 0);
	assert_false(smd_proof_equals(&right, &proof));
	assert_int_equal(smd_mesh_words_proof(&words, true, "tokem", secret, &proof), 0);
	assert_false(smd_proof_equals(&right, &proof));
	for (unsigned i = 0; i < 9; i++) {
		struct smd_mesh_words wrong = words;

		wrong.id += i == 0;
		wrong.caller = (uint16_t)(wrong.caller + (i == 1));
		wrong.callee = (uint16_t)(wrong.callee + (i == 2));
		wrong.caller_nonce[5] = i == 3;
		wrong.callee_nonce[31] = i == 4;
		wrong.caller_name[0] = (char)(wrong.caller_name[0] + (i == 5));
		wrong.callee_name[0] = i == 6 ? 'x' : wrong.callee_name[0];
		wrong.caller_flags = i == 7;
		wrong.callee_flags = i == 8;
		assert_int_equal(smd_mesh_words_proof(&wrong, true, "token", secret, &proof), 0);
		assert_false(smd_proof_equals(&right, &proof));
	}
}

#define OF_RANKS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OF_RANKS(lanes_are_made_and_carry_frames),
		OF_RANKS(who_calls_before_the_places_are_known_is_answered_then),
		OF_RANKS(with_the_jobs_token_too),
		OF_RANKS(who_has_another_token_is_refused),
		OF_RANKS(a_place_where_nobody_listens_is_named),
		OF_RANKS(who_closes_before_all_lanes_are_there_is_named),
		OF_RANKS(places_that_come_too_late_are_not_used),
		OF_RANKS(strangers_are_refused_and_harm_nobody),
		OF_RANKS(a_wrong_proof_is_refused),
		OF_RANKS(a_false_place_is_refused),
		OF_RANKS(who_says_nothing_makes_room),
		OF_RANKS(who_says_nothing_for_long_is_closed),
		cmocka_unit_test(words_are_read_as_they_were_said),
		cmocka_unit_test(proofs_are_of_all_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
