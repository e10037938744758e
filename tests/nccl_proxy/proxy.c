/* Calls the library in the order, and on the threads, that NCCL does. */
#include "tests/nccl_proxy/proxy.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "reduction_server/base/dtype.h"
#include "tests/nccl_proxy/pattern.h"

#define UNTOUCHED   0xee /* in slots to receive in */
#define GUARD_BYTES 64

/* ---- the service thread ---- */

struct service {
	struct proxy *proxy;
	void (*call)(struct service *service);
	const char *handles;
	enum proxy_side first;
	int result;
};

static void *serve(void *arg)
{
	struct service *service = arg;

	service->call(service);
	return NULL;
}

/* NCCL waits for what it asks its service thread. */
static int ask(struct service service)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, serve, &service) == 0);
	pthread_join(thread, NULL);
	return service.result;
}

/* ---- listen and connect ---- */

static int find_rank(const struct proxy_shape *shape, const struct fleet_node *node)
{
	for (int i = 0; shape->members && i < shape->nmembers; i++) {
		if (shape->members[i] == node->rank) {
			return i;
		}
	}
	return shape->members ? -1 : node->rank;
}

static void call_listen(struct service *service)
{
	struct proxy *proxy = service->proxy;
	char handle[NCCL_HANDLE_BYTES + GUARD_BYTES];

	memset(handle, 0x5a, sizeof(handle));
	CHECK_EQUAL(
		collnet_listen(proxy->collnet, &proxy->contexts, 0, handle, &proxy->listen_comm),
		NCCL_SUCCESS);
	CHECK(proxy->listen_comm);
	for (size_t i = NCCL_HANDLE_BYTES; i < sizeof(handle); i++) {
		CHECK_EQUAL(handle[i], 0x5a);
	}
	memcpy((char *)service->handles, handle, NCCL_HANDLE_BYTES);
}

void proxy_listen(struct proxy *proxy, struct collnet *collnet, const struct fleet_node *node,
	const struct proxy_shape *shape, char handle[NCCL_HANDLE_BYTES])
{
	memset(proxy, 0, sizeof(*proxy));
	memset(handle, 0, NCCL_HANDLE_BYTES);
	proxy->collnet = collnet;
	proxy->shape = *shape;
	proxy->rank = find_rank(shape, node);
	proxy->nranks = shape->members ? shape->nmembers : node->nnodes;
	if (proxy->rank < 0) {
		return;
	}
	fleet_doing("init");
	CHECK_EQUAL(collnet_begin(collnet, shape->comm_id, &proxy->contexts), NCCL_SUCCESS);
	collnet_check_devices(collnet);
	fleet_doing("listen");
	ask((struct service){.proxy = proxy, .call = call_listen, .handles = handle});
}

/* The handles lie in a longer record each, and are gone after the call. */
static void call_connect(struct service *service)
{
	struct proxy *proxy = service->proxy;
	size_t n = (size_t)proxy->nranks;
	char(*records)[2 * NCCL_HANDLE_BYTES] = calloc(n, sizeof(*records));
	void **handles = calloc(n, sizeof(*handles));

	for (size_t i = 0; i < n; i++) {
		size_t node = proxy->shape.members ? (size_t)proxy->shape.members[i] : i;

		memcpy(records[i], service->handles + node * NCCL_HANDLE_BYTES, NCCL_HANDLE_BYTES);
		handles[i] = records[i];
	}
	service->result = COLLNET_CALL(proxy->collnet, connect, handles, proxy->nranks, proxy->rank,
		proxy->listen_comm, &proxy->coll);
	free(handles);
	memset(records, 0xa5, n * sizeof(*records));
	free(records);
	if (service->result == NCCL_SUCCESS) {
		CHECK(proxy->coll);
		CHECK_EQUAL(COLLNET_CALL(proxy->collnet, closeListen, proxy->listen_comm),
			NCCL_SUCCESS);
	}
	proxy->listen_comm = NULL;
}

