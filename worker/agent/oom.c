/* Reads a memory cgroup's count of processes killed for lack of memory. */
#include "worker/agent/oom.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LINE_SIZE (PATH_MAX + 64)

static long read_count(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[LINE_SIZE];
	long kills = -1;

	while (file && kills < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "oom_kill %ld", &kills) != 1) {
			kills = -1;
		}
	}
	if (file) {
		fclose(file);
	}
	return kills;
}

/* What belongs to a group without a count of its own is counted in the next one above. */
static long count_upwards(const char *mount, char *group, const char *name)
{
	for (;;) {
		char path[2 * LINE_SIZE];
		char *slash = strrchr(group, '/');
		long kills;

		snprintf(path, sizeof(path), "%s%s/%s", mount, group, name);
		kills = read_count(path);
		if (kills >= 0 || !slash) {
			return kills;
		}
		*slash = '\0';
	}
}

/* Version 1, whose groups have one controller each. */
static long count_of_controller(const char *mount, char *group)
{
	char folder[LINE_SIZE];

	snprintf(folder, sizeof(folder), "%s/memory", mount);
	return count_upwards(folder, group, "memory.oom_control");
}

/* Version 2. The file that counts without the groups below is there since Linux 5.2. */
static long count_of_unified(const char *mount, char *group)
{
	char below[LINE_SIZE];
	long kills;

	snprintf(below, sizeof(below), "%s", group);
	kills = count_upwards(mount, below, "memory.events.local");
	return kills >= 0 ? kills : count_upwards(mount, group, "memory.events");
}

long smd_oom_kills_in(const char *groups, const char *mount)
{
	FILE *file = fopen(groups, "re");
	char line[LINE_SIZE];
	long kills = -1;

	while (file && kills < 0 && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group) {
			continue;
		}
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(controllers + 1, "memory") == 0) {
			kills = count_of_controller(mount, group);
		} else if (!controllers[1]) {
			kills = count_of_unified(mount, group);
		}
	}
	if (file) {
		fclose(file);
	}
	return kills;
}

long smd_oom_kills(void)
{
	return smd_oom_kills_in("/proc/self/cgroup", "/sys/fs/cgroup");
}
