/* Lets the ranks of a run find each other through a file that all of them see. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/nccl_perf/nccl_perf.h"

#define POLL_US 10000

static int write_all(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int ret = 0;

	if (fd < 0) {
		return -errno;
	}
	if (write(fd, bytes, size) != (ssize_t)size) {
		ret = errno ? -errno : -EIO;
	}
	if (close(fd) != 0 && ret == 0) {
		ret = -errno;
	}
	return ret;
}

/* Whole under its name, or not at all. */
static int publish(const char *path, const ncclUniqueId *id, struct smd_error *error)
{
	char *draft;
	int ret;

	if (asprintf(&draft, "%s.%d", path, (int)getpid()) < 0) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = write_all(draft, id, sizeof(*id));
	if (ret == 0 && link(draft, path) != 0) {
		ret = -errno;
	}
	unlink(draft);
	free(draft);
	if (ret == -EEXIST) {
		return smd_error_set(error, EEXIST,
			"%s: must not be there yet, it is from another run; remove it", path);
	}
	return ret ? smd_error_set(error, -ret, "%s: %s", path, strerror(-ret)) : 0;
}

static int await(const char *path, ncclUniqueId *id, struct smd_error *error)
{
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t size;

		if (fd >= 0) {
			size = read(fd, id, sizeof(*id));
			close(fd);
			return size == (ssize_t)sizeof(*id)
				       ? 0
				       : smd_error_set(error, EINVAL,
						 "%s: must hold %zu bytes, got %zd", path,
						 sizeof(*id), size);
		}
		if (errno != ENOENT) {
			return smd_error_set(error, errno, "%s: %s", path, strerror(errno));
		}
		usleep(POLL_US);
	}
}

int nccl_perf_meet(
	const struct nccl_perf_settings *settings, ncclUniqueId *id, struct smd_error *error)
{
	ncclResult_t result;

	if (settings->rank != 0) {
		return await(settings->id_file, id, error);
	}
	result = ncclGetUniqueId(id);
	if (result != ncclSuccess) {
		return smd_error_set(error, EIO, "ncclGetUniqueId: %s: %s",
			ncclGetErrorString(result), ncclGetLastError(NULL));
	}
	return publish(settings->id_file, id, error);
}

void nccl_perf_forget(const struct nccl_perf_settings *settings)
{
	if (settings->rank == 0) {
		unlink(settings->id_file);
	}
}
