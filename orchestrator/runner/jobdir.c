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

#include "orchestrator/job/shown.h"
#include "orchestrator/runner/jobdir_claim.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/log.h"

#define NAME_DEFAULT       "custom-job"
#define RESERVE            ".reserve"
#define FOLDER_MODE        0700 /* variables, specs and logs may hold secrets */
#define FILE_MODE          0600
#define SHARED_FOLDER_MODE 0770
#define SHARED_FILE_MODE   0640
#define ATTEMPTS_MAX       1000 /* jobs of the same name in the same second */
#define STAMP_SIZE         32
#define NAME_CHARACTERS    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

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
	char *state_dir = NULL;
	char *parent = NULL;
	int ret = smd_state_dir_open(&state_dir, error);

	if (ret) {
		return ret;
	}
	if (asprintf(&parent, "%s/jobs", state_dir) < 0) {
		parent = NULL;
	}
	free(state_dir);
	if (!parent) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	ret = smd_state_dir_make_folders(parent);
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

	ret = smd_state_dir_make_folders(path);
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
	dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->fd < 0) {
		return smd_error_set(error, errno, "--job-dir=%s: %s", dir->path, strerror(errno));
	}
	if (flock(dir->fd, LOCK_EX | LOCK_NB)) {
		return smd_error_set(error, EBUSY,
			"--job-dir=%s: must be of one job at a time, and another one is running in "
			"it",
			dir->path);
	}
	return 0;
}

