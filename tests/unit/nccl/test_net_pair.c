/*
 * Point-to-point connections whose lane is made over another (PAIR): the two ends of the plugin come
 * to it, try it again, and let in nobody who does otherwise. The transport is one of tests
 * (transport/testing/carried.h); over RDMA the machine of tests/rdma shows the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/testing/carried.h"
#include "reduction_server/wire/message.h"
#include "tests/unit/nccl/net_peer.h"
#include "worker/nccl_plugin/net/fabrics.h"
#include "worker/nccl_plugin/net/pair.h"

enum { LONG = 3 * SMD_NET_PIECE + 17 };

struct ends {
	uint8_t handle[NCCL_HANDLE_BYTES];
	void *listen;
	void *send;
	void *receive;
};

unsigned __real_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);

unsigned __wrap_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);
/* As "auto" has RDMA and TCP. */
unsigned __wrap_smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX])
{
	if (strcmp(name, "either") != 0) {
		return __real_smd_transport_select(name, out);
	}
	out[0] = smd_transport_find("carried");
	out[1] = smd_transport_find("tcp");
	return 2;
}

static int set_up(void **state)
{
	(void)state;
	smd_carried_trials = (struct smd_carried_trials){0};
	smd_net_forget_attempts();
	setenv("SUMMAND_TRANSPORT", "carried", 1);
	setenv("SUMMAND_NCCL_SOCKETS", "2", 1); /* which the lane that is made is not asked for */
	peer_said[0] = '\0';
	return 0;
}

static void ends_listen(struct ends *ends)
{
	memset(ends, 0, sizeof(*ends));
	assert_int_equal(smd_net_listen(0, ends->handle, &ends->listen), NCCL_SUCCESS);
}

/* What connect() says in the end. Of several receivers the last is kept. */
static int ends_connect(struct ends *ends)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	int ret = NCCL_SUCCESS;

	while (ret == NCCL_SUCCESS && (!ends->send || !ends->receive)) {
		void *receive;

		assert_true(smd_clock_ns() < until);
		if (!ends->send) {
			ret = smd_net_connect(0, ends->handle, &ends->send);
		}
		assert_int_equal(smd_net_accept(ends->listen, &receive), NCCL_SUCCESS);
		if (receive && ends->receive) {
			assert_int_equal(smd_net_close_receive(ends->receive), NCCL_SUCCESS);
		}
		ends->receive = receive ? receive : ends->receive;
	}
	return ret;
}

static void ends_close(struct ends *ends)
{
	if (ends->send) {
		assert_int_equal(smd_net_close_send(ends->send), NCCL_SUCCESS);
	}
	if (ends->receive) {
		assert_int_equal(smd_net_close_receive(ends->receive), NCCL_SUCCESS);
	}
	assert_int_equal(smd_net_close_listen(ends->listen), NCCL_SUCCESS);
}

static void ends_move(struct ends *ends)
{
	static uint8_t from[LONG];
	static uint8_t to[LONG];
	void *receives[1] = {to};
	const size_t sizes[1] = {LONG};
	const int tags[1] = {7};
	void *mhandles[1] = {NULL};
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	int sent = 0;
	int received = 0;
	void *send;
	void *receive;

	for (size_t i = 0; i < LONG; i++) {
		from[i] = (uint8_t)(i * 31 + i / 251);
	}
	memset(to, 0, sizeof(to));
	assert_int_equal(smd_net_receive(ends->receive, 1, receives, sizes, tags, mhandles, &receive),
		NCCL_SUCCESS);
	assert_int_equal(smd_net_send(ends->send, from, LONG, 7, NULL, &send), NCCL_SUCCESS);
	while (!sent || !received) {
		assert_true(smd_clock_ns() < until);
		if (!sent) {
			assert_int_equal(smd_net_test(send, &sent, NULL), NCCL_SUCCESS);
		}
		if (!received) {
			assert_int_equal(smd_net_test(receive, &received, NULL), NCCL_SUCCESS);
		}
	}
	assert_memory_equal(from, to, LONG);
}

