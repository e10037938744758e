/* Leaves requests to scale where a job's runner looks for them. */
#include "orchestrator/store/scale_request.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define FILE_MODE 0600
#define TEXT_SIZE 128

static int open_directory(const char *directory)
{
	return open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Under a name of its own first: two commands may do this at once. */
static int write_file(int folder, const char *id, const char *text)
{
	char name[SMD_SCALE_ID_SIZE + sizeof(SMD_SCALE_REQUEST) + 8];
	size_t length = strlen(text);
	int fd, ret = 0;

	snprintf(name, sizeof(name), SMD_SCALE_REQUEST ".%s.tmp", id);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
	if (fd < 0) {
		return -errno;
	}
	if (write(fd, text, length) != (ssize_t)length) {
		ret = -EIO;
	}
	close(fd);
	if (!ret && renameat(folder, name, folder, SMD_SCALE_REQUEST)) {
		ret = -errno;
	}
	if (ret) {
		unlinkat(folder, name, 0);
	}
	return ret;
}

int smd_scale_request_send(const char *directory, int replicas, char id[SMD_SCALE_ID_SIZE],
	struct smd_error *error)
{
	char text[TEXT_SIZE];
	uint64_t number = 0;
	int folder = open_directory(directory);
	int ret = folder < 0 ? -errno : 0;

	if (!ret && getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		ret = -EIO;
	}
	snprintf(id, SMD_SCALE_ID_SIZE, "%016" PRIx64, number);
	snprintf(text, sizeof(text), "{\"request\": \"%s\", \"replicas\": %d}\n", id, replicas);
	ret = ret ? ret : write_file(folder, id, text);
	if (folder >= 0) {
		close(folder);
	}
	return ret ? smd_error_set(error, -ret, "%s/" SMD_SCALE_REQUEST ": %s", directory,
			     strerror(-ret))
		   : 0;
}

void smd_scale_request_withdraw(const char *directory)
{
	int folder = open_directory(directory);

	if (folder >= 0) {
		unlinkat(folder, SMD_SCALE_REQUEST, 0);
		close(folder);
	}
}
