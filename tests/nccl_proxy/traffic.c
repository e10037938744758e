/* Scenarios in which nothing fails. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/base/dtype.h"
#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/logbook.h"
#include "tests/nccl_proxy/scenarios.h"
#include "tests/nccl_proxy/servers.h"
#include "tests/nccl_proxy/stream.h"

/* Of types and reductions: all, one after the other. */
static void choose_any(const struct stream *stream, unsigned index, struct proxy_op *op)
{
	op->dtype = index % NCCL_DTYPE_COUNT;
	op->op = index / NCCL_DTYPE_COUNT % NCCL_OP_COUNT;
	op->count = 3001 + index;
	op->seed = stream->proxy->shape.comm_id * 1000 + index;
	op->in_place = index % 3 == 0;
}

/* 2 MiB and 4 MiB, of a type or two that are common. */
static void choose_large(const struct stream *stream, unsigned index, struct proxy_op *op)
{
	op->dtype = index % 2 ? NCCL_FLOAT32 : NCCL_BFLOAT16;
	op->op = NCCL_SUM;
	op->count = ((size_t)(index % 3 ? 4 : 2) << 20) / smd_dtype_bytes(op->dtype);
	op->seed = index;
	(void)stream;
}

static void choose_small(const struct stream *stream, unsigned index, struct proxy_op *op)
{
	op->dtype = NCCL_FLOAT32;
	op->op = NCCL_SUM;
	op->count = 1 + index * 517 % 16384;
	op->seed = stream->proxy->shape.comm_id * 1000 + index;
	op->in_place = index % 2;
}

static struct stream stream_of(struct proxy *proxy, unsigned total,
	void (*choose)(const struct stream *, unsigned, struct proxy_op *))
{
	return (struct stream){
		.proxy = proxy,
		.total = total,
		.choose = choose,
		.dice = (uint64_t)proxy->rank + 1,
	};
}

/* ---- every version ---- */

static void check_support(const struct collnet *collnet)
{
	for (int dtype = 0; dtype < NCCL_DTYPE_COUNT; dtype++) {
		for (int op = 0; op < NCCL_OP_COUNT; op++) {
			int supported = 0x5a5a;

			CHECK_EQUAL(COLLNET_CALL(collnet, reduceSupport, dtype, op, &supported),
				NCCL_SUCCESS);
			CHECK_EQUAL(supported, 1);
		}
	}
	for (int i = 0; i < 2; i++) { /* of an NCCL to come */
		int supported = 0x5a5a;

		CHECK_EQUAL(COLLNET_CALL(collnet, reduceSupport, i ? NCCL_FLOAT32 : 12,
				    i ? 77 : NCCL_SUM, &supported),
			NCCL_SUCCESS);
		CHECK_EQUAL(supported, 0);
	}
}

static void flush(struct proxy *proxy)
{
	void *request = (void *)0x5a5a;

	fleet_doing("iflush");
	CHECK_EQUAL(COLLNET_CALL(proxy->collnet, iflush, proxy->coll,
			    proxy_slot(proxy, PROXY_RECEIVE, 0), 1024,
			    proxy->mhandles[PROXY_RECEIVE], &request),
		NCCL_SUCCESS);
	for (int done = 0; request && !done;) {
		done = 1;
		CHECK_EQUAL(COLLNET_CALL(proxy->collnet, test, request, &done, NULL), NCCL_SUCCESS);
	}
}

/*
 * What the library is and which servers it uses is told first, and once. specs/guide/nccl.md shows
 * these lines, and tools/gpu-check looks for them.
 */
static void check_log(const struct fleet_node *node, bool again)
{
	const char *servers = getenv("SUMMAND_REDUCTION_SERVERS");
	char outcome[64];

	CHECK_EQUAL(logbook_has(NCCL_LOG_INFO, "collnet v6, v8 to v12"), !again);
	CHECK(again || logbook_has(NCCL_LOG_INFO, servers));
	snprintf(outcome, sizeof(outcome), "CollNet over 3 nodes (this is node %d): on, through",
		node->rank);
	CHECK(logbook_has(NCCL_LOG_INFO, outcome));
	CHECK(logbook_has(NCCL_LOG_INFO, "; chunks of 1/1, pipelined; "));
}

