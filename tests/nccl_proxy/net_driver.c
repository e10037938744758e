/*
 * The net tables of the built library, called as NCCL's proxy calls them: connections between
 * processes, messages of all sizes, groups, many at once, and every way in which it can go wrong.
 *
 *   net_driver [--version=N] [SCENARIO...]
 *
 * NET_DRIVER_OVER=rdma in the environment: connections must be over that transport.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl_proxy/fleet.h"
#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/logbook.h"
#include "tests/nccl_proxy/net_call.h"
#include "tests/nccl_proxy/net_ends.h"
#include "tests/nccl_proxy/net_failures.h"

struct scenario {
	const char *name;
	int nnodes;
	unsigned killed;
	bool once; /* it takes long, and is alike in all versions */
	void (*body)(struct fleet_node *node, struct net *net);
};

/* What body() is given: a scenario with one version. */
struct run {
	const struct scenario *scenario;
	int version;
};

/* ---- scenarios ---- */

static void properties(struct fleet_node *node, struct net *net)
{
	struct nccl_props_v12 props;
	int ndev = 0;

	(void)node;
	CHECK_EQUAL(net_devices(net, &ndev), NCCL_SUCCESS);
	CHECK(ndev >= 1);
	CHECK_EQUAL(net_properties(net, 0, &props), NCCL_SUCCESS);
	CHECK(props.name && *props.name);
	CHECK(props.speed > 0 && props.max_comms > 0 && props.max_recvs == 8);
	CHECK_EQUAL(props.ptr_support, NCCL_PTR_HOST);
	CHECK(net_properties(net, ndev, &props) != NCCL_SUCCESS);
}

static const size_t sizes[] = {0, 1, 3, 64, 127, 4095, 4096, 4097, 16320, 16384, 65536, 65537,
	524288, 1000003, (4 << 20) - 1, (4 << 20) + 1, 12582912, 64 << 20};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

/* The longest of all once; over an RDMA device up to those of several chunks. */
static size_t count_sizes(int version)
{
	size_t nsizes = version == 12 ? NSIZES : NSIZES - 1;

	while (sizes[nsizes - 1] > fleet_share(8 << 20)) {
		nsizes--;
	}
	return nsizes;
}

static void ring_of_sizes(struct fleet_node *node, struct net *net)
{
	struct ends ends = connect_ring(node, net);
	size_t nsizes = count_sizes(net->version);
	size_t room = sizes[nsizes - 1] + 64;
	uint8_t *out = buffer(room);
	uint8_t *in = buffer(room);
	void *out_handle, *in_handle;

	CHECK_EQUAL(net_register(net, ends.send, out, room, &out_handle), NCCL_SUCCESS);
	CHECK_EQUAL(net_register(net, ends.recv, in, room, &in_handle), NCCL_SUCCESS);
	for (size_t i = 0; i < nsizes; i++) {
		void *send, *receive, *flush = net;
		int got = -1;
		size_t size = sizes[i];

		fleet_doing("ring, %zu bytes", size);
		fill(out, size, node->rank, (int)i);
		memset(in, 0xee, size + 64);
		start_receive(net, ends.recv, in, size + 1, 7, in_handle, &receive);
		start_send(net, ends.send, out, size, 7, out_handle, &send);
		finish_both(net, send, receive, &got);
		CHECK_EQUAL(got, size);
		check(in, size, size + 64, ends.from, (int)i);
		CHECK_EQUAL(net_iflush(net, ends.recv, 1, (void **)&in, &size, &in_handle, &flush),
			NCCL_SUCCESS);
		CHECK(!flush);
	}
	CHECK_EQUAL(net_deregister(net, ends.send, out_handle), NCCL_SUCCESS);
	CHECK_EQUAL(net_deregister(net, ends.recv, in_handle), NCCL_SUCCESS);
	close_ends(net, &ends);
	free(out);
	free(in);
}

