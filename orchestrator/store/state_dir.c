/* Finds and makes the state directory. */
#include "orchestrator/store/state_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0700 /* specs and messages may hold secrets */

/* NULL: none is known (errno ENOENT), or out of memory. */
static char *find(void)
{
	const char *own = getenv("SUMMAND_STATE_DIR");
	const char *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	char *path = NULL;
	int ret;

	if (own && *own) {
		return strdup(own);
	}
	if (xdg && *xdg == '/') { /* its specification ignores relative ones */
		ret = asprintf(&path, "%s/summand", xdg);
	} else if (home && *home) {
		ret = asprintf(&path, "%s/.local/state/summand", home);
	} else {
		errno = ENOENT;
		return NULL;
	}
	return ret < 0 ? NULL : path;
}

int smd_state_dir_make_folders(const char *path)
{
	char *copy = strdup(path);
	int ret = 0;

	if (!copy) {
		return -ENOMEM;
	}
	for (char *slash = copy + 1; !ret && *slash; slash++) {
		if (*slash == '/') {
			*slash = '\0';
			ret = mkdir(copy, MODE) && errno != EEXIST ? -errno : 0;
			*slash = '/';
		}
	}
	if (!ret && mkdir(copy, MODE) && errno != EEXIST) {
		ret = -errno;
	}
	free(copy);
	return ret;
}

/* Another user's would mix the jobs of both, as under sudo, which keeps HOME. */
static int check(const char *path, struct smd_error *error)
{
	struct stat status;

	if (stat(path, &status)) {
		return smd_error_set(error, errno, "%s: %s", path, strerror(errno));
	}
	if (!S_ISDIR(status.st_mode)) {
		return smd_error_set(error, ENOTDIR, "%s: must be a directory", path);
	}
	if (status.st_uid != geteuid()) {
		return smd_error_set(error, EPERM,
			"%s: must belong to user %u, who runs this, and belongs to user %u; "
			"SUMMAND_STATE_DIR names another state directory",
			path, (unsigned)geteuid(), (unsigned)status.st_uid);
	}
	if (status.st_mode & 022) {
		return smd_error_set(error, EPERM,
			"%s: must be writable by its owner alone, and has mode %o: `chmod go-w` "
			"it, or "
			"name another one in SUMMAND_STATE_DIR",
			path, status.st_mode & 07777);
	}
	return 0;
}

int smd_state_dir_open(char **path, struct smd_error *error)
{
	char *found = find();
	int ret;

	if (!found) {
		return smd_error_set(error, errno, "%s",
			errno == ENOENT ? "a state directory is needed: SUMMAND_STATE_DIR or HOME "
					  "must be set"
					: strerror(errno));
	}
	ret = smd_state_dir_make_folders(found);
	if (ret) {
		ret = smd_error_set(error, -ret,
			"%s: %s; SUMMAND_STATE_DIR names another state directory", found,
			strerror(-ret));
	}
	ret = ret ? ret : check(found, error);
	if (!ret) {
		*path = realpath(found, NULL);
		ret = *path ? 0 : smd_error_set(error, errno, "%s: %s", found, strerror(errno));
	}
	free(found);
	return ret;
}