int proxy_connect(struct proxy *proxy, const char *handles)
{
	fleet_doing("connect");
	return ask((struct service){.proxy = proxy, .call = call_connect, .handles = handles});
}

void proxy_open(struct proxy *proxy, struct collnet *collnet, struct fleet_node *node,
	const struct proxy_shape *shape)
{
	char handles[FLEET_NODES_MAX * NCCL_HANDLE_BYTES];
	char mine[NCCL_HANDLE_BYTES];

	proxy_listen(proxy, collnet, node, shape, mine);
	fleet_gather(node, mine, sizeof(mine), handles);
	if (proxy->rank >= 0) {
		CHECK_EQUAL(proxy_connect(proxy, handles), NCCL_SUCCESS);
		proxy_register(proxy);
	}
}

/* ---- the bounce buffer ---- */

static size_t buffer_bytes(const struct proxy *proxy)
{
	return 2 * proxy->shape.slots * proxy->shape.slot_bytes;
}

unsigned char *proxy_slot(const struct proxy *proxy, enum proxy_side side, unsigned slot)
{
	size_t index = side == PROXY_RECEIVE ? proxy->shape.slots + slot : slot;

	return proxy->buffer + index * proxy->shape.slot_bytes;
}

/* NCCL asks for this on the receiving side first. */
static void call_register(struct service *service)
{
	struct proxy *proxy = service->proxy;

	for (int side = PROXY_RECEIVE; side >= PROXY_SEND; side--) {
		CHECK_EQUAL(COLLNET_CALL(proxy->collnet, regMr, proxy->coll, proxy->buffer,
				    buffer_bytes(proxy), NCCL_PTR_HOST, &proxy->mhandles[side]),
			NCCL_SUCCESS);
	}
}

