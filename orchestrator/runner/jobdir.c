/* Creates a job's directory; writes and reads files in it. */
#include "orchestrator/runner/jobdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_DEFAULT    "custom-job"
#define RESERVE         ".reserve"
#define FOLDER_MODE     0777 /* the umask decides */
#define ATTEMPTS_MAX    1000 /* jobs of the same name in the same second */
#define STAMP_SIZE      32
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

void smd_jobdir_sanitise(char name[SMD_JOBDIR_NAME_SIZE], const char *display_name)
{
	size_t used = 0;

	for (const char *c = display_name; *c && used < SMD_JOBDIR_NAME_SIZE - 1; c++) {
		int allowed = strchr(NAME_CHARACTERS, *c) != NULL;

		if (used == 0 && (!allowed || *c == '.' || *c == '-')) {
			continue; /* a leading dot hides, a leading dash looks like an option */
		}
		name[used++] = allowed ? *c : '-';
	}
	name[used] = '\0';
	if (used == 0) {
		strcpy(name, NAME_DEFAULT);
	}
}

/* mkdir -p */
static int make_folders(const char *path)
{
	char *copy = strdup(path);
	int ret = 0;

	if (!copy) {
		return -ENOMEM;
	}
	for (char *slash = copy + 1; !ret && *slash; slash++) {
		if (*slash == '/') {
			*slash = '\0';
			ret = mkdir(copy, FOLDER_MODE) && errno != EEXIST ? -errno : 0;
			*slash = '/';
		}
	}
	if (!ret && mkdir(copy, FOLDER_MODE) && errno != EEXIST) {
		ret = -errno;
	}
	free(copy);
	return ret;
}

/* The folder of new job directories. NULL: out of memory, or none is known (errno ENOENT). */
static char *default_parent(void)
{
	const char *state = getenv("SUMMAND_STATE_DIR");
	const char *home = getenv("HOME");
	char *parent;
	int ret;

	if (state && *state) {
		ret = asprintf(&parent, "%s/jobs", state);
	} else if (home && *home) {
		ret = asprintf(&parent, "%s/.local/state/summand/jobs", home);
	} else {
		errno = ENOENT;
		return NULL;
	}
	return ret < 0 ? NULL : parent;
}

static int make_new(const char *parent, const struct smd_job *job, char **out)
{
	char name[SMD_JOBDIR_NAME_SIZE];
	char stamp[STAMP_SIZE];
	time_t now = time(NULL);
	struct tm parts;

	smd_jobdir_sanitise(name, job->display_name);
	localtime_r(&now, &parts);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &parts);
	for (int attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
		char suffix[16] = "";
		char *path;

		if (attempt > 1) {
			snprintf(suffix, sizeof(suffix), "-%d", attempt);
		}
		if (asprintf(&path, "%s/%s-%s-%s%s", parent, name, job->id, stamp, suffix) < 0) {
			return -ENOMEM;
		}
		if (mkdir(path, FOLDER_MODE) == 0) {
			*out = path;
			return 0;
		}
		free(path);
		if (errno != EEXIST) {
			return -errno;
		}
	}
	return -EEXIST;
}

static int make_default(const struct smd_job *job, char **out, struct smd_error *error)
{
	char *parent = default_parent();
	int ret;

	if (!parent) {
		return smd_error_set(error, errno, "job directory: %s",
			errno == ENOENT
				? "--job-dir must be given, or SUMMAND_STATE_DIR or HOME set"
				: strerror(errno));
	}
	ret = make_folders(parent);
	ret = ret ? ret : make_new(parent, job, out);
	if (ret) {
		smd_error_set(error, -ret, "%s: a directory must be made in it: %s", parent,
			strerror(-ret));
	}
	free(parent);
	return ret;
}

static int make_given(const char *path, char **out, struct smd_error *error)
{
	struct stat status;
	int ret;

	ret = make_folders(path);
	if (!ret && stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
		ret = -ENOTDIR;
	}
	if (ret) {
		return smd_error_set(
			error, -ret, "--job-dir=%s: must be a directory: %s", path, strerror(-ret));
	}
	*out = strdup(path);
	return *out ? 0 : smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
}

/* Two jobs would overwrite each other's records. The kernel drops the lock when the process ends.
 */
static int lock(struct smd_jobdir *dir, struct smd_error *error)
{
	dir->lock = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->lock < 0) {
		return smd_error_set(error, errno, "--job-dir=%s: %s", dir->path, strerror(errno));
	}
	if (flock(dir->lock, LOCK_EX | LOCK_NB)) {
		return smd_error_set(error, EBUSY,
			"--job-dir=%s: must be of one job at a time, and another one is running in "
			"it",
			dir->path);
	}
	return 0;
}

/* Creates its folders, unless an earlier job has left them. */
static int make_own_folders(const struct smd_jobdir *dir, struct smd_error *error)
{
	static const char *const folders[] = {".", "env", "logs", "exits", "errors"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char *path = smd_jobdir_path(dir, "%s", folders[i]);
		int ret = path ? smd_jobdir_make_folder(dir, folders[i]) : -ENOMEM;

		if (!ret && faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS)) {
			ret = -errno;
		}
		free(path);
		if (ret) {
			return smd_error_set(error, -ret, "--job-dir=%s: must be writable: %s",
				dir->path, strerror(-ret));
		}
	}
	return 0;
}

