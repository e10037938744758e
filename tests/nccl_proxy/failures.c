/* Scenarios in which all-reduces are in flight, and something ends. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/logbook.h"
#include "tests/nccl_proxy/scenarios.h"
#include "tests/nccl_proxy/servers.h"
#include "tests/nccl_proxy/stream.h"

#define LIST_VARIABLE "SUMMAND_REDUCTION_SERVERS"

enum { NODES = 3, SLOTS = 8, WITHHOLDER = 2 };

static const struct proxy_shape shape = {
	.comm_id = 1, .slots = SLOTS, .slot_bytes = (size_t)1 << 20};
static const struct proxy_shape again_shape = {.comm_id = 2, .slots = 4, .slot_bytes = 64 << 10};
static const struct proxy_shape other_shape = {.comm_id = 3, .slots = 4, .slot_bytes = 64 << 10};

static void choose_whole(const struct stream *stream, unsigned index, struct proxy_op *op)
{
	op->dtype = NCCL_FLOAT32;
	op->op = NCCL_SUM;
	op->count = fleet_share(stream->proxy->shape.slot_bytes / 4);
	op->seed = index;
}

static struct stream stream_of(struct proxy *proxy, unsigned total)
{
	return (struct stream){.proxy = proxy,
		.total = total,
		.choose = choose_whole,
		.dice = (uint64_t)proxy->rank + 1};
}

static void check_blame(int result)
{
	if (result != NCCL_REMOTE_ERROR && result != NCCL_SYSTEM_ERROR) {
		fleet_fail(__FILE__, __LINE__, "the result must blame another process, got %d",
			result);
	}
}

/* As the proxy goes on until a call fails; `culprit` is named then. */
static void work_until_failure(struct proxy *proxy, const char *culprit)
{
	struct proxy_op ops[SLOTS] = {{0}};
	int result = NCCL_SUCCESS;

	for (unsigned i = 0; result == NCCL_SUCCESS; i = (i + 1) % SLOTS) {
		ops[i].slot = i;
		ops[i].dtype = NCCL_FLOAT32;
		ops[i].count = fleet_share(1 << 18);
		result = ops[i].request ? proxy_test(proxy, &ops[i]) : proxy_start(proxy, &ops[i]);
		sched_yield();
	}
	fleet_doing("after the failure");
	check_blame(result);
	CHECK(logbook_has(NCCL_LOG_WARN, culprit));
}

/* What NCCL does after an abort. */
static void drop(struct proxy *proxy, const struct fleet_node *node)
{
	proxy_deregister(proxy, node->rank % 2 ? PROXY_SEND : PROXY_RECEIVE);
	proxy_close(proxy);
}

/* A new communicator in the same process. */
static void work_again(
	struct fleet_node *node, struct collnet *collnet, const struct proxy_shape *with)
{
	struct proxy proxy;
	struct stream stream;

	proxy_open(&proxy, collnet, node, with);
	if (proxy.rank >= 0) {
		stream = stream_of(&proxy, 12);
		stream_finish(&stream);
		drop(&proxy, node);
	}
}

/* Starts so many that, while one node starts none, all of them are in flight. */
static void begin(struct proxy *proxy, struct stream *stream)
{
	*stream = stream_of(proxy, proxy->rank == WITHHOLDER ? 0 : SLOTS);
	stream_start(stream);
}

/* ---- a server ---- */

struct server_death {
	struct servers servers;
	struct servers spare;
	int signal_number;
};

static void lose_server(struct fleet_node *node)
{
	const struct server_death *death = node->argument;
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	struct stream stream;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&proxy, &collnet, node, &shape);
	begin(&proxy, &stream);
	fleet_barrier(node);
	if (node->rank == 0) {
		servers_signal(&death->servers, 1, death->signal_number);
	}
	if (node->rank == WITHHOLDER) {
		stream = stream_of(&proxy, SLOTS);
	}
	stream_finish(&stream); /* the other server takes over what was in flight */
	CHECK(logbook_has(NCCL_LOG_WARN, death->servers.addresses[1]));
	stream = stream_of(&proxy, 2 * SLOTS);
	stream_finish(&stream);
	fleet_barrier(node);
	if (node->rank == 0) {
		servers_signal(&death->servers, 0, SIGKILL);
	}
	work_until_failure(&proxy, death->servers.addresses[0]);
	setenv(LIST_VARIABLE, death->spare.list, 1);
	if (death->signal_number == SIGSTOP) { /* the new one comes first */
		work_again(node, &collnet, &again_shape);
	}
	drop(&proxy, node);
	work_again(node, &collnet, &again_shape);
	if (node->rank == 0) {
		servers_signal(&death->servers, 1, SIGKILL); /* it may only have been stopped */
	}
	library_close(library);
}