/* The library is loaded, used, and closed twice: nothing of the first time is in the way. */
static void use_version(struct fleet_node *node)
{
	const struct proxy_shape shape = {.comm_id = 42, .slots = 8, .slot_bytes = 128 << 10};
	int version = *(const int *)node->argument;

	for (int round = 0; round < 2; round++) {
		void *library = library_open();
		struct collnet collnet;
		struct proxy proxy;
		struct stream stream;

		collnet_find(&collnet, library, version);
		for (int again = 0; again < 2; again++) { /* after all is closed */
			logbook_clear();
			proxy_open(&proxy, &collnet, node, &shape);
			check_log(node, round || again);
			check_support(&collnet);
			stream = stream_of(&proxy, NCCL_DTYPE_COUNT, choose_any);
			stream_finish(&stream);
			flush(&proxy);
			proxy_deregister(&proxy, again ? PROXY_SEND : PROXY_RECEIVE);
			proxy_close(&proxy);
		}
		library_close(library);
	}
}

bool every_version(void)
{
	bool good = true;

	for (int i = 0; i < collnet_nversions && good; i++) {
		printf("v%d\n", collnet_versions[i]);
		good = servers_run((struct fleet){.nnodes = 3,
					   .seconds = 40,
					   .body = use_version,
					   .argument = &collnet_versions[i]},
			1);
	}
	return good;
}

/* ---- every type and reduction ---- */

static void play(struct fleet_node *node, int version, struct proxy_shape shape, unsigned total,
	void (*choose)(const struct stream *, unsigned, struct proxy_op *))
{
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	struct stream stream;

	collnet_find(&collnet, library, version);
	proxy_open(&proxy, &collnet, node, &shape);
	CHECK_EQUAL(logbook_has(NCCL_LOG_INFO,
			    "CollNet: float32 crosses as bfloat16 by SUMMAND_WIRE, "),
		getenv("SUMMAND_WIRE") != NULL);
	stream = stream_of(&proxy, total, choose);
	stream_finish(&stream);
	proxy_deregister(&proxy, PROXY_SEND);
	proxy_close(&proxy);
	library_close(library);
}

static void use_operations(struct fleet_node *node)
{
	play(node, COLLNET_NEWEST, (struct proxy_shape){.slots = 50, .slot_bytes = 64 << 10},
		2 * NCCL_DTYPE_COUNT * NCCL_OP_COUNT, choose_any);
}

bool every_operation(void)
{
	return servers_run((struct fleet){.nnodes = 5, .seconds = 40, .body = use_operations}, 3);
}

/* ---- the bounce buffer ---- */

static void use_bounce_buffer(struct fleet_node *node)
{
	play(node, 8, (struct proxy_shape){.slots = 8, .slot_bytes = 4 << 20},
		(unsigned)fleet_share(24), choose_large);
}

/* 64 all-reduces begin without one test; further ones do, or are put off. */
static void fill_window(struct fleet_node *node)
{
	const struct proxy_shape shape = {.slots = 200, .slot_bytes = 64 << 10};
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	struct stream stream;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&proxy, &collnet, node, &shape);
	stream = stream_of(&proxy, 64 + (unsigned)fleet_share(336), choose_small);
	fleet_doing("64 iallreduce");
	stream_start(&stream);
	CHECK(stream.started >= 64);
	stream_finish(&stream);
	proxy_deregister(&proxy, PROXY_RECEIVE);
	proxy_close(&proxy);
	library_close(library);
}

bool bounce_buffer(void)
{
	return servers_run(
		       (struct fleet){.nnodes = 3, .seconds = 40, .body = use_bounce_buffer}, 2) &&
	       servers_run((struct fleet){.nnodes = 3, .seconds = 40, .body = fill_window}, 2);
}