void proxy_register(struct proxy *proxy)
{
	fleet_doing("regMr");
	proxy->buffer = mmap(NULL, buffer_bytes(proxy), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(proxy->buffer != MAP_FAILED);
	ask((struct service){.proxy = proxy, .call = call_register});
}

/* NCCL leaves out what is no handle. */
static void deregister(struct proxy *proxy, enum proxy_side side)
{
	if (proxy->mhandles[side]) {
		CHECK_EQUAL(
			COLLNET_CALL(proxy->collnet, deregMr, proxy->coll, proxy->mhandles[side]),
			NCCL_SUCCESS);
	}
}

/* Nothing can be mapped where the buffer was, so that whoever uses it ends. */
static void call_deregister(struct service *service)
{
	struct proxy *proxy = service->proxy;
	void *gone;

	deregister(proxy, service->first);
	gone = mmap(proxy->buffer, buffer_bytes(proxy), PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(gone == proxy->buffer);
	deregister(proxy, service->first == PROXY_SEND ? PROXY_RECEIVE : PROXY_SEND);
}

void proxy_deregister(struct proxy *proxy, enum proxy_side first)
{
	fleet_doing("deregMr");
	ask((struct service){.proxy = proxy, .call = call_deregister, .first = first});
}

static void call_close(struct service *service)
{
	struct proxy *proxy = service->proxy;

	CHECK_EQUAL(COLLNET_CALL(proxy->collnet, closeColl, proxy->coll), NCCL_SUCCESS);
}

void proxy_close(struct proxy *proxy)
{
	if (proxy->rank < 0) {
		return;
	}
	fleet_doing("closeColl");
	if (proxy->coll) {
		ask((struct service){.proxy = proxy, .call = call_close});
	}
	fleet_doing("finalize");
	collnet_end(proxy->collnet, &proxy->contexts);
	if (proxy->buffer) {
		munmap(proxy->buffer, buffer_bytes(proxy));
	}
	fleet_doing("something after finalize");
}

/* ---- the progress thread ---- */

static unsigned char *source(const struct proxy *proxy, const struct proxy_op *op)
{
	return proxy_slot(proxy, op->in_place ? PROXY_RECEIVE : PROXY_SEND, op->slot);
}

int proxy_start(struct proxy *proxy, struct proxy_op *op)
{
	int result;

	fleet_doing("iallreduce of %zu %s, %s, slot %u", op->count, smd_dtype_name(op->dtype),
		smd_op_name(op->op), op->slot);
	op->request = (void *)0x5a5a;
	op->asked = false;
	result = COLLNET_CALL(proxy->collnet, iallreduce, proxy->coll, source(proxy, op),
		proxy_slot(proxy, PROXY_RECEIVE, op->slot), op->count, (int)op->dtype, (int)op->op,
		proxy->mhandles[PROXY_SEND], proxy->mhandles[PROXY_RECEIVE], &op->request);
	CHECK(result != NCCL_SUCCESS || op->request != (void *)0x5a5a);
	if (result != NCCL_SUCCESS) {
		op->request = NULL;
	}
	return result;
}

void proxy_fill(struct proxy *proxy, struct proxy_op *op)
{
	memset(proxy_slot(proxy, PROXY_RECEIVE, op->slot), UNTOUCHED, proxy->shape.slot_bytes);
	pattern_fill(source(proxy, op), op->dtype, 0, op->count, proxy->rank, op->seed);
}

int proxy_fill_and_start(struct proxy *proxy, struct proxy_op *op)
{
	proxy_fill(proxy, op);
	return proxy_start(proxy, op);
}

int proxy_test(struct proxy *proxy, struct proxy_op *op)
{
	bool with_size = proxy->tested++ % 2;
	int sizes[2] = {-7, -7};
	int done = 1;
	int result;

	fleet_doing("test of %zu %s, %s, slot %u", op->count, smd_dtype_name(op->dtype),
		smd_op_name(op->op), op->slot);
	result = COLLNET_CALL(proxy->collnet, test, op->request, &done, with_size ? sizes : NULL);
	CHECK_EQUAL(sizes[1], -7);
	if (result == NCCL_SUCCESS && done) {
		CHECK_EQUAL(done, 1);
		CHECK(op->asked); /* NCCL's receiving side must hear of one result at a time */
		if (with_size) {
			CHECK_EQUAL(sizes[0], op->count * smd_dtype_bytes(op->dtype));
		}
		op->request = NULL;
	}
	op->asked = true;
	return result;
}

void proxy_wait(struct proxy *proxy, struct proxy_op *op)
{
	while (op->request) {
		CHECK_EQUAL(proxy_test(proxy, op), NCCL_SUCCESS);
		sched_yield();
	}
}

/* As libsummand does: all-reduces of float32, but short ones, cross as SUMMAND_WIRE says. */
static unsigned wire_of(const struct proxy_op *op)
{
	const char *name = getenv("SUMMAND_WIRE");
	struct smd_error error = {""};
	unsigned wire = op->dtype;

	if (name && *name && op->dtype == SMD_FLOAT32 && op->count >= SMD_WIRE_LEAST) {
		CHECK_EQUAL(smd_wire_parse(name, &wire, &error), 0);
	}
	return wire;
}

void proxy_verify(const struct proxy *proxy, const struct proxy_op *op)
{
	size_t bytes = op->count * smd_dtype_bytes(op->dtype);
	const unsigned char *got = proxy_slot(proxy, PROXY_RECEIVE, op->slot);

	fleet_doing("check of %zu %s, %s, slot %u", op->count, smd_dtype_name(op->dtype),
		smd_op_name(op->op), op->slot);
	CHECK_EQUAL(pattern_wrong(got, op->dtype, wire_of(op), op->op, 0, op->count, proxy->nranks,
			    op->seed),
		0);
	for (size_t i = bytes; i < proxy->shape.slot_bytes && i < bytes + PROXY_TAIL_BYTES; i++) {
		CHECK_EQUAL(got[i], UNTOUCHED);
	}
}