static int is_link(const struct smd_jobdir *dir, const char *name)
{
	struct stat status;

	return fstatat(dir->fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

/* Opens a folder in it, but follows no link, which may lead anywhere. A descriptor, or -errno:
 * -ELOOP for a link, which is told. */
static int open_folder(const struct smd_jobdir *dir, const char *name, int flags)
{
	int fd = openat(dir->fd, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0) {
		return fd;
	}
	if ((errno == ENOTDIR || errno == ELOOP) && is_link(dir, name)) {
		smd_log(SMD_LOG_ERROR, "runner", "%s/%s: must be a folder, got a symbolic link",
			dir->path, name);
		return -ELOOP;
	}
	return -errno;
}

/* An earlier version of this program, or somebody else, may have made it readable for all. */
static int make_private(const struct smd_jobdir *dir, const char *name)
{
	int fd = open_folder(dir, name, O_RDONLY);
	struct stat status;
	int ret = fd < 0 ? fd : 0;

	if (ret) {
		return ret;
	}
	if (fstat(fd, &status) == 0 && (status.st_mode & 0777 & ~FOLDER_MODE) &&
		fchmod(fd, FOLDER_MODE)) {
		smd_log(SMD_LOG_WARN, "runner",
			"%s/%s: should be for its owner alone, and its mode %o cannot be changed: "
			"%s",
			dir->path, name, status.st_mode & 0777, strerror(errno));
	}
	close(fd);
	return 0;
}

/* Creates its folders, unless an earlier job has left them. */
static int make_own_folders(const struct smd_jobdir *dir, struct smd_error *error)
{
	static const char *const folders[] = {"env", "logs", "exits", "errors"};
	int ret = faccessat(dir->fd, ".", W_OK | X_OK, AT_EACCESS) ? -errno : 0;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && !ret; i++) {
		ret = smd_jobdir_make_folder(dir, folders[i]);
		if (ret == -ELOOP) {
			return smd_error_set(error, ELOOP,
				"--job-dir=%s: %s must be a folder, got a symbolic link", dir->path,
				folders[i]);
		}
		if (!ret && faccessat(dir->fd, folders[i], W_OK | X_OK, AT_EACCESS)) {
			ret = -errno;
		}
	}
	return ret ? smd_error_set(error, -ret, "--job-dir=%s: must be writable: %s", dir->path,
			     strerror(-ret))
		   : 0;
}

int smd_jobdir_open(struct smd_jobdir *dir, const struct smd_job *job, const char *path,
	struct smd_error *error)
{
	char *made = NULL;
	int ret = path ? make_given(path, &made, error) : make_default(job, &made, error);

	if (ret) {
		return ret;
	}
	dir->fd = -1;
	dir->path = realpath(made, NULL);
	ret = dir->path ? lock(dir, error)
			: smd_error_set(error, errno, "--job-dir=%s: %s", made, strerror(errno));
	ret = ret ? ret : smd_jobdir_claim(dir->fd, dir->path, error);
	ret = ret ? ret : make_own_folders(dir, error);
	if (ret) {
		smd_jobdir_close(dir);
	}
	free(made);
	return ret;
}

void smd_jobdir_close(struct smd_jobdir *dir)
{
	if (dir->fd >= 0) {
		close(dir->fd);
		dir->fd = -1;
	}
	free(dir->path);
	dir->path = NULL;
}

char *smd_jobdir_path(const struct smd_jobdir *dir, const char *format, ...)
{
	va_list args;
	char *name;
	char *path;
	int ret;

	va_start(args, format);
	ret = vasprintf(&name, format, args);
	va_end(args);
	if (ret < 0) {
		return NULL;
	}
	ret = asprintf(&path, "%s/%s", dir->path, name);
	free(name);
	return ret < 0 ? NULL : path;
}

int smd_jobdir_make_folder(const struct smd_jobdir *dir, const char *name)
{
	if (mkdirat(dir->fd, name, FOLDER_MODE) == 0) {
		return 0;
	}
	return errno == EEXIST ? make_private(dir, name) : -errno;
}

int smd_jobdir_share(const struct smd_jobdir *dir, const char *name)
{
	int fd = openat(dir->fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	int ret = 0;

	if (fd < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	if (fstat(fd, &status) ||
		fchmod(fd, S_ISDIR(status.st_mode) ? SHARED_FOLDER_MODE : SHARED_FILE_MODE)) {
		ret = -errno;
	}
	close(fd);
	return ret;
}

/* The folder that a file is in, for the caller to close, and the file's name there. -errno */
static int enter(const struct smd_jobdir *dir, const char *name, const char **base)
{
	const char *slash = strrchr(name, '/');
	char *folder;
	int fd;

	*base = slash ? slash + 1 : name;
	folder = slash ? strndup(name, (size_t)(slash - name)) : strdup(".");
	if (!folder) {
		return -ENOMEM;
	}
	fd = open_folder(dir, folder, O_PATH);
	free(folder);
	return fd;
}

/* Opening a pipe would wait for a reader, and a link may lead anywhere. */
static void remove_if_no_file(int folder, const char *base)
{
	struct stat status;

	if (fstatat(folder, base, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode)) {
		unlinkat(folder, base, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
	}
}

static int create_file(int folder, const char *base, int flags)
{
	int fd;

	remove_if_no_file(folder, base);
	fd = openat(folder, base,
		flags | O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
		FILE_MODE);
	if (fd >= 0 && fchmod(fd, FILE_MODE) && errno != EPERM) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

FILE *smd_jobdir_open_file(const struct smd_jobdir *dir, const char *name, int append)
{
	const char *base;
	int folder = enter(dir, name, &base);
	int fd;

	if (folder < 0) {
		errno = -folder;
		return NULL;
	}
	fd = create_file(folder, base, append ? O_APPEND : O_TRUNC);
	close(folder);
	return fd < 0 ? NULL : fdopen(fd, append ? "a" : "w");
}

void smd_jobdir_remove(const struct smd_jobdir *dir, const char *name)
{
	const char *base;
	int folder = enter(dir, name, &base);

	if (folder >= 0) {
		unlinkat(folder, base, 0);
		close(folder);
	}
}

int smd_jobdir_rename(const struct smd_jobdir *dir, const char *from, const char *to)
{
	const char *base;
	const char *other = strrchr(to, '/');
	int folder = enter(dir, from, &base);
	int ret;

	if (folder < 0) {
		return folder;
	}
	ret = renameat(folder, base, folder, other ? other + 1 : to) ? -errno : 0;
	close(folder);
	return ret;
}

static int write_whole(int folder, const char *base, const char *text, size_t length)
{
	int fd = create_file(folder, base, O_TRUNC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
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
	const char *base;
	int folder = enter(dir, name, &base);
	char *temporary;
	int ret;

	if (folder < 0) {
		return folder;
	}
	if (asprintf(&temporary, "%s.tmp", base) < 0) {
		close(folder);
		return -ENOMEM;
	}
	ret = write_whole(folder, temporary, text, length);
	if (!ret && renameat(folder, temporary, folder, base)) {
		ret = -errno;
	}
	if (ret) {
		unlinkat(folder, temporary, 0);
	}
	free(temporary);
	close(folder);
	return ret;
}

int smd_jobdir_write_json(const struct smd_jobdir *dir, const char *name, const json_t *document)
{
	char *text = smd_shown_json(document, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	int ret = text ? smd_jobdir_write(dir, name, text, strlen(text)) : -ENOMEM;

	free(text);
	return ret;
}

void smd_jobdir_release(const struct smd_jobdir *dir)
{
	smd_jobdir_remove(dir, RESERVE);
}

void smd_jobdir_reserve(const struct smd_jobdir *dir, size_t size)
{
	FILE *file = smd_jobdir_open_file(dir, RESERVE, 0);
	int ret = file ? posix_fallocate(fileno(file), 0, (off_t)size) : 0;

	if (file) {
		fclose(file);
	}
	if (ret) {
		smd_jobdir_release(dir);
	}
}

FILE *smd_jobdir_read_file(const struct smd_jobdir *dir, const char *name, size_t *size)
{
	const char *base;
	int folder = enter(dir, name, &base);
	struct stat status;
	int fd;

	if (folder < 0) {
		errno = -folder;
		return NULL;
	}
	fd = openat(folder, base, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	close(folder);
	if (fd < 0) {
		return NULL;
	}
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		errno = EINVAL;
		return NULL;
	}
	*size = (size_t)status.st_size;
	return fdopen(fd, "r");
}

/* NULL: there is no such file, or it is too large. */
static char *read_whole(
	const struct smd_jobdir *dir, const char *name, size_t size_max, size_t *length)
{
	size_t size;
	FILE *file = smd_jobdir_read_file(dir, name, &size);
	char *text;

	if (!file) {
		return NULL;
	}
	text = size <= size_max ? malloc(size + 1) : NULL;
	if (text) {
		*length = fread(text, 1, size, file);
	}
	fclose(file);
	return text;
}

json_t *smd_jobdir_read_json(const struct smd_jobdir *dir, size_t size_max, const char *format, ...)
{
	size_t length = 0;
	json_t *document;
	va_list args;
	char *name;
	char *text;
	int ret;

	va_start(args, format);
	ret = vasprintf(&name, format, args);
	va_end(args);
	if (ret < 0) {
		return NULL;
	}
	text = read_whole(dir, name, size_max, &length);
	document = text ? json_loadb(text, length, 0, NULL) : NULL;
	free(text);
	free(name);
	return document;
}

void smd_jobdir_keep_exit_record(
	const struct smd_jobdir *dir, const char *replica, unsigned attempt)
{
	char *record;
	char *kept;

	if (asprintf(&record, "exits/%s.json", replica) < 0) {
		return;
	}
	if (asprintf(&kept, "exits/%s.%u.json", replica, attempt) >= 0) {
		smd_jobdir_rename(dir, record, kept);
		free(kept);
	}
	free(record);
}
