/*
 * What tests of lanes that are made share: a transport whose halves cannot be made for reasons that
 * tests choose ("either" is that one and TCP, as "auto" has RDMA and TCP), servers that take it, a
 * rank that works, and a server that returns.
 *
 * One test at a time. Failures end the test.
 */
#ifndef SMD_TESTS_UNIT_ALLREDUCE_PAIRING_H
#define SMD_TESTS_UNIT_ALLREDUCE_PAIRING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "reduction_server/transport/testing/carried.h"
#include "tests/unit/allreduce/fixture.h"

#define PAIRING_CHUNK    4096
#define PAIRING_SILENT_S 11 /* longer than a server that returns has by default */

extern struct smd_transport_ops pairing_moody; /* else it is "carried" */

struct pairing_moods {
	atomic_int err;
	atomic_uint workers; /* so many of the first offers of theirs fail with it, */
	atomic_uint servers; /* and so many of theirs */
	atomic_uint kinds;   /* that the last server's offer was made for */
};
extern struct pairing_moods pairing_moods;

/* Before each test. */
int pairing_set_up(void **state);

/* Of a server of so many shards that takes TCP, and (also) the moody transport. */
struct smd_server_config pairing_configure(
	unsigned shards, bool also, const struct smd_tokens *tokens);
void pairing_start(struct pool *pool, const char *transport, unsigned shards, bool also,
	const struct smd_tokens *tokens);

/* One rank over that transport: 0, or -errno with what the library says. */
int pairing_work(const struct pool *pool, const char *transport, unsigned timeout_s);

/* Server 0 ends and is started again; until it has returned so many times. */
void pairing_return_server(
	struct pool *pool, const struct smd_server_config *config, unsigned times);

/* A server returns twice to a rank that had its lanes over the moody transport: the first time one
 * of *away makes that fail, and TCP takes over; the second time it is tried again. */
void pairing_return_twice(atomic_uint *away);

#endif