static void connections_go_over_what_is_made(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends);
	assert_int_equal(ends_connect(&ends), NCCL_SUCCESS);
	peer_assert_said("over carried, 1 lane");
	assert_int_equal(smd_carried_trials.most, 1);
	ends_move(&ends);
	ends_close(&ends);
}

static void what_times_out_is_tried_once_more(void **state)
{
	struct ends ends;

	(void)state;
	smd_carried_trials.time_out = 1;
	ends_listen(&ends);
	assert_int_equal(ends_connect(&ends), NCCL_SUCCESS);
	peer_assert_said("tries carried again: it is to time out");
	ends_close(&ends);
	smd_carried_trials.time_out = 2;
	ends_listen(&ends);
	assert_int_not_equal(ends_connect(&ends), NCCL_SUCCESS);
	ends_close(&ends);
}

static void connect_and_close(void)
{
	struct ends ends;

	peer_said[0] = '\0';
	ends_listen(&ends);
	assert_int_equal(ends_connect(&ends), NCCL_SUCCESS);
	ends_close(&ends);
}

/* A fabric may drop all that crosses, and NCCL makes many connections to each of many hosts: what
 * the first has found out the others need not. It is forgotten with NCCL's last communicator. */
static void where_nothing_comes_other_connections_are_spared(void **state)
{
	enum { ALL = 1000 };

	(void)state;
	setenv("SUMMAND_TRANSPORT", "either", 1);
	smd_carried_trials.time_out = ALL;
	connect_and_close();
	peer_assert_said("nothing comes over carried");
	peer_assert_said("over tcp, 2 lanes");
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	for (int i = 0; i < 3; i++) {
		connect_and_close();
		peer_assert_said("over tcp, 2 lanes");
	}
	assert_int_equal(ALL - smd_carried_trials.time_out, 2);
	smd_net_forget_attempts();
	smd_carried_trials.time_out = 0;
	connect_and_close();
	peer_assert_said("over carried, 1 lane");
}

/* Nor need others look for a path that one has not found. */
static void where_there_is_no_path_other_connections_are_spared(void **state)
{
	enum { ALL = 1000 };

	(void)state;
	setenv("SUMMAND_TRANSPORT", "either", 1);
	smd_carried_trials.no_path = ALL;
	for (int i = 0; i < 3; i++) {
		connect_and_close();
		peer_assert_said("over tcp, 2 lanes");
		assert_int_equal(ALL - smd_carried_trials.no_path, 2);
	}
}

/* One whose connections go over it may have one card that is cut off. */
static void a_host_that_was_reached_is_tried_more_often(void **state)
{
	enum { ALL = 1000, MORE = 10 };

	(void)state;
	setenv("SUMMAND_TRANSPORT", "either", 1);
	connect_and_close();
	peer_assert_said("over carried, 1 lane");
	smd_carried_trials.time_out = ALL;
	for (int i = 0; i < MORE; i++) {
		connect_and_close();
	}
	assert_int_equal(ALL - smd_carried_trials.time_out, 8 * 2);
	peer_assert_said("over tcp, 2 lanes");
}

/* What passes is no sign of a fabric that drops everything, however often it comes. */
static void what_is_in_vain_now_and_then_is_not_added_up(void **state)
{
	enum { TIMES = 12 };

	(void)state;
	setenv("SUMMAND_TRANSPORT", "either", 1);
	for (int i = 0; i < TIMES; i++) {
		connect_and_close();
		peer_assert_said("over carried, 1 lane");
		smd_carried_trials.time_out = 2;
		connect_and_close();
		peer_assert_said("over tcp, 2 lanes");
		assert_int_equal(smd_carried_trials.time_out, 0);
	}
}

/* NCCL does not always say when it ends. */
static void silence_is_forgotten_after_a_time(void **state)
{
	uint64_t before = smd_net_fabrics_forget_ns;

	(void)state;
	setenv("SUMMAND_TRANSPORT", "either", 1);
	smd_carried_trials.time_out = 2;
	connect_and_close();
	connect_and_close();
	peer_assert_said("over tcp, 2 lanes");
	smd_net_fabrics_forget_ns = 0;
	connect_and_close();
	peer_assert_said("over carried, 1 lane");
	smd_net_fabrics_forget_ns = before;
}

