/* Decides how much of the memory that there is the slots get. */
#include "reduction_server/engine/memory.h"
#include "reduction_server/base/available.h"
#include "reduction_server/engine/buffer_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

/* A slot of two ranks in each of them. */
static uint64_t memory_least(unsigned shards, uint32_t chunk_bytes)
{
	return 3ull * SMD_BUFFER_POOL_STRIDE(chunk_bytes) * shards;
}

int smd_memory_check_job(uint64_t wanted, uint64_t memory, unsigned shards, uint32_t chunk_bytes,
	struct smd_error *error)
{
	uint64_t least = memory_least(shards, chunk_bytes);

	if (wanted > memory) {
		return smd_error_set(error, EINVAL,
			"job memory limit: must be at most the %.1f MiB that all jobs have, got "
			"%.1f MiB",
			memory / MIB, wanted / MIB);
	}
	if (wanted && wanted < least) {
		return smd_error_set(error, EINVAL,
			"job memory limit: must be at least %.1f MiB for a slot of two ranks in "
			"each of %u thread%s, got %.1f MiB",
			least / MIB, shards, shards == 1 ? "" : "s", wanted / MIB);
	}
	return 0;
}

int smd_memory_decide(uint64_t wanted, unsigned shards, uint32_t chunk_bytes, uint64_t *out,
	struct smd_error *error)
{
	uint64_t least = memory_least(shards, chunk_bytes);
	uint64_t available = smd_memory_available();
	uint64_t decided = wanted;

	if (wanted == 0) {
		decided = available / 2 < SMD_MEMORY_DEFAULT ? available / 2 : SMD_MEMORY_DEFAULT;
	} else if (wanted > available) {
		return smd_error_set(error, ENOMEM,
			"memory limit: must be at most the %.0f MiB that are available, got %.0f "
			"MiB",
			available / MIB, wanted / MIB);
	}
	if (decided < least) {
		return smd_error_set(error, EINVAL,
			"memory limit: must be at least %.1f MiB for a slot of two ranks in each "
			"of %u thread%s, got %.1f MiB",
			least / MIB, shards, shards == 1 ? "" : "s", decided / MIB);
	}
	*out = decided;
	return 0;
}