/* ---- the largest operation: NCCL gives a registered buffer whole, up to 1 GiB ---- */

#define WHOLE_BYTES ((size_t)1 << 30)

static void choose_whole(const struct stream *stream, unsigned index, struct proxy_op *op)
{
	op->dtype = NCCL_FLOAT32;
	op->op = NCCL_SUM;
	op->count = WHOLE_BYTES / smd_dtype_bytes(op->dtype);
	op->in_place = true; /* the half for what is sent is not touched, and takes no memory */
	(void)stream;
	(void)index;
}

static void use_whole_buffer(struct fleet_node *node)
{
	play(node, COLLNET_NEWEST,
		(struct proxy_shape){.slots = 1, .slot_bytes = WHOLE_BYTES + PROXY_TAIL_BYTES}, 1,
		choose_whole);
}

bool whole_buffer(void)
{
	return servers_run(
		(struct fleet){.nnodes = 2, .seconds = 120, .body = use_whole_buffer}, 2);
}

/* ---- several loops ---- */

/* Nodes that would have other numbers of them have the least; large operations and small ones go by several at once. */
static void use_loops(struct fleet_node *node)
{
	static const char *const wanted[] = {"4", "3", "8"};
	const struct proxy_shape shape = {.slots = 16, .slot_bytes = 4 << 20};
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;
	struct stream stream;

	setenv("SUMMAND_NCCL_LOOPS", wanted[node->rank], 1);
	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&proxy, &collnet, node, &shape);
	CHECK(logbook_has(NCCL_LOG_INFO, ", by 3 loops"));
	stream = stream_of(&proxy, (unsigned)fleet_share(80), choose_any);
	stream_finish(&stream);
	stream = stream_of(&proxy, (unsigned)fleet_share(40), choose_large);
	stream_finish(&stream);
	CHECK_EQUAL(process_busy_connections(512 << 10), 3 * 2); /* to both servers by each loop */
	logbook_clear(); /* which slow operations fill */
	proxy_deregister(&proxy, PROXY_RECEIVE);
	proxy_close(&proxy);
	CHECK(logbook_has(NCCL_LOG_INFO, "3 loops began "));
	library_close(library);
}

bool several_loops(void)
{
	return servers_run((struct fleet){.nnodes = 3, .seconds = 40, .body = use_loops}, 2);
}

/* ---- several communicators ---- */

enum { COMMUNICATORS = 5 };

/* Of all nodes in two orders, and of some of them. */
static const struct proxy_shape shapes[COMMUNICATORS] = {
	{.comm_id = 1, .slots = 8, .slot_bytes = 64 << 10},
	{.comm_id = 2, .slots = 64, .slot_bytes = 64 << 10},
	{3, (const int[]){2, 0}, 2, 16, 64 << 10},
	{4, (const int[]){3, 1, 2}, 3, 16, 64 << 10},
	{5, (const int[]){3, 2, 1, 0}, 4, 16, 64 << 10},
};

/* Each rank begins with another communicator, and closes them in another order, none waiting for
 * the others. */
static void use_several(struct fleet_node *node)
{
	static struct stream streams[COMMUNICATORS];
	struct proxy proxies[COMMUNICATORS];
	void *library = library_open();
	struct collnet collnet;
	bool busy = true;

	collnet_find(&collnet, library, *(const int *)node->argument);
	for (int c = 0; c < COMMUNICATORS; c++) {
		proxy_open(&proxies[c], &collnet, node, &shapes[c]);
		streams[c] = stream_of(&proxies[c], proxies[c].rank < 0 ? 0 : 40, choose_small);
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		stream_start(&streams[(c + node->rank) % COMMUNICATORS]);
	}
	while (busy) {
		busy = false;
		for (int c = 0; c < COMMUNICATORS; c++) {
			busy |= stream_progress(&streams[(c + node->rank) % COMMUNICATORS]);
		}
		usleep(20);
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		struct proxy *proxy = &proxies[(c + node->rank) % COMMUNICATORS];

		if (proxy->rank >= 0) {
			proxy_deregister(proxy, PROXY_SEND);
			proxy_close(proxy);
		}
	}
	library_close(library);
}