/* Over an emulated device not by SIGSTOP, which tests/rdma/inside/failures sends to servers too. */
bool server_dies(void)
{
	static struct server_death death;
	int ways = getenv("SUMMAND_TEST_RDMA") ? 1 : 2;
	bool good = true;

	setenv("SUMMAND_HEARTBEAT_LIMIT", "3", 1);
	for (int i = 0; i < ways && good; i++) {
		death.signal_number = i ? SIGSTOP : SIGKILL;
		servers_start(&death.servers, 2);
		servers_start(&death.spare, 1);
		setenv(LIST_VARIABLE, death.servers.list, 1);
		good = fleet_run(&(struct fleet){
			.nnodes = NODES, .seconds = 40, .body = lose_server, .argument = &death});
		servers_stop(&death.spare);
		servers_stop(&death.servers);
	}
	return good;
}

/* Kills `n` servers, from `first` on, with operations in flight that end well; and more follow. */
static void lose_in_flight(struct fleet_node *node, struct proxy *proxy,
	const struct servers *servers, int first, int n)
{
	struct stream stream;

	begin(proxy, &stream);
	fleet_barrier(node);
	for (int i = first; node->rank == 0 && i < first + n; i++) {
		servers_signal(servers, i, SIGKILL);
	}
	if (node->rank == WITHHOLDER) {
		stream = stream_of(proxy, SLOTS);
	}
	stream_finish(&stream);
	stream = stream_of(proxy, SLOTS);
	stream_finish(&stream);
	for (int i = first; i < first + n; i++) {
		CHECK(logbook_has(NCCL_LOG_WARN, servers->addresses[i]));
	}
}

/* Whether all nodes have said so, of each of their loops. */
static bool all_say(struct fleet_node *node, const char *text)
{
	bool all[NODES];
	bool mine = logbook_count(NCCL_LOG_WARN, text) >= atoi(getenv("SUMMAND_NCCL_LOOPS"));

	fleet_gather(node, &mine, sizeof(mine), all);
	return all[0] && all[1] && all[2];
}

/* Two die at once; one is started in its place, and serves alone when the third has died too. */
static void lose_two_and_regain_one(struct fleet_node *node)
{
	struct servers servers = *(const struct servers *)node->argument;
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	struct stream stream;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&proxy, &collnet, node, &shape);
	lose_in_flight(node, &proxy, &servers, 1, 2);
	logbook_clear(); /* so that it has room for what is waited for */
	fleet_barrier(node);
	if (node->rank == 0) {
		servers_restart(&servers, 1);
	}
	do {
		stream = stream_of(&proxy, SLOTS);
		stream_finish(&stream);
	} while (!all_say(node, "is there and serves again"));
	lose_in_flight(node, &proxy, &servers, 0, 1);
	fleet_barrier(node);
	drop(&proxy, node);
	library_close(library);
}

bool servers_return(void)
{
	return servers_run(
		(struct fleet){.nnodes = NODES, .seconds = 40, .body = lose_two_and_regain_one}, 3);
}

/* ---- a rank ---- */

static void lose_rank(struct fleet_node *node)
{
	static const int left[] = {0, 1};
	struct proxy_shape less = again_shape;
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	struct stream stream;

	less.members = left;
	less.nmembers = 2;
	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&proxy, &collnet, node, &shape);
	begin(&proxy, &stream);
	fleet_barrier(node);
	if (node->rank == WITHHOLDER) {
		raise(SIGKILL);
	}
	work_until_failure(&proxy, "node-2");
	drop(&proxy, node);
	logbook_clear();
	work_again(node, &collnet, &less);
	library_close(library);
}

bool rank_dies(void)
{
	return servers_run((struct fleet){.nnodes = NODES,
				   .seconds = 40,
				   .killed = 1u << WITHHOLDER,
				   .body = lose_rank},
		2);
}

