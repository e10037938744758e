/* Finds out how much memory there is, and decides how much of it the slots get. */
#include "reduction_server/engine/memory.h"
#include "reduction_server/engine/buffer_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

static uint64_t read_number(const char *path)
{
	unsigned long long value = UINT64_MAX;
	FILE *file = fopen(path, "r");

	if (!file) {
		return UINT64_MAX;
	}
	if (fscanf(file, "%llu", &value) != 1) {
		value = UINT64_MAX; /* "max" */
	}
	fclose(file);
	return value;
}

static uint64_t read_available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	unsigned long long kib = UINT64_MAX / 1024;
	char line[128];

	if (!file) {
		return UINT64_MAX;
	}
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
			break;
		}
	}
	fclose(file);
	return kib * 1024;
}

/* What the machine and, in a container, the control group at the root of its view leave. */
static uint64_t memory_available(void)
{
	uint64_t available = read_available();
	uint64_t limit = read_number("/sys/fs/cgroup/memory.max");

	if (limit != UINT64_MAX) {
		uint64_t used = read_number("/sys/fs/cgroup/memory.current");
		uint64_t left = used < limit ? limit - used : 0;

		available = left < available ? left : available;
	}
	return available;
}

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
			"each of %u threads, got %.1f MiB",
			least / MIB, shards, wanted / MIB);
	}
	return 0;
}

int smd_memory_decide(uint64_t wanted, unsigned shards, uint32_t chunk_bytes, uint64_t *out,
	struct smd_error *error)
{
	uint64_t least = memory_least(shards, chunk_bytes);
	uint64_t available = memory_available();
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
			"of %u threads, got %.1f MiB",
			least / MIB, shards, decided / MIB);
	}
	*out = decided;
	return 0;
}
