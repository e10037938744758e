/* Messages that do not fit, peers that die, strangers, and connections that end too early. */
#include "tests/nccl_proxy/net_failures.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl_proxy/logbook.h"
#include "tests/nccl_proxy/net_ends.h"

/* A message that is longer than its receive: both ends say so, and the connection goes on. */
void too_long(struct fleet_node *node, struct net *net)
{
	struct ends ends = connect_ring(node, net);
	uint8_t *out = buffer(5000), *in = buffer(5000);
	void *send, *receive;
	double end = now() + WAIT_S * fleet_slowness();
	int send_ret = 0, receive_ret = 0, done;

	start_receive(net, ends.recv, in, 4999, 3, NULL, &receive);
	start_send(net, ends.send, out, 5000, 3, NULL, &send);
	while (!send_ret || !receive_ret) {
		send_ret = send_ret ? send_ret : net_test(net, send, &done, NULL);
		receive_ret = receive_ret ? receive_ret : net_test(net, receive, &done, NULL);
		CHECK(now() < end);
	}
	CHECK_EQUAL(send_ret, NCCL_INVALID_USAGE);
	CHECK_EQUAL(receive_ret, NCCL_INVALID_USAGE);
	CHECK(logbook_has(NCCL_LOG_WARN, "must fit its receive of 4999 bytes (tag 3), got 5000"));
	check(in, 0, 5000, 0, 0);
	start_receive(net, ends.recv, in, 5000, 3, NULL, &receive);
	fill(out, 5000, node->rank, 1);
	start_send(net, ends.send, out, 5000, 3, NULL, &send);
	finish_both(net, send, receive, NULL);
	check(in, 5000, 5000, ends.from, 1);
	fleet_barrier(node);
	close_ends(net, &ends);
	free(in);
	free(out);
}

/* Node 1 is killed; who waits for it hears of that. */
void killed_peer(struct fleet_node *node, struct net *net)
{
	enum { BYTES = 8 << 20 };
	struct ends ends = connect_ring(node, net);
	uint8_t *out = buffer(BYTES), *in = buffer(BYTES);
	void *send, *receive;

	start_receive(net, ends.recv, in, BYTES, 0, NULL, &receive);
	if (node->rank == 1) {
		raise(SIGKILL);
	}
	start_send(net, ends.send, out, BYTES, 0, NULL, &send);
	CHECK_EQUAL(finish(net, receive, NULL), NCCL_REMOTE_ERROR);
	CHECK_EQUAL(finish(net, send, NULL), NCCL_REMOTE_ERROR);
	CHECK(logbook_has(NCCL_LOG_WARN, "was lost: "));
	CHECK_EQUAL(net_isend(net, ends.send, out, 1, 0, NULL, &send), NCCL_REMOTE_ERROR);
	close_ends(net, &ends);
	free(in);
	free(out);
}

static int strange_bytes(const uint8_t *handle, const void *bytes, size_t size)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	uint16_t port;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	/* As in net_wire.c: 4 magic, 16 nonce, 2 lanes, 2 family, 2 port, 2 port, address. */
	memcpy(&port, handle + 24, 2);
	memcpy(&in.sin_addr, handle + 28, 4);
	in.sin_port = htons(port);
	CHECK(fd >= 0);
	CHECK_EQUAL(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	CHECK_EQUAL(send(fd, bytes, size, MSG_NOSIGNAL), size);
	return fd;
}

/* Connections that are none: nonsense, half a frame, nothing, the wrong nonce. */
void strangers(struct fleet_node *node, struct net *net)
{
	char mine[NCCL_HANDLE_BYTES], wrong[NCCL_HANDLE_BYTES];
	char all[FLEET_NODES_MAX][NCCL_HANDLE_BYTES];
	static const char nonsense[] = "GET / HTTP/1.1\r\nHost: somebody else's, and longer than a "
				       "header of ours is\r\n\r\n";
	void *listen = NULL, *send = NULL, *recv = NULL, *false_send = NULL;
	int fds[3] = {-1, -1, -1};
	double end = now() + WAIT_S * fleet_slowness();
	int ret = NCCL_SUCCESS;

	CHECK_EQUAL(net_listen(net, 0, mine, &listen), NCCL_SUCCESS);
	fleet_gather(node, mine, sizeof(mine), all);
	if (node->rank == 0) { /* they stay open; who listens must not wait for them */
		fds[0] = strange_bytes((uint8_t *)all[1], nonsense, sizeof(nonsense));
		fds[1] = strange_bytes((uint8_t *)all[1], "SMD\1\20", 5);
		fds[2] = strange_bytes((uint8_t *)all[1], "", 0);
		memcpy(wrong, all[1], sizeof(wrong));
		wrong[4] ^= 1;
	}
	fleet_barrier(node);
	while (node->rank == 0 ? !ret || !send : !recv) {
		if (node->rank == 0) {
			ret = ret ? ret : net_connect(net, 0, wrong, &false_send);
			CHECK(!false_send);
			if (!send) {
				CHECK_EQUAL(net_connect(net, 0, all[1], &send), NCCL_SUCCESS);
			}
		} else {
			CHECK_EQUAL(net_accept(net, listen, &recv), NCCL_SUCCESS);
		}
		CHECK(now() < end);
	}
	fleet_barrier(node); /* else one that closes at once takes the other's connection along */
	if (node->rank == 0) {
		CHECK_EQUAL(ret, NCCL_REMOTE_ERROR);
		CHECK(logbook_has(NCCL_LOG_WARN, "cannot connect to "));
		CHECK_EQUAL(net_close_send(net, send), NCCL_SUCCESS);
		for (int i = 0; i < 3; i++) {
			close(fds[i]);
		}
	} else {
		CHECK(logbook_has(NCCL_LOG_INFO, "magic must be SMD"));
		CHECK_EQUAL(net_close_receive(net, recv), NCCL_SUCCESS);
	}
	CHECK_EQUAL(net_close_listen(net, listen), NCCL_SUCCESS);
}

