/* Reads the quotas of a process's control groups from the kernel's files. */
#include "worker/nccl_plugin/collnet/quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_SIZE (PATH_MAX + 64)
#define PATH_SIZE (2 * LINE_SIZE)

/* How many numbers there are, at most two: where there is no quota is a word, or -1. */
static int read_numbers(const char *folder, const char *name, long long numbers[2])
{
	char path[PATH_SIZE];
	FILE *file;
	int count;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file) {
		return 0;
	}
	count = fscanf(file, "%lld %lld", &numbers[0], &numbers[1]);
	fclose(file);
	return count;
}

static uint64_t thousandths(long long quota, long long period)
{
	if (quota <= 0 || period <= 0 || quota > LLONG_MAX / 1000) {
		return SMD_QUOTA_NONE;
	}
	return (uint64_t)(quota * 1000 / period);
}

static uint64_t quota_of_version_2(const char *folder)
{
	long long numbers[2];

	return read_numbers(folder, "cpu.max", numbers) == 2 ? thousandths(numbers[0], numbers[1])
							     : SMD_QUOTA_NONE;
}

static uint64_t quota_of_version_1(const char *folder)
{
	long long quota[2];
	long long period[2];

	return read_numbers(folder, "cpu.cfs_quota_us", quota) == 1 &&
			       read_numbers(folder, "cpu.cfs_period_us", period) == 1
		       ? thousandths(quota[0], period[0])
		       : SMD_QUOTA_NONE;
}

/* Whether a word is in "cpu,cpuacct". */
static bool list_has(char *list, const char *word)
{
	char *rest;

	for (char *each = strtok_r(list, ",", &rest); each; each = strtok_r(NULL, ",", &rest)) {
		if (strcmp(each, word) == 0) {
			return true;
		}
	}
	return false;
}

/* A process's group of this controller, or of version 2, which names none (""). Empty where it has
 * none. */
static void group_find(const char *groups, const char *controller, char group[LINE_SIZE])
{
	FILE *file = fopen(groups, "re");
	char line[LINE_SIZE];

	group[0] = '\0';
	while (file && !group[0] && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path) {
			continue;
		}
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (*controller ? list_has(controllers + 1, controller) : !controllers[1]) {
			snprintf(group, LINE_SIZE, "%s", path);
		}
	}
	if (file) {
		fclose(file);
	}
}

/* "/../..." is outside of what this process sees as the root. */
static bool group_holds(const char *group, const char *other)
{
	size_t length = strlen(group);

	return strncmp(other, group, length) == 0 && (other[length] == '/' || !other[length]) &&
	       *other && strncmp(other, "/..", 3) != 0;
}

/* The least of a group and all around it. A group that is not to be seen says nothing: a container
 * without a view of its own finds its group at the root. */
static uint64_t quota_upwards(uint64_t (*read)(const char *folder), const char *mount, char *group,
	const char *launchers, unsigned nranks)
{
	uint64_t least = SMD_QUOTA_NONE;

	if (strcmp(group, "/") == 0) {
		group[0] = '\0';
	}
	for (;;) {
		char folder[PATH_SIZE];
		char *slash = strrchr(group, '/');
		uint64_t quota;

		snprintf(folder, sizeof(folder), "%s%s", mount, group);
		quota = read(folder);
		if (quota != SMD_QUOTA_NONE && group_holds(group, launchers)) {
			quota /= nranks;
		}
		least = quota < least ? quota : least;
		if (!slash) {
			return least;
		}
		*slash = '\0';
	}
}

uint64_t smd_quota_find_in(
	const char *groups, const char *launchers, const char *mount, unsigned nranks)
{
	char folder[LINE_SIZE];
	char theirs[LINE_SIZE];
	char own[LINE_SIZE];
	uint64_t one;
	uint64_t two;

	group_find(groups, "", own);
	group_find(launchers, "", theirs);
	two = quota_upwards(quota_of_version_2, mount, own, theirs, nranks);
	group_find(groups, "cpu", own);
	group_find(launchers, "cpu", theirs);
	snprintf(folder, sizeof(folder), "%s/cpu", mount);
	one = quota_upwards(quota_of_version_1, folder, own, theirs, nranks);
	return one < two ? one : two;
}

uint64_t smd_quota_find(const struct smd_local_ranks *ranks)
{
	char launchers[64] = "";

	if (ranks->launcher) {
		snprintf(launchers, sizeof(launchers), "/proc/%d/cgroup", (int)ranks->launcher);
	}
	return smd_quota_find_in("/proc/self/cgroup", launchers, "/sys/fs/cgroup", ranks->count);
}
