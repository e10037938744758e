/* Reads state.json of a job whose runner is gone. */
#include "orchestrator/store/last_record.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME  "state.json"
#define RECORD_MAX (64 << 20)

static int open_record(const char *directory)
{
	int folder = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = -1;

	if (folder >= 0) {
		fd = openat(folder, FILE_NAME,
			O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
		close(folder);
	}
	return fd;
}

static json_t *read_record(int fd)
{
	struct stat status;

	if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > RECORD_MAX) {
		return NULL;
	}
	return json_loadfd(fd, 0, NULL);
}

/* The record of the job of that name; NULL: there is none. */
static json_t *record_of(const char *directory, const char *name)
{
	int fd = *directory ? open_record(directory) : -1;
	json_t *record = fd < 0 ? NULL : read_record(fd);
	const char *of = json_string_value(json_object_get(record, "name"));

	if (fd >= 0) {
		close(fd);
	}
	if (of && strcmp(of, name) == 0) {
		return record;
	}
	json_decref(record);
	return NULL;
}

json_t *smd_last_record_read(const char *directory, const char *name)
{
	json_t *record = record_of(directory, name);

	if (json_string_value(json_object_get(record, "state")) &&
		json_string_value(json_object_get(record, "endTime"))) {
		return record;
	}
	json_decref(record);
	return NULL;
}

json_t *smd_last_record_servers(const char *directory, const char *name)
{
	json_t *record = record_of(directory, name);
	json_t *servers = json_object_get(record, "reductionServers");

	servers = json_is_object(servers) ? json_incref(servers) : NULL;
	json_decref(record);
	return servers;
}

json_t *smd_last_record_trials(const char *directory, const char *name)
{
	json_t *record = record_of(directory, name);
	json_t *trials = json_object_get(record, "trials");

	trials = json_is_array(trials) ? json_incref(trials) : NULL;
	json_decref(record);
	return trials;
}