/* Who has pending requests may deregister, free the memory and close, in this order. */
void close_pending(struct fleet_node *node, struct net *net)
{
	enum { BYTES = 16 << 20 };
	struct ends ends = connect_ring(node, net);
	uint8_t *out = buffer(BYTES), *in = buffer(BYTES);
	void *send, *receive, *out_handle, *in_handle;
	int done;

	CHECK_EQUAL(net_register(net, ends.send, out, BYTES, &out_handle), NCCL_SUCCESS);
	CHECK_EQUAL(net_register(net, ends.recv, in, BYTES, &in_handle), NCCL_SUCCESS);
	start_receive(net, ends.recv, in, BYTES, 1, in_handle, &receive);
	start_send(net, ends.send, out, BYTES, node->rank % 2, out_handle, &send);
	fleet_barrier(node);
	for (int i = 0; i < 20; i++) {
		if (net_test(net, receive, &done, NULL) || done ||
			net_test(net, send, &done, NULL) || done) {
			break;
		}
	}
	CHECK_EQUAL(net_deregister(net, ends.send, out_handle), NCCL_SUCCESS);
	CHECK_EQUAL(net_deregister(net, ends.recv, in_handle), NCCL_SUCCESS);
	free(out);
	free(in);
	close_ends(net, &ends);
	ends = connect_ring(node, net); /* nothing is left of it */
	fleet_barrier(node);            /* the other node may still wait for the answer to its greeting */
	close_ends(net, &ends);
}

/*
 * NCCL may ask one end long before the other end's process gets there: who listens and who has
 * reached a listener wait for that. Only where nobody listens is there nothing to wait for.
 */
void nobody(struct fleet_node *node, struct net *net)
{
	char handle[NCCL_HANDLE_BYTES];
	void *listen = NULL, *send = NULL, *recv = NULL;
	double begin = now();
	int ret;

	(void)node;
	CHECK_EQUAL(net_listen(net, 0, handle, &listen), NCCL_SUCCESS);
	while (now() - begin < 2.5 * NOBODY_S) {
		CHECK_EQUAL(net_accept(net, listen, &recv), NCCL_SUCCESS);
		CHECK(!recv);
		usleep(1000);
	}
	for (begin = now(); now() - begin < 2.5 * NOBODY_S;) { /* it listens, and is not asked */
		CHECK_EQUAL(net_connect(net, 0, handle, &send), NCCL_SUCCESS);
		CHECK(!send);
		usleep(1000);
	}
	for (begin = now(); !send || !recv;) {
		if (!send) {
			CHECK_EQUAL(net_connect(net, 0, handle, &send), NCCL_SUCCESS);
		}
		if (!recv) {
			CHECK_EQUAL(net_accept(net, listen, &recv), NCCL_SUCCESS);
		}
		CHECK(now() - begin < WAIT_S * fleet_slowness());
	}
	CHECK_EQUAL(net_close_send(net, send), NCCL_SUCCESS);
	CHECK_EQUAL(net_close_receive(net, recv), NCCL_SUCCESS);
	CHECK_EQUAL(net_close_listen(net, listen), NCCL_SUCCESS);
	begin = now();
	do {
		ret = net_connect(net, 0, handle, &send);
		CHECK(!send && now() - begin < WAIT_S * fleet_slowness());
		usleep(1000);
	} while (ret == NCCL_SUCCESS);
	CHECK_EQUAL(ret, NCCL_REMOTE_ERROR);
	CHECK(logbook_has(NCCL_LOG_WARN, "within 2 s: Connection refused"));
	memset(handle, 0, sizeof(handle));
	CHECK_EQUAL(net_connect(net, 0, handle, &send), NCCL_INVALID_USAGE);
	CHECK(logbook_has(NCCL_LOG_WARN, "does not use this plugin"));
}
