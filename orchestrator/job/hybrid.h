/*
 * What reducers on the workers' own hosts get where there are fewer reduction servers than workers,
 * and what an all-reduce takes then (specs/design/hybrid.md has the derivation).
 *
 * n worker hosts have links of B, the servers' links are S together; M is what each worker reduces.
 * The share of a worker host's reducer is to that of a server of rate b as nB - S to 2(n-1)b, and
 * all links are busy for the same time. With k servers of rate B that is n-k to 2(n-1).
 */
#ifndef SMD_JOB_HYBRID_H
#define SMD_JOB_HYBRID_H

#include <stdint.h>

#include "reduction_server/base/parse.h"

struct smd_hybrid {
	int workers;          /* hosts, 1 or more */
	uint64_t worker_mbps; /* of one; of the slowest, where they differ */
	int servers;
	uint64_t servers_mbps; /* of all together */
};

/* Of the reducer on each worker's host, as part of what a server of the average rate gets, in lowest
 * terms; of part 0 where servers are enough, and no reducers are needed. Rates must be known. */
struct smd_share smd_hybrid_share(const struct smd_hybrid *hybrid);

/* In units of M / B, for servers whose links are `servers` times a worker's, together. A ring takes
 * what no servers do. */
double smd_hybrid_time(int workers, double servers);

#endif
