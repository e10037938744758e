/* The algorithms of NCCL's kernels, all-reduce by ring, tree, and
 * CollNet's chain and direct way, the other collectives by ring, send and receive. */
#ifndef SMD_NCCL_SIM_ALGORITHM_H
#define SMD_NCCL_SIM_ALGORITHM_H

#include "primitives.h"

#include <algorithm>
#include <sys/types.h>
#include <vector>

/* One turn of a collective's loop, in elements: its pieces begin at first, stride apart, have so many
 * elements at most, and none behind end. Where the ranks have no pieces of their own there is one. */
struct smd_round {
	ssize_t first, stride, most, end;

	ssize_t at(ssize_t piece) const
	{
		return first + piece * stride;
	}

	ssize_t count(ssize_t piece = 0) const
	{
		return std::min(most, end - at(piece));
	}
};

/* A block's part of a collective. */
struct smd_block_work {
	const char *source;
	char *target;
	size_t count; /* of what each rank gives to an all-gather, or gets of a reduce-scatter */
	int root;
	std::vector<smd_round> rounds;
	bool registered; /* the network reads and writes source and target, which are the only GPU's of the node */
};

/* A block's part of a send or a receive, of bytes. */
struct smd_transfer {
	bool send, ll;
	int peer;
	char *memory;
	char *other; /* where a rank that sends to itself receives */
	size_t bytes, chunk;
};

void smd_algorithm_collective(
	const smd_block &block, const smd_function &function, const smd_block_work &work);
void smd_algorithm_transfer(const smd_block &block, const smd_transfer &work);

#endif
