/* Looks for what no job has left there: a job overwrites spec.json, and copies its code into code/.
 */
#include "orchestrator/runner/jobdir_claim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/runner/jobdir.h"

/* What a job makes before anything else; as long as there is no more, nothing can be lost. */
static int is_own_folder(const char *name)
{
	static const char *const folders[] = {".", "..", "env", "logs", "exits", "errors"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (strcmp(name, folders[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

/* An earlier job has left its record there. */
static int has_record(int dir)
{
	int fd = openat(dir, SMD_RECORD, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	json_t *record = NULL;
	int is_record;

	if (fd < 0) {
		return 0;
	}
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		status.st_size <= SMD_RECORD_MAX) {
		record = json_loadfd(fd, 0, NULL);
	}
	close(fd);
	is_record = json_is_array(json_object_get(record, "replicas")) &&
		    json_is_string(json_object_get(record, "state"));
	json_decref(record);
	return is_record;
}

/* NULL: there is nothing foreign. */
static const char *find_foreign(int dir, DIR *folder)
{
	const struct dirent *entry;

	while ((entry = readdir(folder))) {
		if (!is_own_folder(entry->d_name)) {
			return has_record(dir) ? NULL : entry->d_name;
		}
	}
	return NULL;
}

int smd_jobdir_claim(int fd, const char *path, struct smd_error *error)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = copy < 0 ? NULL : fdopendir(copy);
	const char *foreign;
	int ret = 0;

	if (!folder) {
		ret = smd_error_set(error, errno, "--job-dir=%s: %s", path, strerror(errno));
		if (copy >= 0) {
			close(copy);
		}
		return ret;
	}
	foreign = find_foreign(fd, folder);
	if (foreign) {
		ret = smd_error_set(error, EEXIST,
			"--job-dir=%s: must be empty or the directory of an earlier job, got one "
			"with %s in it",
			path, foreign);
	}
	closedir(folder);
	return ret;
}