/* ---- several communicators, each on a thread of its own, from connect() on ---- */

struct duty {
	struct proxy proxy;
	struct stream stream;
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	pthread_t thread;
};

static void *serve_one(void *arg)
{
	struct duty *duty = arg;

	CHECK_EQUAL(proxy_connect(&duty->proxy, duty->handles), NCCL_SUCCESS);
	proxy_register(&duty->proxy);
	duty->stream = stream_of(&duty->proxy, 40, choose_small);
	stream_finish(&duty->stream);
	proxy_deregister(&duty->proxy, PROXY_RECEIVE);
	proxy_close(&duty->proxy);
	return NULL;
}

/* Each rank begins with another one, so that they connect in any order. */
static void use_several_at_once(struct fleet_node *node)
{
	static struct duty duties[COMMUNICATORS];
	void *library = library_open();
	char mine[NCCL_HANDLE_BYTES];
	struct collnet collnet;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	for (int c = 0; c < COMMUNICATORS; c++) {
		proxy_listen(&duties[c].proxy, &collnet, node, &shapes[c], mine);
		fleet_gather(node, mine, sizeof(mine), duties[c].handles);
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		struct duty *duty = &duties[(c + node->rank) % COMMUNICATORS];

		if (duty->proxy.rank >= 0) {
			CHECK(pthread_create(&duty->thread, NULL, serve_one, duty) == 0);
		}
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		if (duties[c].proxy.rank >= 0) {
			pthread_join(duties[c].thread, NULL);
		}
	}
	library_close(library);
}

bool several_communicators(void)
{
	static const int versions[] = {6, COLLNET_NEWEST};
	bool good = true;

	for (int i = 0; i < 2 && good; i++) {
		good = servers_run((struct fleet){.nnodes = 4,
					   .seconds = 40,
					   .body = use_several,
					   .argument = &versions[i]},
			2);
	}
	return good &&
	       servers_run(
		       (struct fleet){.nnodes = 4, .seconds = 40, .body = use_several_at_once}, 2);
}

/* ---- many communicators ---- */

enum { MANY = 64 };

static void use_many(struct fleet_node *node)
{
	static struct proxy proxies[MANY];
	static struct stream stream;
	void *library = library_open();
	struct collnet collnet;
	int threads = process_threads();
	int descriptors = 0;

	collnet_find(&collnet, library, COLLNET_NEWEST);
	for (int c = 0; c < MANY; c++) {
		const struct proxy_shape shape = {
			.comm_id = (uint64_t)c + 1, .slots = 4, .slot_bytes = 64 << 10};

		proxy_open(&proxies[c], &collnet, node, &shape);
		stream = stream_of(&proxies[c], 6, choose_small);
		stream_finish(&stream);
		fleet_barrier(node); /* nobody has anything to say to this node any more */
		if (c == 0) {
			CHECK_EQUAL(process_threads(), ++threads);
			descriptors = process_descriptors();
		}
	}
	CHECK_EQUAL(process_threads(), threads);
	CHECK_EQUAL(process_descriptors(), descriptors);
	for (int c = 0; c < MANY; c++) { /* all are there still */
		stream = stream_of(&proxies[c], 2, choose_small);
		stream_finish(&stream);
	}
	for (int c = 0; c < MANY; c++) {
		proxy_deregister(&proxies[c], PROXY_SEND);
		proxy_close(&proxies[c]);
	}
	library_close(library);
}

/* NCCL does not call while it has nothing to do, and servers want to hear of nodes all the same:
 * what a program has chosen for its own calls is not asked. */
bool many_communicators(void)
{
	setenv("SUMMAND_PROGRESS", "poll", 1);
	return servers_run((struct fleet){.nnodes = 2, .seconds = 40, .body = use_many}, 2);
}
