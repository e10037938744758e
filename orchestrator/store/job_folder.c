/* Walks through a job's directory. */
#include "orchestrator/store/job_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_SIZE 512 /* of st_blocks */
#define TOP_LEVEL  1

int smd_job_folder_is_own(const char *state_dir, const char *directory)
{
	static const char folders[] = "/" SMD_JOB_FOLDERS "/";
	size_t length = strlen(state_dir);
	const char *name = directory + length + sizeof(folders) - 1;

	return strncmp(directory, state_dir, length) == 0 &&
	       strncmp(directory + length, folders, sizeof(folders) - 1) == 0 && *name &&
	       !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* What the runner makes (specs/design/runner.md, "The job directory"). */
static int is_of_runner(const char *name)
{
	static const char *const names[] = {"spec.json", "resolved.json", "plan.txt", "token",
		"env", "logs", "exits", "errors", "state.json", "summary.json", ".reserve", "code",
		"packages", "output", "metrics", "trials", "scale.json", "servers"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(name, names[i], length) == 0 &&
			(!name[length] || strcmp(name + length, ".tmp") == 0)) {
			return 1;
		}
	}
	return 0;
}

/* The name of the folder of that level that an entry is in, or of itself. */
static const char *name_at(const FTSENT *entry, int level)
{
	while (entry->fts_level > level) {
		entry = entry->fts_parent;
	}
	return entry->fts_name;
}

static int is_in_cache(const FTSENT *entry)
{
	for (; entry->fts_level > TOP_LEVEL; entry = entry->fts_parent) {
		if (strcmp(entry->fts_name, "__pycache__") == 0) {
			return 1;
		}
	}
	return 0;
}

static int is_later(const struct timespec *time, const struct timespec *than)
{
	return time->tv_sec > than->tv_sec ||
	       (time->tv_sec == than->tv_sec && time->tv_nsec > than->tv_nsec);
}

/* Code is copied, with its times, after the job has been recorded. */
static int is_output(const FTSENT *entry, const struct timespec *recorded)
{
	int level = TOP_LEVEL;
	const char *top = name_at(entry, level);

	if (strcmp(top, "trials") == 0) { /* each is a job's directory */
		level += 2;
		if (entry->fts_level < level) {
			return 0;
		}
		top = name_at(entry, level);
	}
	if (!is_of_runner(top)) {
		return 1;
	}
	if (entry->fts_level == level) {
		return 0;
	}
	return strcmp(top, "output") == 0 ||
	       (strcmp(top, "code") == 0 && !is_in_cache(entry) &&
		       is_later(&entry->fts_statp->st_mtim, recorded));
}

static struct timespec when_recorded(const char *directory)
{
	struct timespec never = {.tv_sec = 0};
	struct stat status;
	char *path;

	if (asprintf(&path, "%s/resolved.json", directory) < 0) {
		return never;
	}
	if (lstat(path, &status) == 0) {
		never = status.st_mtim;
	}
	free(path);
	return never;
}

static FTS *open_walk(const char *directory)
{
	char *const paths[] = {(char *)directory, NULL};

	return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
}

int smd_job_folder_measure(const char *directory, struct smd_job_folder_content *out)
{
	const struct timespec recorded = when_recorded(directory);
	FTS *walk = open_walk(directory);
	FTSENT *entry;

	*out = (struct smd_job_folder_content){.bytes = 0};
	if (!walk) {
		return -errno;
	}
	while ((entry = fts_read(walk))) {
		if (entry->fts_info == FTS_DP || entry->fts_info == FTS_NS) {
			continue;
		}
		out->bytes += (uint64_t)entry->fts_statp->st_blocks * BLOCK_SIZE;
		if (entry->fts_level >= TOP_LEVEL && entry->fts_info != FTS_D &&
			is_output(entry, &recorded)) {
			out->has_outputs = 1;
		}
	}
	fts_close(walk);
	return 0;
}

int smd_job_folder_lock(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		return -errno;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int ret = errno == EWOULDBLOCK ? -EBUSY : -errno;

		close(fd);
		return ret;
	}
	return fd;
}

/* 0 or -errno. A folder that its owner may not write is made writable, as programs leave such. */
static int remove_entry(const FTSENT *entry)
{
	switch (entry->fts_info) {
	case FTS_D:
		if ((entry->fts_statp->st_mode & S_IRWXU) != S_IRWXU) {
			chmod(entry->fts_accpath, S_IRWXU);
		}
		return 0;
	case FTS_DP:
		return rmdir(entry->fts_accpath) ? -errno : 0;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return entry->fts_errno == ENOENT ? 0 : -entry->fts_errno;
	default:
		return unlink(entry->fts_accpath) && errno != ENOENT ? -errno : 0;
	}
}

int smd_job_folder_remove(const char *directory)
{
	FTS *walk = open_walk(directory);
	FTSENT *entry;
	int first = 0;

	if (!walk) {
		return -errno;
	}
	while ((entry = fts_read(walk))) {
		int ret = remove_entry(entry);

		first = first ? first : ret;
	}
	fts_close(walk);
	return first;
}
