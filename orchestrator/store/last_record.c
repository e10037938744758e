/* Reads the records in a job's directory. */
#include "orchestrator/store/last_record.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reduction_server/base/printable.h"

#define RECORD     "state.json"
#define RECORD_MAX (64 << 20)
#define PLAN       "plan.txt"
#define PLAN_MAX   (1 << 20)

static int open_file(const char *directory, const char *name)
{
	int folder = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = -1;

	if (folder >= 0) {
		fd = openat(
			folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
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

/* The record of the job of that name, or of a trial, which has none (NULL); NULL: there is none. */
static json_t *record_of(const char *directory, const char *name)
{
	int fd = *directory ? open_file(directory, RECORD) : -1;
	json_t *record = fd < 0 ? NULL : read_record(fd);
	const char *of = json_string_value(json_object_get(record, "name"));

	if (fd >= 0) {
		close(fd);
	}
	if (name ? of && strcmp(of, name) == 0 : !of) {
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

static json_t *part_of_record(
	const char *directory, const char *name, const char *key, json_type type)
{
	json_t *record = record_of(directory, name);
	json_t *part = json_object_get(record, key);

	part = part && json_typeof(part) == type ? json_incref(part) : NULL;
	json_decref(record);
	return part;
}

json_t *smd_last_record_servers(const char *directory, const char *name)
{
	return part_of_record(directory, name, "reductionServers", JSON_OBJECT);
}

json_t *smd_last_record_progress(const char *directory, const char *name)
{
	return part_of_record(directory, name, "progress", JSON_OBJECT);
}

json_t *smd_last_record_trials(const char *directory, const char *name)
{
	return part_of_record(directory, name, "trials", JSON_ARRAY);
}

json_t *smd_last_record_replicas(const char *directory, const char *name)
{
	static const char *const keys[] = {
		"updateTime", "progress", "replicas", "reductionServers", "hostsLeftOut"};
	json_t *record = record_of(directory, name);
	json_t *shown = json_is_array(json_object_get(record, "replicas")) ? json_object() : NULL;

	for (size_t i = 0; shown && i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_object_set(shown, keys[i], json_object_get(record, keys[i]));
	}
	json_decref(record);
	return shown;
}

char *smd_last_record_plan(const char *directory)
{
	int fd = *directory ? open_file(directory, PLAN) : -1;
	struct stat status;
	ssize_t length = -1;
	char *text = NULL;

	if (fd < 0) {
		return NULL;
	}
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= PLAN_MAX) {
		text = malloc((size_t)status.st_size + 1);
		length = text ? read(fd, text, (size_t)status.st_size) : -1;
	}
	close(fd);
	if (length < 0) {
		free(text);
		return NULL;
	}
	text[length] = '\0';
	smd_printable_lines(text);
	return text;
}
