/*
 * NCCL's service thread gives memory back, of communicators whose operations its progress thread
 * begins and tests. The thread sanitizer sees what the two share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/nccl_plugin/abi/log.h"
#include "worker/nccl_plugin/collnet/collnet.h"
#include "worker/nccl_plugin/collnet/comm.h"

enum { NODES = 2, ROUNDS = 200, PARTS = 2, PART = 3000, LARGE = 256 << 10 /* which loops share */ };

static struct pool pool;

struct node {
	int rank;
	void *handles[NODES];
	void *listening;
	void *comm;
	void *mhandle; /* of memory that the service thread gives back, when it is told to */
	pthread_barrier_t *sides;
	atomic_bool over;
	uint8_t parts[PARTS][2 * PART]; /* of a window; more than one is copied */
	uint8_t memory[LARGE];
};

static void node_connect(struct node *node)
{
	CHECK(smd_collnet_connect(node->handles, NODES, node->rank, node->listening, &node->comm) ==
		NCCL_SUCCESS);
	CHECK(smd_collnet_close_listen(node->listening) == NCCL_SUCCESS);
}

static void *node_register(struct node *node, void *memory, size_t bytes)
{
	void *mhandle = NULL;

	CHECK(smd_collnet_register(node->comm, memory, bytes, NCCL_PTR_HOST, &mhandle) ==
		NCCL_SUCCESS);
	return mhandle;
}

/* What test() says at last. */
static int finish(void *request)
{
	int result = NCCL_SUCCESS;
	int done = 0;

	CHECK(request != NULL);
	while (!done && result == NCCL_SUCCESS) {
		result = smd_collnet_test(request, &done, NULL);
	}
	return result;
}

static void *allreduce(struct node *node, void *mhandle)
{
	void *request = NULL;

	CHECK(smd_collnet_allreduce(node->comm, node->memory, node->memory, LARGE, SMD_UINT8,
		      SMD_SUM, mhandle, mhandle, &request) == NCCL_SUCCESS);
	return request;
}

/* The window is all of the result, and its parts are cut elsewhere than the nodes' shares. */
static void *allgather(struct node *node, void *own, void *mhandle)
{
	struct nccl_sge_v9 parts[PARTS] = {{mhandle, node->parts[0], PART / 2},
		{mhandle, node->parts[1], 2 * PART - PART / 2}};
	void *request = NULL;

	CHECK(smd_collnet_allgather(node->comm, own, PARTS, parts, PART, 0, 2 * PART, mhandle,
		      &request) == NCCL_SUCCESS);
	return request;
}

/* ---- the service thread of a node ---- */

static void *give_back_again_and_again(void *arg)
{
	struct node *node = arg;
	uint8_t other[4096];

	while (!node->over) {
		void *mhandle = node_register(node, other, sizeof(other));

		CHECK(smd_collnet_deregister(node->comm, mhandle) == NCCL_SUCCESS);
	}
	return NULL;
}

static void *give_back_what_is_in_use(void *arg)
{
	struct node *node = arg;

	pthread_barrier_wait(node->sides);
	CHECK(smd_collnet_deregister(node->comm, node->mhandle) == NCCL_SUCCESS);
	memset(node->parts, 7, sizeof(node->parts)); /* nobody reads or writes them any more */
	memset(node->memory, 7, sizeof(node->memory));
	return NULL;
}

/* ---- the progress thread of a node ---- */

static void check_gathered(const struct node *node, int round)
{
	for (size_t i = 0; i < 2 * PART; i++) {
		const uint8_t *at =
			i < PART / 2 ? &node->parts[0][i] : &node->parts[1][i - PART / 2];

		CHECK(*at == (uint8_t)(round + (int)(i / PART)));
	}
}

static void *sum_and_gather(void *arg)
{
	struct node *node = arg;
	uint8_t own[PART];
	pthread_t service;
	void *mhandle;

	node_connect(node);
	mhandle = node_register(node, node->memory, LARGE);
	CHECK(pthread_create(&service, NULL, give_back_again_and_again, node) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		void *requests[2];

		memset(own, round + node->rank, sizeof(own));
		memset(node->memory, round + node->rank, LARGE);
		requests[0] = allgather(node, own, mhandle);
		requests[1] = allreduce(node, mhandle);
		CHECK(finish(requests[0]) == NCCL_SUCCESS);
		CHECK(finish(requests[1]) == NCCL_SUCCESS);
		check_gathered(node, round);
		CHECK(node->memory[LARGE - 1] == (uint8_t)(2 * round + 1));
	}
	node->over = true;
	pthread_join(service, NULL);
	CHECK(smd_collnet_deregister(node->comm, mhandle) == NCCL_SUCCESS);
	CHECK(smd_collnet_close(node->comm) == NCCL_SUCCESS);
	return NULL;
}

