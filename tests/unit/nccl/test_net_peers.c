/*
 * What a point-to-point connection says to a peer that does not keep to the protocol: each offence
 * ends it with a sentence that names the peer and what must hold, and nothing is written where
 * nothing was posted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "tests/unit/nccl/net_peer.h"

/* ---- a receiver ---- */

/* The request fails, in time, and its text is said. */
static void receiver_refuses(struct receiver *receiver, const char *text)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	int ret = NCCL_SUCCESS;
	int done = 0;

	while (ret == NCCL_SUCCESS && smd_clock_ns() < until) {
		ret = smd_net_test(receiver->request, &done, NULL);
		assert_int_equal(done, 0);
	}
	assert_int_equal(ret, NCCL_REMOTE_ERROR);
	peer_assert_said("offender");
	peer_assert_said(text);
	receiver_close(receiver);
}

static void bad_data(void **state)
{
	static const uint8_t bytes[ROOM + 100];
	const struct {
		struct smd_frame frame;
		size_t length;
		const char *text;
	} offences[] = {
		{{.kind = SMD_FRAME_DATA, .window = 1}, 0, "must be for a posted receive"},
		{{.kind = SMD_FRAME_DATA, .window = 32}, 0, "must be for a posted receive"},
		{{.kind = SMD_FRAME_DATA, .ordinal = 1}, 0, "must be for a posted receive"},
		{data_frame(2, 10, 0), 10, "must be for a posted receive"},
		{data_frame(0, 100, 99), 2, "100 bytes are missing of 100, got 2 at 99"},
		{data_frame(0, 100, 101), 0, "got 0 at 101"},
		{data_frame(0, 100, UINT64_MAX), 1, "got 1 at 18446744073709551615"},
		{data_frame(0, 100, 0), 0, "got 0 at 0"},
		{data_frame(0, ROOM + 1, 0), 1, "must be empty, got 1 bytes of a message that "},
		{data_frame(1, 100, 50), 51, "got 51 at 50"},
		{{.kind = SMD_FRAME_POST}, 12, "POST: must not be sent to a receiver"},
		{{.kind = SMD_FRAME_GREET}, 12, "GREET: must not be sent to a receiver"},
		{{.kind = SMD_FRAME_INPUT}, 12, "INPUT: must not be sent to a receiver"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++) {
		struct receiver receiver;

		receiver_post(&receiver);
		peer_put_frame(receiver.fd, offences[i].frame, bytes, offences[i].length);
		receiver_refuses(&receiver, offences[i].text);
	}
}

/* The first of two frames is good. */
static void bad_sequel(void **state)
{
	static const uint8_t bytes[ROOM];
	const struct {
		struct smd_frame frame;
		size_t length;
		const char *text;
	} offences[] = {
		{data_frame(0, 101, 60), 10, "the message has 100 bytes, got 101"},
		{data_frame(0, 100, 0), 60, "40 bytes are missing of 100, got 60 at 0"},
		{data_frame(0, 10001, 0), 0, "the message has 100 bytes, got 10001"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++) {
		struct receiver receiver;

		receiver_post(&receiver);
		peer_put_frame(receiver.fd, data_frame(0, 100, 0), bytes, 60);
		peer_put_frame(receiver.fd, offences[i].frame, bytes, offences[i].length);
		receiver_refuses(&receiver, offences[i].text);
	}
}

/* Both messages come. */
static void receiver_finish(struct receiver *receiver)
{
	static const uint8_t bytes[100];
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	int done = 0;

	peer_put_frame(receiver->fd, data_frame(0, 100, 0), bytes, 100);
	peer_put_frame(receiver->fd, data_frame(1, 100, 0), bytes, 100);
	while (!done && smd_clock_ns() < until) {
		assert_int_equal(smd_net_test(receiver->request, &done, NULL), NCCL_SUCCESS);
	}
	assert_int_equal(done, 1);
}

static void message_twice(void **state)
{
	static const uint8_t bytes[100];
	struct receiver receiver;

	(void)state;
	receiver_post(&receiver);
	peer_put_frame(receiver.fd, data_frame(1, 100, 0), bytes, 100);
	peer_put_frame(receiver.fd, data_frame(1, 100, 0), bytes, 100);
	receiver_refuses(&receiver, "must be for a posted receive, got slot 0, ordinal 0, entry 1");
}

static void bad_greeting(void **state)
{
	static const char *const texts[] = {
		"GREET: the nonce must be the handle's",
		"GREET: there must be 1 lanes, got 2",
		"GREET: payload must be as specs/design/nccl-net.md says, got 3 bytes",
		"DATA: GREET must come first, and once",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint64_t until = smd_clock_ns() + PATIENCE_NS;
		struct receiver receiver;

		receiver_open(&receiver);
		if (i == 0) {
			receiver.handle.nonce.words[1]++;
		}
		if (i < 2) {
			peer_greet(receiver.fd, &receiver.handle, 0, i == 1 ? 2 : 1);
		} else {
			peer_put_frame(receiver.fd,
				(struct smd_frame){
					.kind = i == 2 ? SMD_FRAME_GREET : SMD_FRAME_DATA},
				"abc", 3);
		}
		while (!strstr(peer_said, "dropped") && smd_clock_ns() < until) {
			assert_int_equal(
				smd_net_accept(receiver.listen, &receiver.comm), NCCL_SUCCESS);
			assert_null(receiver.comm);
		}
		peer_assert_said(texts[i]);
		receiver_close(&receiver);
	}
}

/* ---- a sender ---- */

struct sender {
	int listener;
	int fd;
	uint8_t handle[NCCL_HANDLE_BYTES];
	void *comm;
	void *request;
	int ret; /* of connect() */
};

/* A handle of the peer, who does not listen yet. */
static void sender_bind(struct sender *sender)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t size = sizeof(name);
	struct smd_net_handle handle = {.lanes = 1, .nonce = {{3, 4}}};

	memset(sender, 0, sizeof(*sender));
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sender->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(sender->listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(sender->listener, (struct sockaddr *)&name, &size), 0);
	handle.ports[0] = ntohs(name.sin_port);
	memcpy(&handle.address, &name, sizeof(name));
	smd_net_handle_encode(&handle, sender->handle);
}

/* The sender has said GREET, and the peer has taken it. */
static void sender_open(struct sender *sender)
{
	uint8_t payload[SMD_CONTROL_MAX];

	sender_bind(sender);
	assert_int_equal(listen(sender->listener, 1), 0);
	assert_int_equal(smd_net_connect(0, sender->handle, &sender->comm), NCCL_SUCCESS);
	sender->fd = accept(sender->listener, NULL, NULL);
	assert_true(sender->fd >= 0);
	assert_int_equal(smd_net_connect(0, sender->handle, &sender->comm), NCCL_SUCCESS);
	assert_int_equal(peer_take_frame(sender->fd, payload).kind, SMD_FRAME_GREET);
	peer_said[0] = '\0';
}

static void sender_connect(struct sender *sender)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;

	while (!sender->comm && !sender->ret && smd_clock_ns() < until) {
		sender->ret = smd_net_connect(0, sender->handle, &sender->comm);
	}
}

