/*
 * What NCCL's proxy does for one communicator: it listens and connects on its service thread, has a
 * bounce buffer that is registered twice, and starts and tests all-reduces on its progress thread,
 * which is the caller's.
 *
 * The buffer has a half for what is sent and one for what is received, each of `slots` slots.
 */
#ifndef TESTS_NCCL_PROXY_PROXY_H
#define TESTS_NCCL_PROXY_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/nccl_proxy/collnet.h"
#include "tests/nccl_proxy/fleet.h"

#define PROXY_TAIL_BYTES 4096 /* so much behind a result is looked at */

enum proxy_side { PROXY_SEND, PROXY_RECEIVE };

struct proxy_shape {
	uint64_t comm_id;
	const int *members; /* the nodes that take part, in the order of ranks; NULL: all */
	int nmembers;
	unsigned slots;
	size_t slot_bytes;
};

struct proxy {
	struct collnet *collnet;
	struct collnet_contexts contexts;
	struct proxy_shape shape;
	int rank; /* -1: this node is no member */
	int nranks;
	void *listen_comm;
	void *coll;
	void *mhandles[2];
	unsigned char *buffer; /* NULL: unmapped */
	unsigned tested;       /* tests so far: every other one asks for no size */
};

/* An all-reduce out of one slot into the same one of the other half. */
struct proxy_op {
	unsigned slot;
	unsigned dtype;
	unsigned op;
	size_t count;
	uint64_t seed; /* of its pattern */
	bool in_place; /* in the slot of the receiving half */
	void *request; /* NULL: not in flight */
	bool asked;    /* test() has been called for it */
};

/* init() to getProperties() and listen(); the handle is written where the node is a member. */
void proxy_listen(struct proxy *proxy, struct collnet *collnet, const struct fleet_node *node,
	const struct proxy_shape *shape, char handle[NCCL_HANDLE_BYTES]);
/* What connect() returned. When it failed, nothing is left of the communicator but its contexts. */
int proxy_connect(struct proxy *proxy, const char *handles);
/* Both, with the handles carried by the fleet's bootstrap; every node calls it. Fails the node when
 * connect() does. */
void proxy_open(struct proxy *proxy, struct collnet *collnet, struct fleet_node *node,
	const struct proxy_shape *shape);

/* Registers the buffer for both sides. */
void proxy_register(struct proxy *proxy);
/* deregMr() of one side, and then the buffer is gone, as after NCCL has aborted; of the other one.
 */
void proxy_deregister(struct proxy *proxy, enum proxy_side first);
/* The rest, and after a failed connect all: closeColl() and finalize(). */
void proxy_close(struct proxy *proxy);

unsigned char *proxy_slot(const struct proxy *proxy, enum proxy_side side, unsigned slot);

/* iallreduce(), and its result. op->request stays NULL where it could not begin now. */
int proxy_start(struct proxy *proxy, struct proxy_op *op);
/* Fills the slots of what is to be sent and received. */
void proxy_fill(struct proxy *proxy, struct proxy_op *op);
/* That, and the start. */
int proxy_fill_and_start(struct proxy *proxy, struct proxy_op *op);
/* test(), and its result. op->request becomes NULL when it is done. */
int proxy_test(struct proxy *proxy, struct proxy_op *op);
/* Tests until it is done. */
void proxy_wait(struct proxy *proxy, struct proxy_op *op);
/* The result, and that nothing lies behind it. */
void proxy_verify(const struct proxy *proxy, const struct proxy_op *op);

#endif
