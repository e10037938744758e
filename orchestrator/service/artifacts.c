/*
 * Answers with what replicas have left in a job's output folder: a list, and the files in it.
 *
 * Replicas may have put anything there. A file is asked for by its name in the list, which is made
 * anew for that, and is opened from the folder's descriptor without any link on the way.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/service/desk.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/printable.h"

#define FOLDER      "output"
#define COUNT_MAX   10000
#define DEPTH_MAX   16
#define NAME_SIZE   1024
#define NUMBER_SIZE 32
#define TIME_SIZE   64

/* A walk through the folder. */
struct artifact_walk {
	json_t *list;       /* gets all files; NULL: one is looked for */
	const char *wanted; /* that one */
	int is_found;
	size_t seen; /* files and folders */
	int is_cut;  /* there is more than is told */
};

/* Below the folder, and through no link. -1: errno says why not. */
static int open_below(int folder, const char *name, uint64_t flags)
{
	const struct open_how how = {
		.flags = flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};

	return (int)syscall(SYS_openat2, folder, name, &how, sizeof(how));
}

static int open_output(const char *directory)
{
	int job = *directory ? open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	int folder = job < 0 ? -1 : open_below(job, FOLDER, O_RDONLY | O_DIRECTORY);

	if (job >= 0) {
		close(job);
	}
	return folder;
}

static void add_file(struct artifact_walk *walk, const char *name, const struct stat *status)
{
	char size[NUMBER_SIZE];
	char changed[TIME_SIZE];
	struct tm parts;

	if (!walk->list) {
		walk->is_found |= strcmp(name, walk->wanted) == 0;
		return;
	}
	snprintf(size, sizeof(size), "%" PRId64, (int64_t)status->st_size);
	gmtime_r(&status->st_mtime, &parts);
	strftime(changed, sizeof(changed), "%Y-%m-%dT%H:%M:%SZ", &parts);
	json_array_append_new(walk->list, json_pack("{s:s, s:s, s:s}", "name", name, "sizeBytes",
						  size, "updateTime", changed));
}

static void walk_folder(struct artifact_walk *walk, int folder, const char *prefix, int depth);

static void take_entry(
	struct artifact_walk *walk, int folder, const char *entry, const char *prefix, int depth)
{
	char name[NAME_SIZE];
	struct stat status;
	size_t length;
	int below;

	if (snprintf(name, sizeof(name), "%s%s", prefix, entry) >= NAME_SIZE ||
		smd_unprintable(name, &length) ||
		fstatat(folder, entry, &status, AT_SYMLINK_NOFOLLOW)) {
		walk->is_cut = 1;
	} else if (S_ISREG(status.st_mode)) {
		add_file(walk, name, &status);
	} else if (S_ISDIR(status.st_mode)) {
		below = depth == DEPTH_MAX || strlen(name) + 2 > sizeof(name)
				? -1
				: open_below(folder, entry, O_RDONLY | O_DIRECTORY);
		walk->is_cut |= below < 0;
		if (below >= 0) {
			strcat(name, "/");
			walk_folder(walk, below, name, depth + 1);
		}
	}
}

/* Takes over the descriptor. */
static void walk_folder(struct artifact_walk *walk, int folder, const char *prefix, int depth)
{
	DIR *entries = fdopendir(folder);
	const struct dirent *entry;

	if (!entries) {
		close(folder);
		return;
	}
	while (!walk->is_found && (entry = readdir(entries))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
			continue;
		}
		if (walk->seen++ == COUNT_MAX) {
			walk->is_cut = 1;
			break;
		}
		take_entry(walk, folder, entry->d_name, prefix, depth);
	}
	closedir(entries);
}

static void answer_list(struct smd_call *call, int folder)
{
	struct artifact_walk walk = {.list = json_array()};

	if (folder >= 0 && walk.list) {
		walk_folder(&walk, folder, "", 0);
	}
	smd_answer_set(&call->request->answer,
		json_pack("{s:o, s:b}", "artifacts", walk.list, "isTruncated", walk.is_cut));
}

static int open_artifact(int folder, const char *name, struct stat *status)
{
	struct artifact_walk walk = {.wanted = name};
	int walked = folder < 0 ? -1 : dup(folder);
	int fd;

	if (walked < 0) {
		return -1;
	}
	walk_folder(&walk, walked, "", 0);
	fd = walk.is_found ? open_below(folder, name, O_RDONLY) : -1;
	if (fd >= 0 && (fstat(fd, status) || !S_ISREG(status->st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void answer_file(struct smd_call *call, int folder, const char *name)
{
	struct stat status;
	int fd = open_artifact(folder, name, &status);

	if (fd < 0) {
		smd_answer_fail(&call->request->answer, SMD_RPC_NOT_FOUND,
			"The job has no artifact of that name");
	} else {
		smd_answer_send(&call->request->answer, fd, (uint64_t)status.st_size);
	}
	if (folder >= 0) {
		close(folder);
	}
}

void smd_job_artifacts(struct smd_call *call)
{
	const char *name = smd_uri_parameter(&call->request->uri, "artifact");
	struct smd_job_copy copy;
	int folder;

	if (smd_call_find(call, &copy)) {
		return;
	}
	folder = open_output(copy.job.directory);
	smd_job_copy_free(&copy);
	if (name) {
		answer_file(call, folder, name);
	} else {
		answer_list(call, folder);
	}
}
