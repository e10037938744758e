/*
 * Any bytes at all as what comes to a process that listens for NCCL, and goes on as a receiver once
 * it has accepted: strangers are dropped, a peer that breaks the protocol ends its connection with
 * a result that is no success, and nothing past what was posted is written.
 *
 * The bytes are records: which of three lanes (1 byte), a length (2), and so many bytes on it. The
 * handle's nonce is always the same, so that inputs can know it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/transport/tcp/tcp.h"
#include "tests/fuzz/input.h"
#include "worker/nccl_plugin/net/comm.h"
#include "worker/nccl_plugin/net/net.h"

enum { LANES = 3, RECEIVES = 2, LARGE = 100, SMALL = 40 };

struct receiver {
	void *listen;
	void *comm; /* NULL: nobody has been accepted */
	void *requests[RECEIVES];
	uint8_t *
		large[RECEIVES]; /* of exactly that many bytes, so that a sanitizer sees one more */
	uint8_t *small[RECEIVES];
	int fds[LANES]; /* the peer's ends; -1: not connected */
};

static struct {
	smd_accept *on_accept;
	void *owner;
	struct smd_listener listener;
} listening;

int __wrap_smd_net_random(struct smd_net_key *key);

int __wrap_smd_net_random(struct smd_net_key *key)
{
	*key = (struct smd_net_key){{1, 2}};
	return 0;
}

/* ---- a transport that hands out sockets of the test's ---- */

static const struct smd_transport_ops socket_transport;

static int socket_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error)
{
	(void)base;
	(void)address;
	(void)error;
	listening.on_accept = on_accept;
	listening.owner = owner;
	listening.listener.ops = &socket_transport;
	*out = &listening.listener;
	strcpy(bound, "127.0.0.1:4000");
	return 0;
}

static void socket_listener_close(struct smd_listener *listener)
{
	must_hold(listener == &listening.listener);
	listening.on_accept = NULL;
}

static const struct smd_transport_ops socket_transport = {
	.name = "sockets",
	.preference = 1,
	.listen = socket_listen,
	.listener_close = socket_listener_close,
};

/* In place of the product's. */
const struct smd_transport_ops *const smd_transports[] = {&socket_transport, NULL};

static int connect_lane(void)
{
	struct tcp_lane *lane;
	int ends[2];

	must_hold(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	lane = smd_tcp_lane_create(ends[0]);
	must_hold(lane && listening.on_accept);
	listening.on_accept(listening.owner, &lane->lane, SMD_SHARD_UNKNOWN);
	return ends[1];
}

/* ---- the receiver ---- */

static void receive(struct receiver *receiver, int i)
{
	void *data[] = {receiver->large[i], receiver->small[i]};
	const size_t sizes[] = {LARGE, SMALL};
	const int tags[] = {7, 8};

	(void)smd_net_receive(receiver->comm, 2, data, sizes, tags, NULL, &receiver->requests[i]);
}

/* Takes what has come. */
static void progress(struct receiver *receiver)
{
	int done;

	if (!receiver->comm) {
		must_hold(smd_net_accept(receiver->listen, &receiver->comm) == NCCL_SUCCESS);
		for (int i = 0; receiver->comm && i < RECEIVES; i++) {
			receive(receiver, i);
		}
	}
	for (int i = 0; i < RECEIVES; i++) {
		int sizes[2] = {-1, -1};

		if (receiver->requests[i] &&
			(smd_net_test(receiver->requests[i], &done, sizes) || done)) {
			must_hold(sizes[0] <= LARGE && sizes[1] <= SMALL);
			receiver->requests[i] = NULL;
		}
	}
}

static void start(struct receiver *receiver)
{
	uint8_t handle[NCCL_HANDLE_BYTES];

	must_hold(smd_net_listen(0, handle, &receiver->listen) == NCCL_SUCCESS);
	for (int i = 0; i < LANES; i++) {
		receiver->fds[i] = -1;
	}
	for (int i = 0; i < RECEIVES; i++) {
		receiver->large[i] = malloc(LARGE);
		receiver->small[i] = malloc(SMALL);
		must_hold(receiver->large[i] && receiver->small[i]);
	}
}

static void hear_records(struct receiver *receiver, const uint8_t *bytes, size_t length)
{
	while (length >= 3) {
		int *fd = &receiver->fds[bytes[0] % LANES];
		size_t n = bytes[1] | (size_t)bytes[2] << 8;

		n = n < length - 3 ? n : length - 3;
		*fd = *fd < 0 ? connect_lane() : *fd;
		(void)send(*fd, bytes + 3, n, MSG_NOSIGNAL); /* its lane may have ended */
		progress(receiver);
		bytes += 3 + n;
		length -= 3 + n;
	}
}

static void stop(struct receiver *receiver)
{
	for (int i = 0; i < LANES; i++) {
		if (receiver->fds[i] >= 0) {
			close(receiver->fds[i]);
		}
	}
	progress(receiver);
	progress(receiver);
	must_hold(!receiver->requests[0] && !receiver->requests[1]);
	if (receiver->comm) {
		must_hold(smd_net_close_receive(receiver->comm) == NCCL_SUCCESS);
	}
	must_hold(smd_net_close_listen(receiver->listen) == NCCL_SUCCESS);
	for (int i = 0; i < RECEIVES; i++) {
		free(receiver->large[i]);
		free(receiver->small[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const char *const environment[][2] = {{"NCCL_SOCKET_IFNAME", "=lo"},
		{"NCCL_SOCKET_FAMILY", "AF_INET"}, {"SUMMAND_LOG", "error"},
		{"SUMMAND_NCCL_SOCKETS", "2"}, {"SUMMAND_TRANSPORT", "auto"},
		{"SUMMAND_REDUCTION_SERVERS", "127.0.0.1:1"}};
	struct receiver receiver = {.comm = NULL};

	for (size_t i = 0; i < sizeof(environment) / sizeof(environment[0]); i++) {
		setenv(environment[i][0], environment[i][1], 1);
	}
	start(&receiver);
	hear_records(&receiver, bytes, length);
	stop(&receiver);
	return 0;
}
