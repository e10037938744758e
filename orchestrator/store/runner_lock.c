/* Locks one byte for each runner. */
#include "orchestrator/store/runner_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_NAME "runners"
#define FILE_MODE 0600

int smd_runner_lock_open(const char *state_dir)
{
	char *path;
	int fd;

	if (asprintf(&path, "%s/" FILE_NAME, state_dir) < 0) {
		return -ENOMEM;
	}
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
	if (fd < 0 && errno == EROFS) { /* to look, and to wait */
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0) {
		fd = -errno;
	}
	free(path);
	return fd;
}

static struct flock byte_of(int64_t id, short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};
}

int smd_runner_lock_take(const char *state_dir, int64_t id)
{
	struct flock lock = byte_of(id, F_WRLCK);
	int fd = smd_runner_lock_open(state_dir);

	if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock)) {
		int ret = errno == EBADF ? -EROFS : -errno;

		close(fd);
		return ret;
	}
	return fd;
}

int smd_runner_lock_is_held(int fd, int64_t id)
{
	struct flock lock = byte_of(id, F_RDLCK);

	if (fcntl(fd, F_OFD_GETLK, &lock)) {
		return -errno;
	}
	return lock.l_type != F_UNLCK;
}

int smd_runner_lock_wait(int fd, int64_t id)
{
	struct flock lock = byte_of(id, F_RDLCK);

	if (fcntl(fd, F_OFD_SETLKW, &lock)) {
		return -errno;
	}
	lock.l_type = F_UNLCK;
	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}
