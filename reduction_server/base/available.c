/* Reads how much memory is left from the kernel's files. */
#include "reduction_server/base/available.h"

#include <stdio.h>

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

uint64_t smd_memory_available(void)
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

bool smd_memory_overcommits(const char *path)
{
	return read_number(path) != 2;
}
