/* CollNet on memory of GPUs in the NCCL plugin: nothing but network cards touches it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cuda/gdr_machine.h"
#include "tests/unit/cuda/gdr_memory.h"

enum { NODES = 2, TYPE_INT32 = 2, TYPE_FLOAT32 = 7, SUM_OP = 0 };

#ifdef __SANITIZE_THREAD__
enum { LARGE = 4 << 20 }; /* of bytes; many chunks */
#else
enum { LARGE = 33 << 20 }; /* and several segments */
#endif

struct node {
	int rank;
	void *handles[NODES];
	void *listening;
	void *comm;
	bool device;
	bool floats;    /* are summed, and nothing else */
	bool registers; /* memory of the program's own, which is then summed where it is */
	bool whole;     /* more of it than an operation takes, and nothing else */
	pthread_t thread;
};

static void coll_finish(void *request)
{
	int done = 0;

	while (!done) {
		CHECK(COLL.test(request, &done, NULL) == NCCL_SUCCESS);
	}
}

static void coll_flush(struct node *node, struct memory *memory)
{
	void *request = NULL;

	CHECK(COLL.iflush(node->comm, memory->data, 1, memory->mhandle, &request) == NCCL_SUCCESS);
	coll_finish(request);
}

/* The first half to the second, and then the second in place. */
static void coll_allreduce(struct node *node, struct memory *memory, size_t count)
{
	size_t bytes = count * sizeof(int32_t);
	int32_t *values = malloc(bytes);
	void *request = NULL;

	for (size_t i = 0; i < count; i++) {
		values[i] = (int32_t)i * (node->rank + 1);
	}
	memory_put(memory, 4, values, bytes);
	CHECK(COLL.iallreduce(node->comm, memory->data + 4, memory->data + 4 + bytes, count,
		      TYPE_INT32, SUM_OP, memory->mhandle, memory->mhandle,
		      &request) == NCCL_SUCCESS);
	coll_finish(request);
	CHECK(COLL.iallreduce(node->comm, memory->data + 4 + bytes, memory->data + 4 + bytes, count,
		      TYPE_INT32, SUM_OP, memory->mhandle, memory->mhandle,
		      &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, 4 + bytes, values, bytes);
	for (size_t i = 0; i < count; i++) {
		CHECK(values[i] == (int32_t)i * 3 * NODES);
	}
	free(values);
}

/* Values that two bytes cannot hold. */
static void coll_floats(struct node *node, struct memory *memory)
{
	enum { COUNT = 5000 };
	float values[COUNT];
	void *request = NULL;

	for (size_t i = 0; i < COUNT; i++) {
		values[i] = (float)(node->rank + 1) * (4096 + (float)i);
	}
	memory_put(memory, 0, values, sizeof(values));
	CHECK(COLL.iallreduce(node->comm, memory->data, memory->data, COUNT, TYPE_FLOAT32, SUM_OP,
		      memory->mhandle, memory->mhandle, &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, 0, values, sizeof(values));
	for (size_t i = 0; i < COUNT; i++) {
		CHECK(values[i] == 3 * (4096 + (float)i));
	}
}

static void coll_allgather(struct node *node, struct memory *memory, size_t bytes)
{
	struct nccl_sge_v9 part = {memory->mhandle, memory->data + bytes, bytes * NODES};
	uint8_t *seen = malloc(bytes * NODES);
	void *request = NULL;

	memory_fill(memory, (unsigned)node->rank);
	CHECK(COLL.iallgather(node->comm, memory->data, 1, &part, bytes, 0, bytes * NODES,
		      memory->mhandle, &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, bytes, seen, bytes * NODES);
	for (size_t i = 0; i < bytes * NODES; i++) {
		CHECK(seen[i] == memory_pattern(i % bytes, (unsigned)(i / bytes)));
	}
	free(seen);
}

static void coll_reducescatter(struct node *node, struct memory *memory, size_t count)
{
	size_t bytes = count * sizeof(int32_t);
	struct nccl_sge_v9 part = {memory->mhandle, memory->data, bytes * NODES};
	int32_t *values = malloc(bytes * NODES);
	void *request = NULL;

	for (size_t i = 0; i < count * NODES; i++) {
		values[i] = (int32_t)i * (node->rank + 1);
	}
	memory_put(memory, 0, values, bytes * NODES);
	CHECK(COLL.ireducescatter(node->comm, 1, &part, memory->data + bytes * NODES, bytes, 0,
		      bytes * NODES, TYPE_INT32, SUM_OP, memory->mhandle,
		      &request) == NCCL_SUCCESS);
	coll_finish(request);
	coll_flush(node, memory);
	memory_get(memory, bytes * NODES, values, bytes);
	for (size_t i = 0; i < count; i++) {
		CHECK(values[i] == (int32_t)(i + count * (size_t)node->rank) * 3);
	}
	free(values);
}

/* Several parts would have to be copied. */
static void coll_parts(struct node *node, struct memory *memory)
{
	struct nccl_sge_v9 parts[2] = {
		{memory->mhandle, memory->data, 10}, {memory->mhandle, memory->data + 20, 10}};
	void *request;

	CHECK(COLL.iallgather(node->comm, memory->data + 40, 2, parts, 10, 0, 20, memory->mhandle,
		      &request) == (node->device ? NCCL_INVALID_ARGUMENT : NCCL_SUCCESS));
	if (!node->device) {
		coll_finish(request);
	}
}

/* The program's memory, beside NCCL's: one operation for all of it, in several segments. Then it is
 * freed, and other memory may come to the same addresses. */
static void coll_registered(struct node *node)
{
	static const size_t counts[] = {LARGE / sizeof(int32_t) + 1, 1001};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct memory memory;

		memory_create(&memory, node->device, 4 + 2 * counts[i] * sizeof(int32_t));
		CHECK(REGISTER(COLL, node->comm, &memory) == NCCL_SUCCESS);
		coll_allreduce(node, &memory, counts[i]);
		CHECK(COLL.deregMr(node->comm, memory.mhandle) == NCCL_SUCCESS);
		memory_free(&memory);
	}
}

static pthread_barrier_t first_is_in_flight; /* and has given its older memory back */

/* NCCL lets go of what a graph used some time after the graph has gone; its memory may have been
 * freed, and other memory have come that overlaps its addresses and is in use. */
static void coll_overlapping(struct node *node)
{
	enum { COUNT = 5000, BYTES = 1 << 19 };
	struct memory whole, later;
	void *request = NULL;

	memory_create(&whole, node->device, BYTES);
	CHECK(REGISTER(COLL, node->comm, &whole) == NCCL_SUCCESS);
	later = whole;
	later.bytes = BYTES / 2;
	if (node->device) {
		CHECK(REGISTER(COLL, node->comm, &later) == NCCL_SUCCESS);
	}
	coll_allreduce(node, &later, COUNT);
	if (node->rank > 0) {
		pthread_barrier_wait(&first_is_in_flight);
	}
	CHECK(COLL.iallreduce(node->comm, later.data, later.data, later.bytes / sizeof(int32_t),
		      TYPE_INT32, SUM_OP, later.mhandle, later.mhandle, &request) == NCCL_SUCCESS);
	if (node->device) {
		CHECK(COLL.deregMr(node->comm, whole.mhandle) == NCCL_SUCCESS);
	}
	if (node->rank == 0) {
		pthread_barrier_wait(&first_is_in_flight);
	}
	coll_finish(request);
	coll_allreduce(node, &later, COUNT);
	CHECK(COLL.deregMr(node->comm, later.mhandle) == NCCL_SUCCESS);
	memory_free(&whole);
}

enum { PIECE = 1 << 18 }; /* elements that are filled and looked at together */

static int32_t whole_value(size_t i)
{
	return (int32_t)(i % 1000003);
}

static void whole_fill(struct node *node, struct memory *memory, int32_t *piece)
{
	for (size_t at = 0; at < memory->bytes; at += PIECE * sizeof(*piece)) {
		for (size_t i = 0; i < PIECE; i++) {
			piece[i] = whole_value(at / sizeof(*piece) + i) * (node->rank + 1);
		}
		memory_put(memory, at, piece, PIECE * sizeof(*piece));
	}
}

static void whole_check(const struct memory *memory, int32_t *piece)
{
	for (size_t at = 0; at < memory->bytes; at += PIECE * sizeof(*piece)) {
		memory_get(memory, at, piece, PIECE * sizeof(*piece));
		for (size_t i = 0; i < PIECE; i++) {
			CHECK(piece[i] == whole_value(at / sizeof(*piece) + i) * 3);
		}
	}
}

/* As NCCL sums a registered buffer that is larger: by operations of the most that one takes, and
 * one of what is left, of which several are in flight. */
static void coll_whole(struct node *node)
{
	const size_t most = (size_t)1 << 30;
	int32_t *piece = malloc(PIECE * sizeof(*piece));
	struct memory memory;
	void *requests[2];
	size_t at = 0;

	memory_create(&memory, node->device, most + most / 8);
	CHECK(REGISTER(COLL, node->comm, &memory) == NCCL_SUCCESS);
	whole_fill(node, &memory, piece);
	for (int k = 0; k < 2; k++) {
		size_t bytes = memory.bytes - at < most ? memory.bytes - at : most;

		CHECK(COLL.iallreduce(node->comm, memory.data + at, memory.data + at,
			      bytes / sizeof(*piece), TYPE_INT32, SUM_OP, memory.mhandle,
			      memory.mhandle, &requests[k]) == NCCL_SUCCESS);
		CHECK(requests[k] != NULL);
		at += bytes;
	}
	CHECK(at == memory.bytes);
	for (int k = 0; k < 2; k++) {
		coll_finish(requests[k]);
	}
	whole_check(&memory, piece);
	CHECK(COLL.deregMr(node->comm, memory.mhandle) == NCCL_SUCCESS);
	memory_free(&memory);
	free(piece);
}

static void node_connect(struct node *node)
{
	CHECK(COLL.connect(node->handles, NODES, node->rank, node->listening, &node->comm) ==
		NCCL_SUCCESS);
	CHECK(COLL.closeListen(node->listening) == NCCL_SUCCESS);
}

static void *node_run_whole(void *arg)
{
	struct node *node = arg;

	gpu_enter(0);
	node_connect(node);
	coll_whole(node);
	CHECK(COLL.closeColl(node->comm) == NCCL_SUCCESS);
	gpu_leave();
	return NULL;
}

static void *node_run(void *arg)
{
	static const size_t counts[] = {1, 7, 1000, 5000, 200001};
	struct node *node = arg;
	struct memory memory;
	void *sends;

	gpu_enter(0); /* as NCCL's threads have it */
	node_connect(node);
	memory_create(&memory, node->device, 4 << 20);
	CHECK(REGISTER(COLL, node->comm, &memory) == NCCL_SUCCESS);
	sends = memory.mhandle;
	CHECK(REGISTER(COLL, node->comm, &memory) == NCCL_SUCCESS); /* for the other direction */
	if (node->floats) {
		coll_floats(node, &memory);
	}
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && !node->floats; i++) {
		coll_allreduce(node, &memory, counts[i]);
		coll_allgather(node, &memory, counts[i] * 3);
		coll_reducescatter(node, &memory, counts[i]);
	}
	if (node->device && !node->floats) {
		coll_parts(node, &memory);
	}
	if (node->registers) {
		coll_registered(node);
		coll_overlapping(node);
		coll_allreduce(node, &memory, counts[0]);
	}
	CHECK(COLL.deregMr(node->comm, sends) == NCCL_SUCCESS);
	CHECK(COLL.deregMr(node->comm, memory.mhandle) == NCCL_SUCCESS);
	CHECK(COLL.closeColl(node->comm) == NCCL_SUCCESS);
	gpu_leave();
	memory_free(&memory);
	return NULL;
}

static void nodes_run_as(struct node like, bool first, bool second)
{
	static uint8_t handles[NODES][NCCL_HANDLE_BYTES];
	struct node nodes[NODES];

	assert_int_equal(pthread_barrier_init(&first_is_in_flight, NULL, NODES), 0);
	for (int r = 0; r < NODES; r++) {
		nodes[r] = like;
		nodes[r].rank = r;
		nodes[r].device = r ? second : first;
		assert_int_equal(
			COLL.listen(NULL, 0, handles[r], &nodes[r].listening), NCCL_SUCCESS);
	}
	for (int r = 0; r < NODES; r++) {
		for (int other = 0; other < NODES; other++) {
			nodes[r].handles[other] = handles[other];
		}
		CHECK(pthread_create(&nodes[r].thread, NULL, like.whole ? node_run_whole : node_run,
			      &nodes[r]) == 0);
	}
	for (int r = 0; r < NODES; r++) {
		pthread_join(nodes[r].thread, NULL);
	}
	pthread_barrier_destroy(&first_is_in_flight);
}

static void nodes_run(bool first, bool second, bool registers)
{
	nodes_run_as((struct node){.registers = registers}, first, second);
}

static void operations_of_every_size_on_gpus(void **state)
{
	unsigned before = gpu_flushes();

	(void)state;
	nodes_run(true, true, false);
	assert_int_equal(gpu_flushes(), before + NODES * 5 * 3);
	assert_int_equal(card_counts().from_host, 0);
	assert_int_equal(card_counts().to_host, 0);
}

/* Where one node's GPU is too far from its card, NCCL gives memory of the host there. */
static void operations_on_one_gpu_and_one_host(void **state)
{
	(void)state;
	nodes_run(true, false, true);
	assert_true(card_counts().from_device > 0);
	assert_true(card_counts().from_host > 0);
}

/* libsummand narrows what is in the host's memory alone, and then nodes would send different types.
 */
static void float32_crosses_as_it_is_whatever_SUMMAND_WIRE_says(void **state)
{
	(void)state;
	setenv("SUMMAND_WIRE", "bf16", 1);
	nodes_run_as((struct node){.floats = true}, true, false);
	nodes_run_as((struct node){.floats = true}, true, true);
	unsetenv("SUMMAND_WIRE");
}

/* What NCCL does with ncclCommRegister(), and with buffers of CUDA graphs, where each node has one
 * GPU. */
static void registered_buffers_are_summed_where_they_are(void **state)
{
	struct nccl_props_v12 properties;

	(void)state;
	assert_int_equal(COLL.getProperties(0, &properties), NCCL_SUCCESS);
	assert_true(properties.max_coll_bytes >= (size_t)1 << 30);
	assert_true(properties.ptr_support & NCCL_PTR_DMABUF);
	nodes_run(true, true, true);
	assert_int_equal(card_counts().from_host, 0);
	assert_int_equal(card_counts().to_host, 0);
	assert_int_equal(card_counts().registered, 0);
}

static void what_is_larger_than_an_operation_is_summed_by_several(void **state)
{
	(void)state;
	nodes_run_as((struct node){.whole = true}, true, true);
	assert_int_equal(card_counts().from_host, 0);
	assert_int_equal(card_counts().to_host, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(operations_of_every_size_on_gpus),
		MACHINE_TEST(operations_on_one_gpu_and_one_host),
		MACHINE_TEST(float32_crosses_as_it_is_whatever_SUMMAND_WIRE_says),
		MACHINE_TEST(registered_buffers_are_summed_where_they_are),
	};
	const struct CMUnitTest whole[] = {
		MACHINE_TEST(what_is_larger_than_an_operation_is_summed_by_several),
	};
	int ret;

	machine_start(FAKE_DRIVER);
	ret = argc > 1 && strcmp(argv[1], "--whole") == 0
		      ? cmocka_run_group_tests(whole, NULL, NULL)
		      : cmocka_run_group_tests(tests, NULL, NULL);
	machine_stop();
	return ret;
}
