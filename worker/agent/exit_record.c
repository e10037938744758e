/* Writes the exit record, which appears whole or not at all. */
#include "worker/agent/exit_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

int smd_exit_record_write(const char *path, const struct smd_exit *end)
{
	char *temporary;
	FILE *file;
	int fd;
	int ret = 0;

	if (asprintf(&temporary, "%s.tmp", path) < 0) {
		return -ENOMEM;
	}
	remove(temporary); /* the command may have put something there that is no file */
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		ret = -errno;
		goto free_temporary;
	}
	fprintf(file, "{");
	print_end(file, end);
	fprintf(file, ", \"start_time\": \"%s\", \"end_time\": \"%s\"}\n", end->start_time,
		end->end_time);
	if (fclose(file)) {
		ret = -errno; /* all of it is written here: it fits the buffer */
	} else if (rename(temporary, path)) {
		ret = -errno;
	}
	if (ret) {
		remove(temporary);
	}
free_temporary:
	free(temporary);
	return ret;
}