/* ---- communicators that are closed with requests pending ---- */

struct closing {
	int node; /* that closes, and the others hear of it; -1: all do */
	const char *name;
};

static void close_pending(struct fleet_node *node)
{
	const struct closing *closing = node->argument;
	void *library = library_open();
	struct collnet collnet;
	struct proxy other;
	struct proxy proxy;
	struct stream stream;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&other, &collnet, node, &other_shape);
	proxy_open(&proxy, &collnet, node, &shape);
	begin(&proxy, &stream);
	fleet_barrier(node);
	if (closing->node >= 0 && node->rank != closing->node) {
		work_until_failure(&proxy, closing->name);
	}
	drop(&proxy, node);
	work_again(node, &collnet, &again_shape);
	stream = stream_of(&other, 20); /* on the same lanes, and not concerned */
	stream_finish(&stream);
	drop(&other, node);
	library_close(library);
}

bool close_with_pending(void)
{
	static const struct closing closings[] = {
		{1, "node-1"}, {-1, NULL}, {WITHHOLDER, "node-2"}};
	int ways = getenv("SUMMAND_TEST_RDMA") ? 2 : 3; /* to the device nodes are the same */
	bool good = true;

	for (int i = 0; i < ways && good; i++) {
		good = servers_run((struct fleet){.nnodes = NODES,
					   .seconds = 40,
					   .body = close_pending,
					   .argument = &closings[i]},
			2);
	}
	return good;
}

/* ---- the buffer goes while bytes move ---- */

enum { ROUNDS = 20 };

/* Every node gives the buffer back after as many turns as there have been rounds. */
static void unmap_in_flight(struct fleet_node *node)
{
	void *library = library_open();
	struct collnet collnet;
	struct proxy other;
	struct stream rest;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&other, &collnet, node, &other_shape);
	rest = stream_of(&other, 10 * ROUNDS);
	for (int round = 0; round < ROUNDS; round++) {
		struct proxy_shape this = shape;
		struct proxy proxy;
		struct stream stream;

		this.comm_id = 100 + (uint64_t)round;
		proxy_open(&proxy, &collnet, node, &this);
		stream = stream_of(&proxy, SLOTS);
		stream_start(&stream);
		stream_progress(&rest);
		for (int turn = 0; turn < round; turn++) {
			struct proxy_op *op = &stream.ops[turn % SLOTS];

			if (op->request && proxy_test(&proxy, op) != NCCL_SUCCESS) {
				break; /* another node was faster */
			}
		}
		drop(&proxy, node);
		fleet_barrier(node);
	}
	stream_finish(&rest);
	drop(&other, node);
	library_close(library);
}

bool buffer_goes_first(void)
{
	return servers_run(
		(struct fleet){.nnodes = NODES, .seconds = 40, .body = unmap_in_flight}, 2);
}

/* ---- servers that stall ---- */

static void *wake(void *arg)
{
	const struct servers *servers = arg;

	usleep(1000000);
	for (int i = 0; i < servers->n; i++) {
		servers_signal(servers, i, SIGCONT);
	}
	return NULL;
}

/* Sockets are full, and parts of chunks are on their way, when the buffer goes. */
static void drop_while_stalled(struct fleet_node *node)
{
	struct servers servers = *(const struct servers *)node->argument;
	void *library = library_open();
	struct collnet collnet;
	struct proxy other;
	struct proxy proxy;
	struct stream stream;
	pthread_t thread;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&other, &collnet, node, &other_shape);
	proxy_open(&proxy, &collnet, node, &shape);
	fleet_barrier(node);
	if (node->rank == 0) {
		for (int i = 0; i < servers.n; i++) {
			servers_signal(&servers, i, SIGSTOP);
		}
		CHECK(pthread_create(&thread, NULL, wake, &servers) == 0);
	}
	fleet_barrier(node);
	stream = stream_of(&proxy, SLOTS);
	stream_start(&stream);
	usleep(200000);
	drop(&proxy, node);
	stream = stream_of(&other, 20);
	stream_finish(&stream);
	drop(&other, node);
	if (node->rank == 0) {
		pthread_join(thread, NULL);
	}
	library_close(library);
}

bool servers_stall(void)
{
	return servers_run(
		(struct fleet){.nnodes = NODES, .seconds = 40, .body = drop_while_stalled}, 2);
}