int smd_jobdir_open(struct smd_jobdir *dir, const struct smd_job *job, const char *path,
	struct smd_error *error)
{
	char *made = NULL;
	int ret = path ? make_given(path, &made, error) : make_default(job, &made, error);

	if (ret) {
		return ret;
	}
	dir->lock = -1;
	dir->path = realpath(made, NULL);
	ret = dir->path ? lock(dir, error)
			: smd_error_set(error, errno, "--job-dir=%s: %s", made, strerror(errno));
	ret = ret ? ret : make_own_folders(dir, error);
	if (ret) {
		smd_jobdir_close(dir);
	}
	free(made);
	return ret;
}

void smd_jobdir_close(struct smd_jobdir *dir)
{
	if (dir->lock >= 0) {
		close(dir->lock);
		dir->lock = -1;
	}
	free(dir->path);
	dir->path = NULL;
}

static char *make_path(const struct smd_jobdir *dir, const char *format, va_list args)
{
	char *name;
	char *path;
	int ret;

	if (vasprintf(&name, format, args) < 0) {
		return NULL;
	}
	ret = asprintf(&path, "%s/%s", dir->path, name);
	free(name);
	return ret < 0 ? NULL : path;
}

char *smd_jobdir_path(const struct smd_jobdir *dir, const char *format, ...)
{
	va_list args;
	char *path;

	va_start(args, format);
	path = make_path(dir, format, args);
	va_end(args);
	return path;
}

int smd_jobdir_make_folder(const struct smd_jobdir *dir, const char *name)
{
	char *path = smd_jobdir_path(dir, "%s", name);
	int ret;

	if (!path) {
		return -ENOMEM;
	}
	ret = mkdir(path, FOLDER_MODE) && errno != EEXIST ? -errno : 0;
	free(path);
	return ret;
}

FILE *smd_jobdir_open_file(const char *path, int append)
{
	int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
	struct stat status;
	int fd;

	/* Opening a pipe would wait for a reader, and a link may lead anywhere. */
	if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
		remove(path);
	}
	fd = open(path, flags | (append ? O_APPEND : O_TRUNC), 0666);
	return fd < 0 ? NULL : fdopen(fd, append ? "a" : "w");
}

static int write_whole(const char *path, const char *text, size_t length)
{
	FILE *file = smd_jobdir_open_file(path, 0);
	int ret;

	if (!file) {
		return -errno;
	}
	ret = fwrite(text, 1, length, file) < length ? -errno : 0;
	return fclose(file) && !ret ? -errno : ret;
}

int smd_jobdir_write(
	const struct smd_jobdir *dir, const char *name, const char *text, size_t length)
{
	char *path = smd_jobdir_path(dir, "%s", name);
	char *temporary = smd_jobdir_path(dir, "%s.tmp", name);
	int ret = path && temporary ? write_whole(temporary, text, length) : -ENOMEM;

	if (!ret && rename(temporary, path)) {
		ret = -errno;
	}
	if (ret && temporary) {
		unlink(temporary);
	}
	free(temporary);
	free(path);
	return ret;
}

int smd_jobdir_write_json(const struct smd_jobdir *dir, const char *name, const json_t *document)
{
	char *text =
		document ? json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	int ret = text ? smd_jobdir_write(dir, name, text, strlen(text)) : -ENOMEM;

	free(text);
	return ret;
}

void smd_jobdir_release(const struct smd_jobdir *dir)
{
	char *path = smd_jobdir_path(dir, RESERVE);

	if (path) {
		unlink(path);
	}
	free(path);
}

void smd_jobdir_reserve(const struct smd_jobdir *dir, size_t size)
{
	char *path = smd_jobdir_path(dir, RESERVE);
	FILE *file = path ? smd_jobdir_open_file(path, 0) : NULL;
	int ret = file ? posix_fallocate(fileno(file), 0, (off_t)size) : 0;

	if (file) {
		fclose(file);
	}
	if (ret) {
		unlink(path);
	}
	free(path);
}

/* Reads regular files only and never waits: no pipe without a writer, no link. NULL: there is no
 * such file, or it is too large. */
static char *read_whole(const char *path, size_t size_max, size_t *length)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	struct stat status;
	char *text = NULL;

	if (!file) {
		if (fd >= 0) {
			close(fd);
		}
		return NULL;
	}
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		(uint64_t)status.st_size <= size_max) {
		text = malloc((size_t)status.st_size + 1);
	}
	if (text) {
		*length = fread(text, 1, (size_t)status.st_size, file);
	}
	fclose(file);
	return text;
}

json_t *smd_jobdir_read_json(const struct smd_jobdir *dir, size_t size_max, const char *format, ...)
{
	size_t length = 0;
	json_t *document;
	va_list args;
	char *path;
	char *text;

	va_start(args, format);
	path = make_path(dir, format, args);
	va_end(args);
	text = path ? read_whole(path, size_max, &length) : NULL;
	document = text ? json_loadb(text, length, 0, NULL) : NULL;
	free(text);
	free(path);
	return document;
}

void smd_jobdir_keep_exit_record(
	const struct smd_jobdir *dir, const char *replica, unsigned attempt)
{
	char *record = smd_jobdir_path(dir, "exits/%s.json", replica);
	char *kept = smd_jobdir_path(dir, "exits/%s.%u.json", replica, attempt);

	if (record && kept) {
		rename(record, kept);
	}
	free(kept);
	free(record);
}
