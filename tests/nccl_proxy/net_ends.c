/* Connects, fills, checks, waits. */
#include "tests/nccl_proxy/net_ends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl_proxy/logbook.h"

double now(void)
{
	return fleet_now();
}

/* ---- connections ---- */

/* Each node sends to `to` and receives from `from`, by a handle that the bootstrap carries. */
struct ends connect_to(struct fleet_node *node, const struct net *net, int to, int from)
{
	char mine[NCCL_HANDLE_BYTES];
	char all[FLEET_NODES_MAX][NCCL_HANDLE_BYTES];
	struct ends ends = {.to = to, .from = from};
	double end = now() + WAIT_S * fleet_slowness();
	void *listen = NULL;

	fleet_doing("connecting to node %d, and from node %d", to, from);
	CHECK_EQUAL(net_listen(net, 0, mine, &listen), NCCL_SUCCESS);
	fleet_gather(node, mine, sizeof(mine), all);
	while (!ends.send || !ends.recv) {
		if (!ends.send) {
			CHECK_EQUAL(net_connect(net, 0, all[to], &ends.send), NCCL_SUCCESS);
		}
		if (!ends.recv) {
			CHECK_EQUAL(net_accept(net, listen, &ends.recv), NCCL_SUCCESS);
		}
		CHECK(now() < end);
	}
	CHECK_EQUAL(net_close_listen(net, listen), NCCL_SUCCESS);
	fleet_doing("connected");
	if (getenv("NET_DRIVER_OVER")) {
		char text[32];

		snprintf(text, sizeof(text), " over %s, ", getenv("NET_DRIVER_OVER"));
		CHECK(logbook_has(NCCL_LOG_INFO, text));
		CHECK(!logbook_has(NCCL_LOG_INFO, " tries "));
	}
	return ends;
}

struct ends connect_ring(struct fleet_node *node, const struct net *net)
{
	int n = node->nnodes;

	return connect_to(node, net, (node->rank + 1) % n, (node->rank + n - 1) % n);
}

void close_ends(const struct net *net, const struct ends *ends)
{
	fleet_doing("closing");
	CHECK_EQUAL(net_close_send(net, ends->send), NCCL_SUCCESS);
	CHECK_EQUAL(net_close_receive(net, ends->recv), NCCL_SUCCESS);
}

/* ---- messages ---- */

static uint8_t pattern(int rank, int message, size_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 20) + (size_t)rank * 31 +
			 (size_t)message * 5 + 1);
}

void fill(uint8_t *data, size_t size, int rank, int message)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = pattern(rank, message, i);
	}
}

/* The message is there, and what is behind it is as it was. */
void check(const uint8_t *data, size_t size, size_t room, int rank, int message)
{
	for (size_t i = 0; i < size; i++) {
		if (data[i] != pattern(rank, message, i)) {
			fleet_fail(__FILE__, __LINE__, "byte %zu of %zu is wrong", i, size);
		}
	}
	for (size_t i = size; i < room; i++) {
		CHECK_EQUAL(data[i], 0xee);
	}
}

uint8_t *buffer(size_t size)
{
	uint8_t *data = malloc(size ? size : 1);

	CHECK(data);
	memset(data, 0xee, size);
	return data;
}

void start_send(const struct net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
	void **request)
{
	double end = now() + WAIT_S * fleet_slowness();

	do {
		CHECK_EQUAL(net_isend(net, comm, data, size, tag, mhandle, request), NCCL_SUCCESS);
		CHECK(now() < end);
	} while (!*request);
}

void start_receive(const struct net *net, void *comm, void *data, size_t size, int tag,
	void *mhandle, void **request)
{
	double end = now() + WAIT_S * fleet_slowness();

	do {
		CHECK_EQUAL(net_irecv(net, comm, 1, &data, &size, &tag, &mhandle, request),
			NCCL_SUCCESS);
		CHECK(now() < end);
	} while (!*request);
}

/* Tests it until it is done, or fails: its result. */
int finish(const struct net *net, void *request, int *sizes)
{
	double end = now() + WAIT_S * fleet_slowness();
	int done = 1; /* must be written */

	do {
		int ret = net_test(net, request, &done, sizes);

		if (ret) {
			return ret;
		}
		CHECK(now() < end);
	} while (!done);
	return NCCL_SUCCESS;
}

/* Both at once, as a proxy does. */
void finish_both(const struct net *net, void *send, void *receive, int *size)
{
	double end = now() + WAIT_S * fleet_slowness();
	int sent = 0;
	int received = 0;

	while (!sent || !received) {
		if (!sent) {
			CHECK_EQUAL(net_test(net, send, &sent, NULL), NCCL_SUCCESS);
		}
		if (!received) {
			CHECK_EQUAL(net_test(net, receive, &received, size), NCCL_SUCCESS);
		}
		CHECK(now() < end);
	}
}
