/*
 * Any bytes at all as the first that a lane says to a reduction server: the greeter refuses it or
 * ends it with a reason, or hands it on with a HELLO within its bounds.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/engine/greeting.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "tests/fuzz/input.h"

enum { SHARDS = 4 };

static int on_hello(void *owner, struct smd_lane *lane, const struct smd_hello *hello)
{
	unsigned *taken = owner;

	must_hold(hello->shard < SHARDS && strcmp(hello->token, "token") == 0);
	must_hold(memchr(hello->replica, '\0', sizeof(hello->replica)) != NULL);
	smd_lane_close(lane);
	++*taken;
	return 0;
}

static void give(struct smd_greeter *greeter, const uint8_t *bytes, size_t length)
{
	struct tcp_lane *tcp;
	int ends[2];

	must_hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	must_hold(length == 0 || send(ends[1], bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
	must_hold(shutdown(ends[1], SHUT_WR) == 0);
	tcp = smd_tcp_lane_create(ends[0]);
	must_hold(tcp != NULL);
	smd_greeter_take(greeter, &tcp->lane);
	for (int i = 0; i < 4; i++) {
		event_base_loop(greeter->base, EVLOOP_NONBLOCK);
	}
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct event_base *base;
	static char token[] = "token";
	static const struct smd_tokens tokens = {.every = token};
	unsigned taken = 0;
	struct smd_greeter greeter = {
		.name = "server",
		.tokens = &tokens,
		.nshards = SHARDS,
		.shard = SMD_SHARD_UNKNOWN,
		.patience_s = 10,
		.on_hello = on_hello,
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
