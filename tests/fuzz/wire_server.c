/*
 * Any bytes at all as what workers say to a shard once it has let them in: it ends their lanes or
 * answers, and when they have gone nothing of them is left, neither a communicator nor a buffer.
 *
 * What begins like a frame is one worker's. Else the bytes are records: which of three workers (1
 * byte), a length (2), and so many bytes that it says. What is said before WELCOME is greeting.c's.
 * The shard runs on the test's own thread, so that a run can be repeated.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/engine/shard.h"
#include "reduction_server/transport/tcp/tcp.h"
#include "tests/fuzz/input.h"

enum { WORKERS = 3, CHUNK = 16384, BUFFERS = 32, INPUTS_MOST = 1000 /* of one shard */ };

/* The shard's thread, which does not begin before it is waited for: then it drains at once. */
static void *(*shard_main)(void *);
static void *shard_argument;

int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
	(void)attributes;
	*thread = pthread_self();
	shard_main = body;
	shard_argument = argument;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	(void)thread;
	(void)result;
	shard_main(shard_argument);
	return 0;
}

static void on_ended(void *owner)
{
	bool *ended = owner;

	*ended = true;
}

static struct smd_shard *start(bool *ended)
{
	static const struct smd_transport_ops *const no_pairs[] = {NULL};
	const struct smd_shard_config config = {
		.welcome = {.server_id = 1, .shards = 1, .chunk_bytes = CHUNK, .weight = 1000},
		.memory_bytes = BUFFERS * SMD_BUFFER_POOL_STRIDE(CHUNK),
		.window = 4,
		.late_s = 10,
		.forming_s = 60,
		.heartbeat_ms = 15000,
		.idle_s = 60,
		.idle_lanes = 8,
		.drain_s = 1,
		.greeting_s = 10,
		.transports = no_pairs,
		.pairs = no_pairs,
		.on_ended = on_ended,
		.owner = ended,
	};
	struct smd_error error = {""};
	struct smd_shard *shard;

	must_hold(smd_shard_start(&config, &shard, &error) == 0);
	return shard;
}

static void turn(struct smd_shard *shard)
{
	for (int i = 0; i < 2; i++) {
		event_base_loop(shard->base, EVLOOP_NONBLOCK);
	}
}

/* A worker that has said HELLO; what it says from now on goes into the socket that is returned. */
static int let_in(struct smd_shard *shard, int number)
{
	struct smd_handshake handshake = {.hello = {.flags = SMD_HELLO_ZEROS}};
	struct smd_hello *hello = &handshake.hello;
	struct tcp_lane *lane;
	int ends[2];

	snprintf(hello->replica, sizeof(hello->replica), "worker-%d", number);
	snprintf(hello->job, sizeof(hello->job), "job");
	must_hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	lane = smd_tcp_lane_create(ends[0]);
	must_hold(lane && smd_shard_give(shard, &lane->lane, &handshake) == 0);
	return ends[1];
}

/* What the shard answers is taken and not looked at. */
static void hear(int fd)
{
	static char said[1 << 16];

	while (recv(fd, said, sizeof(said), 0) > 0) {
	}
}

static void say(struct smd_shard *shard, int fd, const uint8_t *bytes, size_t length)
{
	(void)send(fd, bytes, length, MSG_NOSIGNAL); /* its lane may have ended */
	turn(shard);
	hear(fd);
}

static void say_records(
	struct smd_shard *shard, const int *fds, const uint8_t *bytes, size_t length)
{
	while (length >= 3) {
		size_t n = bytes[1] | (size_t)bytes[2] << 8;

		n = n < length - 3 ? n : length - 3;
		say(shard, fds[bytes[0] % WORKERS], bytes + 3, n);
		bytes += 3 + n;
		length -= 3 + n;
	}
}

static void check_nothing_left(const struct smd_shard *shard)
{
	must_hold(TAILQ_EMPTY(&shard->peers) && TAILQ_EMPTY(&shard->comms.list));
	must_hold(TAILQ_EMPTY(&shard->gone) && shard->resources.busy_slots == 0);
	must_hold(shard->resources.pool.reserved == 0);
	must_hold(shard->resources.pool.nfree == shard->resources.pool.total);
}

static void end(struct smd_shard *shard, const bool *ended)
{
	smd_shard_drain(shard, false);
	smd_shard_join(shard);
	must_hold(*ended);
	smd_shard_free(shard);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static struct smd_shard *shard;
	static unsigned inputs;
	static bool ended;
	int fds[WORKERS];

	setenv("SUMMAND_LOG", "error", 1);
	shard = shard ? shard : start(&ended);
	for (int i = 0; i < WORKERS; i++) {
		fds[i] = let_in(shard, i);
	}
	turn(shard);
	if (length && bytes[0] == 'S') {
		say(shard, fds[0], bytes, length);
	} else {
		say_records(shard, fds, bytes, length);
	}
	for (int i = 0; i < WORKERS; i++) {
		close(fds[i]);
		turn(shard);
	}
	check_nothing_left(shard);
	if (++inputs % INPUTS_MOST == 0) {
		end(shard, &ended);
		shard = NULL;
	}
	return 0;
}
