/* Reserves ports by locks on the bytes of one file. */
#include "orchestrator/engine/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 64

int smd_ports_open(struct smd_ports *ports, struct smd_error *error)
{
	char path[PATH_SIZE];
	struct stat status;
	int fd;

	snprintf(path, sizeof(path), "/tmp/summand-ports-%u", (unsigned)getuid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return smd_error_set(
			error, errno, "%s: must be a file of this user: %s", path, strerror(errno));
	}
	if (fstat(fd, &status) || status.st_uid != getuid()) {
		close(fd);
		return smd_error_set(error, EPERM, "%s: must be a file of this user, got user %u's",
			path, (unsigned)status.st_uid);
	}
	ports->lock_fd = fd;
	ports->next = SMD_PORT_FIRST;
	return 0;
}

/* An open file description lock: unlike a record lock it also keeps out the same process. */
static int lock_byte(int fd, uint16_t port, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = port, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

/* Without SO_REUSEADDR, so that a port with connections on their way out counts as used too. */
static int can_bind(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_ANY)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int bound;

	if (fd < 0) {
		return 0;
	}
	bound = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return bound;
}

int smd_ports_reserve(struct smd_ports *ports, uint16_t *port, struct smd_error *error)
{
	while (ports->next <= SMD_PORT_LAST) {
		uint16_t candidate = ports->next++;
		int ret = lock_byte(ports->lock_fd, candidate, F_WRLCK);

		if (ret == -EAGAIN || ret == -EACCES) {
			continue; /* another job's */
		}
		if (ret) {
			return smd_error_set(error, -ret, "port %u: cannot be locked: %s",
				(unsigned)candidate, strerror(-ret));
		}
		if (can_bind(candidate)) {
			*port = candidate;
			return 0;
		}
		lock_byte(ports->lock_fd, candidate, F_UNLCK);
	}
	return smd_error_set(error, EADDRINUSE, "ports %d to %d: one must be free, got none",
		SMD_PORT_FIRST, SMD_PORT_LAST);
}

void smd_ports_close(struct smd_ports *ports)
{
	close(ports->lock_fd);
	ports->lock_fd = -1;
}