/* Groups of receives; sends in any order of tags, some before their receives are posted. */
static void groups(struct fleet_node *node, struct net *net)
{
	enum { GROUP = 8, GROUPS = 4, BYTES = 70000 };
	struct ends ends = connect_ring(node, net);
	uint8_t *in = buffer((size_t)GROUPS * GROUP * BYTES);
	uint8_t *out = buffer((size_t)GROUPS * GROUP * BYTES);
	void *sends[GROUPS * GROUP], *receives[GROUPS];

	for (int g = 0; g < GROUPS; g++) {
		for (int i = 0; i < GROUP; i++) {
			int m = g * GROUP + (GROUP - 1 - i) * 3 % GROUP; /* 3 and 8: each once */
			size_t size = (size_t)BYTES - (size_t)m * 1000;

			fill(out + (size_t)m * BYTES, size, node->rank, m);
			start_send(net, ends.send, out + (size_t)m * BYTES, size, m % GROUP, NULL,
				&sends[m]);
		}
	}
	for (int g = 0; g < GROUPS; g++) {
		void *data[GROUP];
		size_t room[GROUP];
		int tags[GROUP];
		void *handles[GROUP] = {NULL};

		for (int i = 0; i < GROUP; i++) {
			data[i] = in + (size_t)(g * GROUP + i) * BYTES;
			room[i] = BYTES;
			tags[i] = i;
		}
		receives[g] = g % 2 ? NCCL_OPTIONAL_RECV_COMPLETION : NULL;
		CHECK_EQUAL(
			net_irecv(net, ends.recv, GROUP, data, room, tags, handles, &receives[g]),
			NCCL_SUCCESS);
		CHECK(receives[g]);
	}
	for (int g = GROUPS - 1; g >= 0; g--) { /* in another order, too */
		int got[GROUP];
		double end = now() + WAIT_S * fleet_slowness();
		int received = 0;

		while (!received) { /* nobody else moves our sends */
			int sent;

			CHECK_EQUAL(net_test(net, receives[g], &received, got), NCCL_SUCCESS);
			for (int m = 0; m < GROUPS * GROUP; m++) {
				if (sends[m]) {
					CHECK_EQUAL(
						net_test(net, sends[m], &sent, NULL), NCCL_SUCCESS);
					sends[m] = sent ? NULL : sends[m];
				}
			}
			CHECK(now() < end);
		}
		for (int i = 0; i < GROUP; i++) {
			int m = g * GROUP + i;
			size_t size = (size_t)BYTES - (size_t)m * 1000;

			CHECK_EQUAL(got[i], size);
			check(in + (size_t)m * BYTES, size, BYTES, ends.from, m);
		}
	}
	for (int m = 0; m < GROUPS * GROUP; m++) {
		if (sends[m]) {
			CHECK_EQUAL(finish(net, sends[m], NULL), NCCL_SUCCESS);
		}
	}
	fleet_barrier(node);
	close_ends(net, &ends);
	free(in);
	free(out);
}

/* Sends whose receives are not posted must not keep out one whose receive is. */
static void unmatched_sends(struct fleet_node *node, struct net *net)
{
	enum { OTHERS = 40, TAG = 100 };
	struct ends ends = connect_ring(node, net);
	int out[OTHERS + 1], in[OTHERS + 1];
	void *sends[OTHERS + 1] = {NULL}, *receive, *send = NULL;
	double end = now() + WAIT_S * fleet_slowness();
	int begun = 0, sent = 0, received = 0;

	for (int i = 0; i <= OTHERS; i++) {
		out[i] = node->rank * 1000 + i;
	}
	start_receive(net, ends.recv, &in[OTHERS], sizeof(int), TAG, NULL, &receive);
	do { /* as many as are taken */
		CHECK_EQUAL(net_isend(net, ends.send, &out[begun], sizeof(int), begun, NULL,
				    &sends[begun]),
			NCCL_SUCCESS);
	} while (sends[begun] && ++begun < OTHERS);
	CHECK(begun >= 32);
	while (!received || !sent) { /* the receive is posted while it is tested */
		if (!received) {
			CHECK_EQUAL(net_test(net, receive, &received, NULL), NCCL_SUCCESS);
		}
		if (!send) {
			CHECK_EQUAL(net_isend(net, ends.send, &out[OTHERS], sizeof(int), TAG, NULL,
					    &send),
				NCCL_SUCCESS);
		} else if (!sent) {
			CHECK_EQUAL(net_test(net, send, &sent, NULL), NCCL_SUCCESS);
		}
		CHECK(now() < end);
	}
	CHECK_EQUAL(in[OTHERS], ends.from * 1000 + OTHERS);
	for (int i = begun - 1; i >= 0; i--) {
		start_receive(net, ends.recv, &in[i], sizeof(int), i, NULL, &receive);
		finish_both(net, sends[i], receive, NULL);
		CHECK_EQUAL(in[i], ends.from * 1000 + i);
	}
	fleet_barrier(node);
	close_ends(net, &ends);
}

/* What a second thread registers again and again, as NCCL's proxy service does on shared comms. */
struct registering {
	const struct net *net;
	const struct ends *ends;
	uint8_t *shared; /* that messages are sent from, too */
	size_t size;
	atomic_bool stop;
};

