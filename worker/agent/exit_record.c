/* Writes the exit record, which appears whole or not at all. */
#include "worker/agent/exit_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void smd_timestamp(char text[SMD_TIMESTAMP_SIZE])
{
	struct timespec now;
	struct tm parts;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	used = strftime(text, SMD_TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + used, SMD_TIMESTAMP_SIZE - used, ".%09ldZ", now.tv_nsec);
}

static void print_end(FILE *file, const struct smd_exit *end)
{
	switch (end->kind) {
	case SMD_EXIT_CODE:
		fprintf(file, "\"exit_code\": %d", end->value);
		break;
	case SMD_EXIT_SIGNAL:
		fprintf(file, "\"signal\": %d, \"core_dumped\": %s, \"oom_killed\": %s", end->value,
			end->core_dumped ? "true" : "false", end->oom_killed ? "true" : "false");
		break;
	case SMD_EXIT_ERRNO:
		fprintf(file, "\"errno\": %d", end->value);
		break;
	}
}

/* The folder of the record, and the record's name in it. The command may have put a link in the
 * folder's place, which may lead anywhere. A descriptor, or -errno. */
static int open_folder(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path + (slash == path)))
			     : strdup(".");
	int fd;

	*name = slash ? slash + 1 : path;
	if (!folder) {
		return -ENOMEM;
	}
	fd = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = fd < 0 ? -errno : fd;
	free(folder);
	return fd;
}

/* The command may have put something there that is no file. */
static void remove_any(int folder, const char *name)
{
	if (unlinkat(folder, name, 0)) {
		unlinkat(folder, name, AT_REMOVEDIR);
	}
}

static void print_record(FILE *file, const struct smd_exit *end)
{
	fprintf(file, "{");
	print_end(file, end);
	fprintf(file, ", \"start_time\": \"%s\", \"end_time\": \"%s\"}\n", end->start_time,
		end->end_time);
}

void smd_exit_record_send(int fd, const struct smd_exit *end)
{
	char text[SMD_EXIT_RECORD_MAX] = "";
	FILE *file = fmemopen(text, sizeof(text), "w");

	if (file) {
		print_record(file, end);
		fclose(file);
		(void)!write(fd, text, strlen(text));
	}
}

static int write_record(int folder, const char *name, const struct smd_exit *end)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file) {
		return -errno;
	}
	print_record(file, end);
	return fclose(file) ? -errno : 0; /* all of it is written here: it fits the buffer */
}

int smd_exit_record_write(const char *path, const struct smd_exit *end)
{
	const char *name;
	char *temporary;
	int folder = open_folder(path, &name);
	int ret;

	if (folder < 0) {
		return folder;
	}
	if (asprintf(&temporary, "%s.tmp", name) < 0) {
		ret = -ENOMEM;
		goto close_folder;
	}
	remove_any(folder, temporary);
	ret = write_record(folder, temporary, end);
	if (!ret && renameat(folder, temporary, folder, name)) {
		ret = -errno;
	}
	if (ret) {
		remove_any(folder, temporary);
	}
	free(temporary);
close_folder:
	close(folder);
	return ret;
}
