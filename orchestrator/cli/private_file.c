/* Creates files that others cannot read. */
#include "orchestrator/cli/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

FILE *smd_private_file_create(const char *path, int is_program)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, is_program ? 0700 : 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file && fd >= 0) {
		int reason = errno;

		close(fd);
		errno = reason;
	}
	return file;
}