static void *register_again(void *argument)
{
	struct registering *registering = argument;
	const struct net *net = registering->net;
	uint8_t *own = buffer(registering->size);

	do {
		void *own_handle, *shared_handle;

		CHECK_EQUAL(net_register(net, registering->ends->send, registering->shared,
				    registering->size, &shared_handle),
			NCCL_SUCCESS);
		CHECK_EQUAL(net_register(net, registering->ends->recv, own, registering->size,
				    &own_handle),
			NCCL_SUCCESS);
		CHECK_EQUAL(
			net_deregister(net, registering->ends->send, shared_handle), NCCL_SUCCESS);
		CHECK_EQUAL(net_deregister(net, registering->ends->recv, own_handle), NCCL_SUCCESS);
		usleep(20);
	} while (!atomic_load(&registering->stop));
	free(own);
	return NULL;
}

static void registrations(struct fleet_node *node, struct net *net)
{
	enum { MESSAGES = 200, BYTES = 100000 };
	struct ends ends = connect_ring(node, net);
	uint8_t *out = buffer(BYTES), *in = buffer(BYTES);
	struct registering registering = {.net = net, .ends = &ends, .shared = out, .size = BYTES};
	void *out_handle, *in_handle, *send, *receive;
	pthread_t thread;

	CHECK_EQUAL(net_register(net, ends.send, out, BYTES, &out_handle), NCCL_SUCCESS);
	CHECK_EQUAL(net_register(net, ends.recv, in, BYTES, &in_handle), NCCL_SUCCESS);
	CHECK_EQUAL(pthread_create(&thread, NULL, register_again, &registering), 0);
	for (int m = 0; m < MESSAGES; m++) {
		fill(out, BYTES, node->rank, m);
		start_receive(net, ends.recv, in, BYTES, 1, in_handle, &receive);
		start_send(net, ends.send, out, BYTES, 1, out_handle, &send);
		finish_both(net, send, receive, NULL);
		check(in, BYTES, BYTES, ends.from, m);
	}
	atomic_store(&registering.stop, true);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(net_deregister(net, ends.send, out_handle), NCCL_SUCCESS);
	CHECK_EQUAL(net_deregister(net, ends.recv, in_handle), NCCL_SUCCESS);
	fleet_barrier(node);
	close_ends(net, &ends);
	free(in);
	free(out);
}

/* Every node with every other, as many requests in flight as there may be. */
static void all_to_all(struct fleet_node *node, struct net *net)
{
	enum { MESSAGES = 100, BYTES = 10000 };
	const int n = node->nnodes;
	struct ends ends[FLEET_NODES_MAX];
	struct {
		void *send[MESSAGES];
		void *receive[MESSAGES];
		uint8_t *out, *in;
		int sent, received, sending, receiving;
	} with[FLEET_NODES_MAX];
	int left = 0;

	memset(with, 0, sizeof(with));
	for (int d = 1; d < n; d++) {
		ends[d] = connect_to(node, net, (node->rank + d) % n, (node->rank + n - d) % n);
		with[d].out = buffer((size_t)MESSAGES * BYTES);
		with[d].in = buffer((size_t)MESSAGES * BYTES);
		for (int m = 0; m < MESSAGES; m++) {
			fill(with[d].out + (size_t)m * BYTES, BYTES - (size_t)m, node->rank, m);
		}
		left++;
	}
	for (double end = now() + 3 * WAIT_S * fleet_slowness(); left;) {
		left = 0;
		for (int d = 1; d < n; d++) {
			int done;

			while (with[d].receiving < MESSAGES) {
				int m = with[d].receiving, tag = m;
				void *data = with[d].in + (size_t)m * BYTES;
				size_t size = BYTES;
				void *none = NULL;

				CHECK_EQUAL(net_irecv(net, ends[d].recv, 1, &data, &size, &tag,
						    &none, &with[d].receive[m]),
					NCCL_SUCCESS);
				if (!with[d].receive[m]) {
					CHECK(m - with[d].received >= 31); /* the window is full */
					break;
				}
				with[d].receiving++;
			}
			while (with[d].sending < MESSAGES) {
				int m = with[d].sending;

				CHECK_EQUAL(net_isend(net, ends[d].send,
						    with[d].out + (size_t)m * BYTES,
						    BYTES - (size_t)m, m, NULL, &with[d].send[m]),
					NCCL_SUCCESS);
				if (!with[d].send[m]) {
					CHECK(m - with[d].sent >= 31);
					break;
				}
				with[d].sending++;
			}
			while (with[d].received < with[d].receiving) {
				int m = with[d].received, size;

				CHECK_EQUAL(net_test(net, with[d].receive[m], &done, &size),
					NCCL_SUCCESS);
				if (!done) {
					break;
				}
				CHECK_EQUAL(size, BYTES - m);
				check(with[d].in + (size_t)m * BYTES, BYTES - (size_t)m, BYTES,
					ends[d].from, m);
				with[d].received++;
			}
			while (with[d].sent < with[d].sending) {
				CHECK_EQUAL(net_test(net, with[d].send[with[d].sent], &done, NULL),
					NCCL_SUCCESS);
				if (!done) {
					break;
				}
				with[d].sent++;
			}
			left += with[d].sent < MESSAGES || with[d].received < MESSAGES;
		}
		CHECK(now() < end);
	}
	fleet_barrier(node);
	for (int d = 1; d < n; d++) {
		close_ends(net, &ends[d]);
		free(with[d].in);
		free(with[d].out);
	}
}

