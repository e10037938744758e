/* Finds the socket by its directory's descriptor: paths are longer than a socket's name may be. */
#include "orchestrator/store/session_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128 /* of those that come together, more than may have a session */
#define MODE    0600

static struct sockaddr_un address_in(int folder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SMD_SESSION_SOCKET,
		folder);
	return address;
}

static int open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

int smd_session_socket_listen(int folder)
{
	const struct sockaddr_un address = address_in(folder);
	int fd = open_socket();
	int err;

	if (fd < 0) {
		return fd;
	}
	unlinkat(folder, SMD_SESSION_SOCKET, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		fchmodat(folder, SMD_SESSION_SOCKET, MODE, 0) || listen(fd, BACKLOG)) {
		err = errno;
		close(fd);
		return -err;
	}
	return fd;
}

static int connect_in(int folder)
{
	const struct sockaddr_un address = address_in(folder);
	int fd = open_socket();
	int err;

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		err = errno;
		close(fd);
		return -err;
	}
	return fd;
}

int smd_session_socket_connect(const char *directory, struct smd_error *error)
{
	int folder = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd = folder < 0 ? -errno : connect_in(folder);

	if (folder >= 0) {
		close(folder);
	}
	return fd < 0 ? smd_error_set(error, -fd,
				"%s/" SMD_SESSION_SOCKET
				": the job's runner must be on this machine, and of this version: %s",
				directory, strerror(-fd))
		      : fd;
}