static pthread_barrier_t both_nodes;

/* The other node takes no part, so the operations are in flight until they are given up. */
static void *have_memory_taken_away(void *arg)
{
	struct node *node = arg;
	pthread_barrier_t sides;
	uint8_t own[PART] = {0};
	pthread_t service;
	void *requests[2];

	node_connect(node);
	if (node->rank == 0) {
		CHECK(pthread_barrier_init(&sides, NULL, 2) == 0);
		node->sides = &sides;
		node->mhandle = node_register(node, node->memory, LARGE);
		CHECK(pthread_create(&service, NULL, give_back_what_is_in_use, node) == 0);
		requests[0] = allgather(node, own, node->mhandle);
		requests[1] = allreduce(node, node->mhandle);
		pthread_barrier_wait(&sides);
		CHECK(finish(requests[0]) == NCCL_SYSTEM_ERROR);
		CHECK(finish(requests[1]) == NCCL_SYSTEM_ERROR);
		pthread_join(service, NULL);
		pthread_barrier_destroy(&sides);
	}
	pthread_barrier_wait(&both_nodes);
	CHECK(smd_collnet_close(node->comm) == NCCL_SUCCESS);
	return NULL;
}

/* It has ended, and test() has not been asked. */
static void await_end(const struct smd_coll_request *request)
{
	for (unsigned i = 0; i < request->nparts; i++) {
		while (!smd_request_test(request->parts[i])) {
			sched_yield();
		}
	}
}

static void *give_back_before_the_test(void *arg)
{
	struct node *node = arg;
	uint8_t own[PART];
	void *mhandle;
	void *request;

	node_connect(node);
	memset(own, node->rank, sizeof(own));
	memset(node->parts, 7, sizeof(node->parts));
	mhandle = node_register(node, node->parts, sizeof(node->parts));
	request = allgather(node, own, mhandle);
	await_end(request);
	CHECK(smd_collnet_deregister(node->comm, mhandle) == NCCL_SUCCESS);
	check_gathered(node, 0);
	memset(node->parts, 7, sizeof(node->parts)); /* nobody writes them any more */
	CHECK(finish(request) == NCCL_SUCCESS);
	CHECK(node->parts[0][0] == 7 && node->parts[1][0] == 7);
	CHECK(smd_collnet_close(node->comm) == NCCL_SUCCESS);
	return NULL;
}

/* ---- tests ---- */

static void run(void *(*progress)(void *))
{
	static uint8_t handles[NODES][NCCL_HANDLE_BYTES];
	static struct node nodes[NODES];
	pthread_t threads[NODES];

	assert_int_equal(pthread_barrier_init(&both_nodes, NULL, NODES), 0);
	for (int r = 0; r < NODES; r++) {
		nodes[r].rank = r;
		nodes[r].over = false;
		assert_int_equal(
			smd_collnet_listen(0, handles[r], &nodes[r].listening), NCCL_SUCCESS);
		for (int other = 0; other < NODES; other++) {
			nodes[other].handles[r] = handles[r];
		}
	}
	for (int r = 0; r < NODES; r++) {
		assert_int_equal(pthread_create(&threads[r], NULL, progress, &nodes[r]), 0);
	}
	for (int r = 0; r < NODES; r++) {
		pthread_join(threads[r], NULL);
	}
	pthread_barrier_destroy(&both_nodes);
}

static void other_memory_is_given_back_beside_traffic(void **state)
{
	(void)state;
	run(sum_and_gather);
}

/* By the thread that tests them no operation is touched after its end, nor its memory. */
static void memory_in_use_is_given_back_while_operations_are_tested(void **state)
{
	(void)state;
	for (int again = 0; again < 20; again++) {
		run(have_memory_taken_away);
	}
}

/* Several parts are written when an operation is tested, or before their memory goes. */
static void memory_is_given_back_after_the_end_and_before_the_test(void **state)
{
	(void)state;
	run(give_back_before_the_test);
}

int main(void)
{
	static const struct smd_server_config config = {
		.shards = 2, .chunk_bytes = 16384, .memory_bytes = 64 << 20};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_memory_is_given_back_beside_traffic),
		cmocka_unit_test(memory_in_use_is_given_back_while_operations_are_tested),
		cmocka_unit_test(memory_is_given_back_after_the_end_and_before_the_test),
	};
	int ret;

	pool_start(&pool, "tcp", 1, &config);
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
	setenv("SUMMAND_TRANSPORT", "tcp", 1);
	setenv("SUMMAND_CONNECT_TIMEOUT", "20", 1);
	setenv("SUMMAND_NCCL_LOOPS", "2", 1); /* one that callers turn, and one that they do not */
	setenv("SUMMAND_REDUCTION_SERVERS", pool.list, 1);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	pool_stop(&pool);
	return ret;
}