static void sender_accept(struct sender *sender)
{
	uint8_t payload[SMD_CONTROL_MAX];
	size_t length = smd_net_accept_encode("offender", payload);

	peer_put_frame(sender->fd, (struct smd_frame){.kind = SMD_FRAME_ACCEPT}, payload, length);
	sender_connect(sender);
	assert_non_null(sender->comm);
}

static void sender_close(struct sender *sender)
{
	close(sender->fd);
	close(sender->listener);
	if (sender->comm) {
		assert_int_equal(smd_net_close_send(sender->comm), NCCL_SUCCESS);
	}
}

static struct smd_frame post_frame(unsigned slot, uint64_t ordinal)
{
	return (struct smd_frame){
		.kind = SMD_FRAME_POST, .window = (uint16_t)slot, .ordinal = ordinal};
}

/* A group of receives of that size, without a tag that is sent. */
static size_t post_payload(unsigned n, uint64_t size, uint8_t payload[SMD_CONTROL_MAX])
{
	struct smd_net_post post = {.n = n};

	for (unsigned i = 0; i < n; i++) {
		post.receives[i].size = size;
		post.receives[i].tag = 77;
	}
	return smd_net_post_encode(&post, payload);
}

static void bad_post(void **state)
{
	const struct {
		struct smd_frame frame;
		unsigned n; /* 0: three bytes */
		uint64_t size;
		unsigned again;
		const char *text;
	} offences[] = {
		{post_frame(0, 0), 0, 0, 0,
			"POST: payload must be as specs/design/nccl-net.md says"},
		{post_frame(0, 0), 1, (1ull << 30) + 1, 0, "POST: payload must be as"},
		{post_frame(32, 0), 1, 8, 0, "POST: slot must be below 32, got 32"},
		{post_frame(0, 1), 1, 8, 0, "POST: ordinal must be 0, got 1"},
		{post_frame(0, 0), 2, 8, 1, "slot 0 must be free, but 2 of its messages are not"},
		{{.kind = SMD_FRAME_DATA}, 1, 8, 0, "DATA: must not be sent to a sender"},
		{{.kind = SMD_FRAME_ACCEPT}, 1, 8, 0, "ACCEPT: must not be sent to a sender"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++) {
		uint64_t until = smd_clock_ns() + PATIENCE_NS;
		uint8_t payload[SMD_CONTROL_MAX] = {0};
		char message[3] = "abc";
		struct sender sender;
		int ret = NCCL_SUCCESS;
		size_t length;
		int done = 0;

		sender_open(&sender);
		sender_accept(&sender);
		assert_int_equal(smd_net_send(sender.comm, message, 3, 1, NULL, &sender.request),
			NCCL_SUCCESS);
		length = offences[i].n ? post_payload(offences[i].n, offences[i].size, payload) : 3;
		for (unsigned j = 0; j <= offences[i].again; j++) {
			peer_put_frame(sender.fd, offences[i].frame, payload, length);
		}
		while (ret == NCCL_SUCCESS && smd_clock_ns() < until) {
			ret = smd_net_test(sender.request, &done, NULL);
			assert_int_equal(done, 0);
		}
		assert_int_equal(ret, NCCL_REMOTE_ERROR);
		peer_assert_said("offender");
		peer_assert_said(offences[i].text);
		sender_close(&sender);
	}
}

static void bad_acceptance(void **state)
{
	static const struct {
		enum smd_frame_kind kind;
		const char *text;
	} offences[] = {
		{SMD_FRAME_ACCEPT, "ACCEPT: payload must be as specs/design/nccl-net.md says"},
		{SMD_FRAME_POST, "POST: ACCEPT must come first"},
		{SMD_FRAME_DATA, "DATA: ACCEPT must come first"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++) {
		struct sender sender;

		sender_open(&sender);
		peer_put_frame(sender.fd, (struct smd_frame){.kind = (uint8_t)offences[i].kind},
			"\377\377\377", 3);
		sender_connect(&sender);
		assert_int_equal(sender.ret, NCCL_REMOTE_ERROR);
		assert_null(sender.comm);
		peer_assert_said("cannot connect to 127.0.0.1:");
		peer_assert_said(offences[i].text);
		sender_close(&sender);
	}
}

/* Refused at first: the sender asks again, because its listener may be about to be reachable. */
static void late_listener(void **state)
{
	uint64_t until = smd_clock_ns() + PATIENCE_NS;
	uint64_t refused_until = smd_clock_ns() + 300000000;
	uint8_t payload[SMD_CONTROL_MAX];
	struct sender sender;

	(void)state;
	sender_bind(&sender);
	while (smd_clock_ns() < refused_until) {
		assert_int_equal(smd_net_connect(0, sender.handle, &sender.comm), NCCL_SUCCESS);
		assert_null(sender.comm);
	}
	assert_int_equal(listen(sender.listener, 1), 0);
	assert_int_equal(fcntl(sender.listener, F_SETFL, O_NONBLOCK), 0);
	sender.fd = -1;
	while (sender.fd < 0 && smd_clock_ns() < until) {
		assert_int_equal(smd_net_connect(0, sender.handle, &sender.comm), NCCL_SUCCESS);
		sender.fd = accept(sender.listener, NULL, NULL);
	}
	assert_true(sender.fd >= 0);
	assert_int_equal(smd_net_connect(0, sender.handle, &sender.comm), NCCL_SUCCESS);
	assert_int_equal(peer_take_frame(sender.fd, payload).kind, SMD_FRAME_GREET);
	sender_accept(&sender);
	sender_close(&sender);
}

/* ---- silence ---- */

/* Only calls of NCCL read, so a live process may leave its sockets full for as long as it likes. */
static void assert_bears_silence(const struct smd_net_comm *comm)
{
	const struct tcp_lane *tcp = (const struct tcp_lane *)comm->lanes[0].lane;
	socklen_t size = sizeof(int);
	int timeout = -1;
	int alive = -1;

	assert_int_equal(getsockopt(tcp->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size), 0);
	assert_int_equal(getsockopt(tcp->fd, SOL_SOCKET, SO_KEEPALIVE, &alive, &size), 0);
	assert_int_equal(timeout, 0);
	assert_int_equal(alive, 1); /* a machine that is gone is noticed */
}

static void peers_may_be_silent(void **state)
{
	struct receiver receiver;
	struct sender sender;

	(void)state;
	receiver_post(&receiver);
	assert_bears_silence(receiver.comm);
	receiver_close(&receiver);
	sender_open(&sender);
	sender_accept(&sender);
	assert_bears_silence(sender.comm);
	sender_close(&sender);
}

/* ---- registered memory ---- */

static struct {
	unsigned registered;
	unsigned deregistered;
} card;

static void count_register(
	struct smd_lane *lane, struct smd_extent memory, size_t largest, bool now)
{
	(void)now;
	(void)lane;
	(void)memory;
	(void)largest;
	card.registered++;
}

static void count_deregister(struct smd_lane *lane, struct smd_extent memory)
{
	(void)lane;
	(void)memory;
	card.deregistered++;
}

/* Two who share a connection may register the same memory: it is until the last is through. */
static void memory_is_counted(void **state)
{
	struct smd_transport_ops ops = *smd_transport_find("tcp");
	struct receiver receiver;
	struct smd_net_comm *comm;
	void *handles[2];

	(void)state;
	ops.register_memory = count_register;
	ops.deregister = count_deregister;
	memset(&card, 0, sizeof(card));
	receiver_post(&receiver);
	comm = receiver.comm;
	comm->lanes[0].lane->ops = &ops;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(
			smd_net_register(comm, receiver.data, ROOM, NCCL_PTR_HOST, &handles[i]),
			NCCL_SUCCESS);
	}
	assert_int_equal(card.registered, 1);
	assert_int_equal(smd_net_deregister(comm, handles[1]), NCCL_SUCCESS);
	assert_int_equal(card.deregistered, 0);
	assert_int_equal(comm->result, 0); /* though a request uses it */
	receiver_finish(&receiver);
	assert_int_equal(smd_net_deregister(comm, handles[0]), NCCL_SUCCESS);
	assert_int_equal(card.deregistered, 1);
	assert_int_equal(comm->result, 0);
	receiver_close(&receiver);
}

/* ---- handles ---- */

static void handles_of_both_families(void **state)
{
	struct smd_net_handle handle = {
		.nonce = {{1, UINT64_MAX}}, .lanes = 3, .ports = {4000, 4001, 4002, 4003}};
	struct smd_net_handle out;
	uint8_t bytes[SMD_NET_HANDLE_BYTES];
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&handle.address;

	(void)state;
	in6->sin6_family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, "fd00::7", &in6->sin6_addr), 1);
	smd_net_handle_encode(&handle, bytes);
	assert_int_equal(smd_net_handle_decode(bytes, &out, NULL), 0);
	assert_memory_equal(&out.address, &handle.address, sizeof(out.address));
	assert_memory_equal(&out.nonce, &handle.nonce, sizeof(out.nonce));
	assert_int_equal(out.lanes, 3);
	assert_memory_equal(out.ports, handle.ports, sizeof(out.ports));
	bytes[0] ^= 1;
	assert_int_not_equal(smd_net_handle_decode(bytes, &out, NULL), 0);
	bytes[0] ^= 1;
	bytes[20] = 17; /* lanes */
	assert_int_not_equal(smd_net_handle_decode(bytes, &out, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_data),
		cmocka_unit_test(bad_sequel),
		cmocka_unit_test(message_twice),
		cmocka_unit_test(bad_greeting),
		cmocka_unit_test(bad_post),
		cmocka_unit_test(bad_acceptance),
		cmocka_unit_test(late_listener),
		cmocka_unit_test(peers_may_be_silent),
		cmocka_unit_test(memory_is_counted),
		cmocka_unit_test(handles_of_both_families),
	};

	peer_open_plugin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
