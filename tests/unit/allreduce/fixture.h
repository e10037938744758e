/*
 * A pool in one process: reduction servers on threads of their own, and ranks on threads of theirs.
 */
#ifndef SMD_TESTS_FIXTURE_H
#define SMD_TESTS_FIXTURE_H

#include "reduction_server/engine/server.h"
#include "worker/summand.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define POOL_SERVERS_MAX 8

/* cmocka's assertions jump, so only the test's own thread may use them; ranks use this one. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__,      \
				#condition, smd_error_message());                                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct pool_server {
	struct event_base *base;
	struct smd_server *server;
	char address[128];
	struct smd_shard_stats stats;
	struct event *ask; /* drain or stop, from the test's thread */
	int now;
	pthread_t thread;
};

struct pool {
	const char *transport;
	bool over_tcp;
	bool over_rdma;
	bool over_shm;
	unsigned nservers;
	struct pool_server servers[POOL_SERVERS_MAX];
	char list[1024]; /* as SUMMAND_REDUCTION_SERVERS takes it */
};

/* Whether pools go over RDMA. There the processor is mostly an emulated one, which computes each packet's
 * checksum, so what is done `rounds` times to be sure is done a quarter as often, with an eighth of the
 * elements in chunks as much shorter, and servers have one shard by default. */
bool pool_is_rdma(void);
bool pool_is_shm(void);
int pool_rounds(int rounds);
size_t pool_count(size_t elements);

/* Whether ranks of pools over "tcp" do small all-reduces among themselves (SUMMAND_TEST_EXCHANGE is
 * 1): bodies begin when they do. Ranks in poll mode do not. */
bool pool_is_exchange(void);

/* Over "tcp", "loopback", "fault" (wrapped around the latter), "fault over tcp", or "rdma" where a
 * test has put something in its place, in both directions. Where SUMMAND_TEST_RDMA is the address
 * of an RDMA device, the first two become "rdma", with servers that take TCP too; where
 * SUMMAND_TEST_SHM is 1 they become "shm" in the same way. Each server's
 * config but transport and listen, which are set here, and zeros, which get small defaults. */
void pool_start(struct pool *pool, const char *transport, unsigned nservers,
	const struct smd_server_config *configs);

/* Ends one server: by draining, at once (1), or by draining and at once (2). Its stats are then
 * complete. */
void pool_end_server(struct pool *pool, unsigned index, int now);
void pool_stop(struct pool *pool);

/* Starts another in the place of one that has ended, at its address.
 * NULL: with the defaults. */
void pool_restart_server(struct pool *pool, unsigned index, const struct smd_server_config *config);

struct pool_rank {
	const struct pool *pool;
	int rank;
	int nranks;
	const char *group;
	smd_context *context;
	smd_comm *comm;
	void *argument;
};

/* Makes the rank's context, named "rank-N", with a time-out of a few seconds; fails the test when
 * it cannot. Large operations are cut at SUMMAND_TEST_SEGMENT bytes, if that is set. */
smd_context *pool_context(const struct pool *pool, int rank);

/* The process loses its lanes to that server, which lives. */
void pool_lose(smd_context *context, unsigned server);
/* The same of so many, one after the other: no word goes round between them. */
void pool_lose_first(smd_context *context, unsigned servers);

/* Runs body() on a thread for each rank, with a context and a communicator, and waits for all. */
void pool_run(const struct pool *pool, int nranks, const char *group,
	void (*body)(struct pool_rank *rank), void *argument);

/* What ranks have done among themselves (SUMMAND_EXCHANGE). */
uint64_t pool_exchanges(smd_context *context);

/* All ranks: small all-reduces until ranks do them among themselves, which SUMMAND_EXCHANGE=on
 * makes soon. The communicator has done nothing before, or the table was changed. */
void pool_await_exchanges(struct pool_rank *rank);
/* They do, and this rank's lane to that one ends now. */
void pool_cut_ranks(smd_comm *comm, unsigned peer);

/* The same where SUMMAND_TEST_EXCHANGE says so and they can; bodies of pool_run() have done it. */
void pool_meet(struct pool_rank *rank);

/* At the end of a program that runs with SUMMAND_TEST_EXCHANGE=1, too: its bodies have exchanged
 * something. */
int pool_check_exchanged(void **state);

/* What a rank contributes to an operation, and the sum in rank order: of three ranks and more another
 * order has other bits. */
float pool_element(int rank, int operation, size_t i);
float pool_sum(int nranks, int operation, size_t i);

/* Of so many elements each. */
void pool_fill(float *buffer, int rank, int operation, size_t count);
void pool_check_sum(const float *buffer, int nranks, int operation, size_t count);

#endif
