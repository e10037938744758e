/* A shard without a loop and a thread, to whose lanes a test gives what workers say. */
#ifndef SMD_TESTS_BARE_SHARD_H
#define SMD_TESTS_BARE_SHARD_H

#include "reduction_server/engine/shard.h"

/* With a pool of so many buffers of that size, all of which one job may have. */
void bare_shard_make(
	struct smd_shard *shard, size_t buffers, uint32_t chunk_bytes, unsigned window);
/* Closes its peers. All buffers must be given back then. */
void bare_shard_end(struct smd_shard *shard);

#endif
