/*
 * What the scenarios of the net tables are made of: connections between nodes, messages of known
 * bytes, and requests that are waited for.
 */
#ifndef TESTS_NCCL_PROXY_NET_ENDS_H
#define TESTS_NCCL_PROXY_NET_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/nccl_proxy/fleet.h"
#include "tests/nccl_proxy/net_call.h"

#define WAIT_S   60 /* for what must end by itself */
#define FLEET_S  90 /* of a fleet: later, so that the check tells what did not end */
#define NOBODY_S 2  /* SUMMAND_CONNECT_TIMEOUT of the scenario that waits for it */

struct ends {
	void *send;
	void *recv;
	int to;
	int from;
};

/* fleet_now(). */
double now(void);
/* Each node sends to `to` and receives from `from`, by a handle that the bootstrap carries. */
struct ends connect_to(struct fleet_node *node, const struct net *net, int to, int from);
struct ends connect_ring(struct fleet_node *node, const struct net *net);
void close_ends(const struct net *net, const struct ends *ends);
void fill(uint8_t *data, size_t size, int rank, int message);
/* The message is there, and what is behind it is as it was. */
void check(const uint8_t *data, size_t size, size_t room, int rank, int message);
uint8_t *buffer(size_t size);
void start_send(const struct net *net, void *comm, void *data, size_t size, int tag, void *mhandle,
	void **request);
void start_receive(const struct net *net, void *comm, void *data, size_t size, int tag,
	void *mhandle, void **request);
/* Tests it until it is done, or fails: its result. */
int finish(const struct net *net, void *request, int *sizes);
/* Both at once, as a proxy does. */
void finish_both(const struct net *net, void *send, void *receive, int *size);

#endif
