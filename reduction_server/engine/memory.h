/*
 * How much memory the slot pools may have on this machine.
 */
#ifndef SMD_ENGINE_MEMORY_H
#define SMD_ENGINE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "reduction_server/base/error.h"

#define SMD_MEMORY_DEFAULT (4ull << 30)

/*
 * `wanted` bytes, or 0 for the default: 4 GiB, but at most half of what is available. A wanted size
 * that is more than the machine (or its control group) has available is refused with -ENOMEM; one
 * that does not hold a slot of two ranks in every shard with -EINVAL. The text says both figures.
 */
int smd_memory_decide(uint64_t wanted, unsigned shards, uint32_t chunk_bytes, uint64_t *out,
	struct smd_error *error);

/*
 * What one job may have of `memory` bytes; 0: the default. -EINVAL with a text for more than there
 * is, and for what does not hold a slot of two ranks in every shard.
 */
int smd_memory_check_job(uint64_t wanted, uint64_t memory, unsigned shards, uint32_t chunk_bytes,
	struct smd_error *error);

#endif
