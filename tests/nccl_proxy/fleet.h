/*
 * A fleet: processes that take part as the nodes of a job, each with the library under test loaded
 * as NCCL loads it, and a bootstrap that carries bytes from every node to all, as NCCL's does.
 *
 * The process that runs a fleet has no other threads. It ends what hangs: nothing runs longer than
 * the fleet's limit, and a node that fails ends the others.
 *
 * Limits are of a clock that stands still while the nodes starve, that is, while they are ready to
 * run and the machine runs something else. So a busy machine makes a test slow and not red, and a
 * node that really waits for what never comes is found in the same time as on a quiet one.
 */
#ifndef TESTS_NCCL_PROXY_FLEET_H
#define TESTS_NCCL_PROXY_FLEET_H

#include <stdbool.h>
#include <stddef.h>

#define FLEET_NODES_MAX 16
#define FLEET_BYTES_MAX 4096 /* that one node gives to fleet_gather() */

struct fleet_node {
	int rank;
	int nnodes;
	const void *argument;
	int bootstrap; /* a socket to the process that runs the fleet */
};

struct fleet {
	int nnodes;
	int seconds;     /* the limit; sanitizers get more */
	unsigned killed; /* bit r: node r is to die by SIGKILL */
	void (*body)(struct fleet_node *node);
	const void *argument;
};

/* Runs body() in a process for each node. True when every node has ended as it should. */
bool fleet_run(const struct fleet *fleet);

/* Gathers `size` bytes from each node into all[rank * size]; every node must call it. Zeros stand
 * for a node that has ended. */
void fleet_gather(struct fleet_node *node, const void *mine, size_t size, void *all);
void fleet_barrier(struct fleet_node *node);

/* What the node does now; told when it hangs or fails. From any thread. */
void fleet_doing(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds on that clock, from some moment on. From any process of the fleet. */
double fleet_now(void);

/* How the limits of this build differ from a plain one's: a factor. */
int fleet_slowness(void);

/* Of what is done or carried often: all of it; an eighth over an RDMA device (SUMMAND_TEST_RDMA), which is mostly
 * an emulated one that computes each packet's checksum. */
size_t fleet_share(size_t whole);

/* Fails the node: says where and what, and all that was logged, and ends it. */
_Noreturn void fleet_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fleet_fail(__FILE__, __LINE__, "%s does not hold", #condition);            \
		}                                                                                  \
	} while (0)

/* Of integers. */
#define CHECK_EQUAL(got, wanted)                                                                   \
	do {                                                                                       \
		long long got_ = (long long)(got);                                                 \
		long long wanted_ = (long long)(wanted);                                           \
		if (got_ != wanted_) {                                                             \
			fleet_fail(__FILE__, __LINE__, "%s must be %lld, got %lld", #got, wanted_, \
				got_);                                                             \
		}                                                                                  \
	} while (0)

#endif