/* More connections than a job has, each of which carries something. */
static void many_connections(struct fleet_node *node, struct net *net)
{
	enum { CONNECTIONS = 64 };
	struct ends ends[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++) {
		fleet_doing("connection %d", i);
		ends[i] = connect_ring(node, net);
	}
	for (int i = CONNECTIONS - 1; i >= 0; i--) {
		int out = node->rank * 1000 + i, in = -1, got;
		void *send, *receive;

		start_receive(net, ends[i].recv, &in, sizeof(in), 0, NULL, &receive);
		start_send(net, ends[i].send, &out, sizeof(out), 0, NULL, &send);
		finish_both(net, send, receive, &got);
		CHECK_EQUAL(got, sizeof(in));
		CHECK_EQUAL(in, ends[i].from * 1000 + i);
	}
	fleet_barrier(node);
	for (int i = 0; i < CONNECTIONS; i++) {
		close_ends(net, &ends[i]);
	}
}

static const struct scenario scenarios[] = {
	{"properties", 1, 0, false, properties},
	{"ring_of_sizes", 3, 0, false, ring_of_sizes},
	{"groups", 2, 0, false, groups},
	{"unmatched_sends", 2, 0, false, unmatched_sends},
	{"registrations", 2, 0, false, registrations},
	{"all_to_all", 4, 0, false, all_to_all},
	{"many_connections", 2, 0, false, many_connections},
	{"too_long", 2, 0, false, too_long},
	{"killed_peer", 2, 1 << 1, false, killed_peer},
	{"strangers", 2, 0, false, strangers},
	{"close_pending", 2, 0, false, close_pending},
	{"nobody", 1, 0, true, nobody},
};
#define NSCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* ---- runs ---- */

static void body(struct fleet_node *node)
{
	const struct run *run = node->argument;
	void *library = library_open();
	struct net net = {.version = run->version};

	net.table = library_table(library, "ncclNetPlugin", run->version);
	CHECK(net.table);
	CHECK_EQUAL(net_init(&net, logbook_write), NCCL_SUCCESS);
	run->scenario->body(node, &net);
	CHECK_EQUAL(net_finalize(&net), NCCL_SUCCESS);
	if (process_memory_watches()) { /* of RDMA, which stay */
		CHECK_EQUAL(dlclose(library), 0);
	} else {
		library_close(library);
	}
}

static bool chosen(const char *name, char **names)
{
	for (char **each = names; *each; each++) {
		if (strcmp(*each, name) == 0) {
			return true;
		}
	}
	return !*names;
}

int main(int argc, char **argv)
{
	int only = 0;
	int failed = 0;
	int ran = 0;

	if (argc > 1 && sscanf(argv[1], "--version=%d", &only) == 1) {
		argv++;
	}
	setenv("NCCL_COLLNET_ENABLE", "1", 1);
	setenv("SUMMAND_REDUCTION_SERVERS", "127.0.0.1:1", 1); /* which nobody asks */
	setenv("NCCL_SOCKET_IFNAME", "lo", 0);
	for (size_t s = 0; s < NSCENARIOS; s++) {
		char timeout[16];

		snprintf(timeout, sizeof(timeout), "%d",
			scenarios[s].body == nobody ? NOBODY_S : WAIT_S);
		setenv("SUMMAND_CONNECT_TIMEOUT", timeout, 1);
		for (int v = 0; v < NET_VERSIONS; v++) {
			struct run run = {&scenarios[s], net_versions[v]};
			const struct fleet fleet = {
				scenarios[s].nnodes, FLEET_S, scenarios[s].killed, body, &run};
			double begin = now();
			bool good;

			if ((only && only != net_versions[v]) ||
				(scenarios[s].once && v + 1 < NET_VERSIONS) ||
				!chosen(scenarios[s].name, argv + 1)) {
				continue;
			}
			ran++;
			good = fleet_run(&fleet);
			failed |= !good;
			printf("%s v%d: %s, %.2f s\n", scenarios[s].name, net_versions[v],
				good ? "ok" : "FAILED", now() - begin);
			fflush(stdout);
		}
	}
	if (ran == 0) {
		fprintf(stderr, "net_driver: a scenario of that name and version must be there\n");
		return 2;
	}
	return failed;
}
