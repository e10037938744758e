/* Makes the directory in shared memory, where ranks put theirs, or among temporary files. */
#include "worker/mpi/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FAILED "failed"

static int set_variables(const struct smd_mpi_scratch *scratch)
{
	char directory[PATH_MAX];
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (setenv(SMD_MPI_SCRATCH, scratch->path, 1) || setenv(SMD_MPI_PID, pid, 1)) {
		return -ENOMEM;
	}
	return getcwd(directory, sizeof(directory)) && setenv(SMD_MPI_DIRECTORY, directory, 1)
		       ? -ENOMEM
		       : 0;
}

int smd_mpi_scratch_make(struct smd_mpi_scratch *out, struct smd_error *error)
{
	/* No TMPDIR: mpirun takes no spaces and colons in it. */
	static const char *const places[] = {"/dev/shm", "/tmp"};
	struct smd_mpi_scratch scratch = {.watch_fd = -1};
	const char *given = getenv(SMD_MPI_FOLDER);
	int ret = -ENOENT;

	/* A container may not have it, or not for its user. */
	if (given && strlen(given) < sizeof(scratch.path) && access(given, W_OK | X_OK) == 0) {
		strcpy(scratch.path, given);
		ret = 0;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && ret; i++) {
		snprintf(scratch.path, sizeof(scratch.path), "%s/summand-mpi-XXXXXX", places[i]);
		ret = mkdtemp(scratch.path) ? 0 : -errno;
	}
	if (ret) {
		return smd_error_set(
			error, -ret, "%s: cannot be made: %s", scratch.path, strerror(-ret));
	}
	scratch.watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (scratch.watch_fd < 0 ||
		inotify_add_watch(scratch.watch_fd, scratch.path, IN_CREATE) < 0) {
		ret = smd_error_set(error, errno, "%s: cannot be watched: %m", scratch.path);
	} else if (set_variables(&scratch)) {
		ret = smd_error_set(error, ENOMEM, "out of memory");
	}
	if (ret) {
		smd_mpi_scratch_remove(&scratch);
		return ret;
	}
	*out = scratch;
	return 0;
}

static int write_file(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int ret = 0;

	if (fd < 0) {
		return -errno;
	}
	if (write(fd, text, length) != (ssize_t)length) {
		ret = -EIO;
	}
	return close(fd) && !ret ? -errno : ret;
}

int smd_mpi_scratch_write(
	const struct smd_mpi_scratch *scratch, const char *name, const char *text, size_t length)
{
	char path[2 * SMD_MPI_SCRATCH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", scratch->path, name);
	return write_file(path, text, length);
}

int smd_mpi_scratch_link(const struct smd_mpi_scratch *scratch, const char *name)
{
	char path[2 * SMD_MPI_SCRATCH_SIZE];
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length < 0) {
		return -errno;
	}
	program[length] = '\0';
	snprintf(path, sizeof(path), "%s/%s", scratch->path, name);
	return symlink(program, path) ? -errno : 0;
}

/* A link is there whole or not at all, and only the first one. */
void smd_mpi_scratch_note_failure(int exit_code)
{
	const char *scratch = getenv(SMD_MPI_SCRATCH);
	char own[PATH_MAX];
	char shared[PATH_MAX];
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", exit_code);

	if (!scratch) {
		return;
	}
	snprintf(own, sizeof(own), "%s/rank.%d", scratch, (int)getpid());
	snprintf(shared, sizeof(shared), "%s/" FAILED, scratch);
	if (write_file(own, text, (size_t)length) == 0 && link(own, shared) && errno != EEXIST) {
		fprintf(stderr, "summand-mpi: %s: cannot be made: %m\n", shared);
	}
	unlink(own);
}

int smd_mpi_scratch_failure(const struct smd_mpi_scratch *scratch)
{
	char path[2 * SMD_MPI_SCRATCH_SIZE];
	char events[4096];
	int code = 0;
	FILE *file;

	while (read(scratch->watch_fd, events, sizeof(events)) > 0) {
	}
	snprintf(path, sizeof(path), "%s/" FAILED, scratch->path);
	file = fopen(path, "re");
	if (!file) {
		return 0;
	}
	if (fscanf(file, "%3d", &code) != 1 || code < 1 || code > 255) {
		code = 1;
	}
	fclose(file);
	return code;
}

void smd_mpi_scratch_remove(struct smd_mpi_scratch *scratch)
{
	DIR *folder = opendir(scratch->path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		unlinkat(dirfd(folder), entry->d_name, 0);
	}
	if (folder) {
		closedir(folder);
	}
	rmdir(scratch->path);
	if (scratch->watch_fd >= 0) {
		close(scratch->watch_fd);
	}
	scratch->watch_fd = -1;
}
