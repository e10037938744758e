/*
 * Any bytes at all as what a lane says to a reduction server until it is greeted: the greeter
 * refuses it or ends it with a reason, or hands it on with a HELLO within its bounds, and then only
 * after a right proof.
 *
 * No input can hold that, because it depends on the server's nonce. A PROOF of nothing but zeros
 * stands for it.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/engine/greeting.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "tests/fuzz/input.h"

enum { SHARDS = 4 };

/* The other end of the lane. */
struct stranger {
	struct smd_greeter *greeter;
	int fd;
	struct smd_handshake handshake;
	bool proved;
};

static struct stranger stranger;

static int on_greeted(void *owner, struct smd_lane *lane, const struct smd_handshake *handshake)
{
	const struct smd_hello *hello = &handshake->hello;
	unsigned *taken = owner;

	must_hold(stranger.proved && hello->shard < SHARDS && hello->flags & SMD_HELLO_TOKEN);
	must_hold(memchr(hello->replica, '\0', sizeof(hello->replica)) != NULL);
	smd_lane_close(lane);
	++*taken;
	return 0;
}

static void turn(void)
{
	for (int i = 0; i < 4; i++) {
		event_base_loop(stranger.greeter->base, EVLOOP_NONBLOCK);
	}
}

static void say(const void *bytes, size_t length)
{
	(void)send(stranger.fd, bytes, length, MSG_NOSIGNAL); /* it may have gone */
}

/* The next frame must be the server's CHALLENGE, if it has said anything. */
static bool hear_challenge(void)
{
	uint8_t said[SMD_FRAME_SIZE + SMD_CONTROL_MAX];
	struct smd_frame frame;
	ssize_t got;

	turn();
	got = recv(stranger.fd, said, sizeof(said), MSG_DONTWAIT);
	return got == SMD_FRAME_SIZE + SMD_NONCE_SIZE &&
	       smd_frame_decode(said, &frame, NULL) == 0 && frame.kind == SMD_FRAME_CHALLENGE &&
	       smd_challenge_decode(said + SMD_FRAME_SIZE, frame.length,
		       &stranger.handshake.challenge, NULL) == 0;
}

static bool stands_for_the_right_one(const struct smd_frame *frame, const uint8_t *payload)
{
	static const uint8_t zeros[SMD_PROOF_SIZE];

	return frame->kind == SMD_FRAME_PROOF && frame->length == sizeof(zeros) &&
	       memcmp(payload, zeros, sizeof(zeros)) == 0;
}

/* A frame of the input, whole. */
static void say_frame(const struct smd_frame *frame, const uint8_t *bytes)
{
	const uint8_t *payload = bytes + SMD_FRAME_SIZE;
	struct smd_proof proof;

	if (stands_for_the_right_one(frame, payload) && hear_challenge()) {
		must_hold(smd_handshake_prove_worker(&stranger.handshake, "token", &proof) == 0);
		stranger.proved = true;
		say(bytes, SMD_FRAME_SIZE);
		say(proof.bytes, sizeof(proof.bytes));
		return;
	}
	if (frame->kind == SMD_FRAME_HELLO) {
		(void)smd_hello_decode(payload, frame->length, &stranger.handshake.hello, NULL);
	}
	say(bytes, SMD_FRAME_SIZE + frame->length);
}

static void say_input(const uint8_t *bytes, size_t length)
{
	struct smd_frame frame;

	while (length >= SMD_FRAME_SIZE && smd_frame_decode(bytes, &frame, NULL) == 0 &&
		frame.length <= length - SMD_FRAME_SIZE) {
		say_frame(&frame, bytes);
		bytes += SMD_FRAME_SIZE + frame.length;
		length -= SMD_FRAME_SIZE + frame.length;
	}
	say(bytes, length);
}

static void give(struct smd_greeter *greeter, const uint8_t *bytes, size_t length)
{
	struct tcp_lane *tcp;
	int ends[2];

	must_hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	tcp = smd_tcp_lane_create(ends[0]);
	must_hold(tcp != NULL);
	stranger = (struct stranger){.greeter = greeter, .fd = ends[1]};
	smd_greeter_take(greeter, &tcp->lane);
	say_input(bytes, length);
	must_hold(shutdown(ends[1], SHUT_WR) == 0);
	turn();
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static char token[] = "token";
	static const struct smd_tokens tokens = {.every = token};
	static struct event_base *base;
	unsigned taken = 0;
	struct smd_greeter greeter = {
		.name = "server",
		.tokens = &tokens,
		.nshards = SHARDS,
		.shard = SMD_SHARD_UNKNOWN,
		.patience_s = 10,
		.on_greeted = on_greeted,
		.owner = &taken,
	};

	setenv("SUMMAND_LOG", "error", 1);
	base = base ? base : event_base_new();
	must_hold(base != NULL);
	greeter.base = base;
	give(&greeter, bytes, length < 65536 ? length : 65536);
	must_hold(taken <= 1);
	smd_greeter_close(&greeter);
	event_base_loop(base, EVLOOP_NONBLOCK);
	return 0;
}