/* Neither end does without what was asked for. */
static void who_can_make_none_is_not_connected(void **state)
{
	struct ends ends;

	(void)state;
	for (unsigned end = 0; end < 2; end++) {
		smd_carried_trials.refuse = 1;
		ends_listen(&ends);
		assert_int_not_equal(ends_connect(&ends), NCCL_SUCCESS);
		assert_null(ends.receive);
		peer_assert_said("it is to be refused");
		ends_close(&ends);
	}
}

/* ---- by hand ---- */

/* The peer, which has asked for a lane over its own. */
static void peer_ask(struct receiver *receiver, unsigned lanes)
{
	struct smd_net_greet greet = {.nonce = receiver->handle.nonce,
		.connection = {{1, 2}},
		.lanes = lanes,
		.name = "offender"};
	uint8_t payload[SMD_CONTROL_MAX];

	peer_put_frame(receiver->fd,
		(struct smd_frame){.kind = SMD_FRAME_GREET, .window = SMD_NET_GREET_CARRIES},
		payload, smd_net_greet_encode(&greet, payload));
}

static void assert_dropped(struct receiver *receiver, const char *why)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;

	while (!strstr(peer_said, "dropped a connection")) {
		assert_true(smd_clock_ns() < until);
		assert_int_equal(smd_net_accept(receiver->listen, &receiver->comm), NCCL_SUCCESS);
		assert_null(receiver->comm);
	}
	peer_assert_said(why);
	receiver_close(receiver);
	peer_said[0] = '\0';
}

/* Its handle's port of the slot, without the lanes that have another's place. */
static void receiver_listen(struct receiver *receiver)
{
	receiver_open(receiver);
	assert_int_not_equal(receiver->handle.ports[0], 0);
}

static void who_does_otherwise_is_dropped(void **state)
{
	const struct smd_frame pair = {.kind = SMD_FRAME_PAIR};
	struct smd_pair answer = {.offer = {.length = 3, .bytes = "no"}};
	uint8_t payload[SMD_CONTROL_MAX];
	struct receiver receiver;
	size_t length = smd_pair_encode(&answer, payload);

	(void)state;
	receiver_listen(&receiver); /* an answer to nothing */
	peer_put_frame(receiver.fd, pair, payload, length);
	assert_dropped(&receiver, "PAIR: GREET must come first");

	receiver_listen(&receiver); /* more lanes than one */
	peer_ask(&receiver, 2);
	assert_dropped(&receiver, "there must be 1 lanes, got 2");

	receiver_listen(&receiver); /* another kind of answer, before there is one at all */
	peer_ask(&receiver, 1);
	peer_ask(&receiver, 1);
	assert_dropped(&receiver, "GREET must come first, and once");

	receiver_listen(&receiver); /* an offer that makes no sense */
	peer_ask(&receiver, 1);
	peer_put_frame(receiver.fd, pair, payload, length);
	assert_dropped(&receiver, "the offer must be");

	receiver_listen(&receiver); /* the end, in the middle of it */
	peer_ask(&receiver, 1);
	close(receiver.fd);
	receiver.fd = -1;
	assert_dropped(&receiver, "dropped a connection");

	setenv("SUMMAND_TRANSPORT", "tcp", 1);
	receiver_listen(&receiver); /* who makes none here */
	setenv("SUMMAND_NCCL_SOCKETS", "1", 1);
	peer_ask(&receiver, 1);
	assert_dropped(&receiver, "GREET: no lanes are made over tcp here");
}

#define TEST(test) cmocka_unit_test_setup(test, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connections_go_over_what_is_made),
		TEST(what_times_out_is_tried_once_more),
		TEST(where_nothing_comes_other_connections_are_spared),
		TEST(where_there_is_no_path_other_connections_are_spared),
		TEST(what_is_in_vain_now_and_then_is_not_added_up),
		TEST(silence_is_forgotten_after_a_time),
		TEST(a_host_that_was_reached_is_tried_more_often),
		TEST(who_can_make_none_is_not_connected),
		TEST(who_does_otherwise_is_dropped),
	};

	peer_open_plugin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
