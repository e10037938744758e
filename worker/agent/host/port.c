/* Holds ports by names in the abstract socket namespace. */
#include "worker/agent/host/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A socket that holds the port, or -errno: -EADDRINUSE when another process holds it. */
static int hold(uint16_t port)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	/* The name follows a NUL, which makes it an abstract one. */
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "summand-port-%u",
		(unsigned)port);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size)) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd < 0 ? -errno : fd;
}

/* Without SO_REUSEADDR, so that a port with connections in TIME_WAIT counts as used too. */
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

static int keep(struct smd_ports *ports, int fd)
{
	int *fds = realloc(ports->fds, (ports->count + 1) * sizeof(*fds));

	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	ports->fds = fds;
	ports->fds[ports->count++] = fd;
	return 0;
}

int smd_ports_reserve(struct smd_ports *ports, uint16_t *port, struct smd_error *error)
{
	while (SMD_PORT_FIRST + ports->tried <= SMD_PORT_LAST) {
		uint16_t candidate = (uint16_t)(SMD_PORT_FIRST + ports->tried++);
		int fd = hold(candidate);

		if (fd == -EADDRINUSE) {
			continue; /* another job's */
		}
		if (fd < 0) {
			return smd_error_set(error, -fd, "port %u: cannot be held: %s",
				(unsigned)candidate, strerror(-fd));
		}
		if (can_bind(candidate)) {
			*port = candidate;
			return keep(ports, fd);
		}
		close(fd);
	}
	return smd_error_set(error, EADDRINUSE, "ports %d to %d: one must be free, got none",
		SMD_PORT_FIRST, SMD_PORT_LAST);
}

void smd_ports_release(struct smd_ports *ports)
{
	for (size_t i = 0; i < ports->count; i++) {
		close(ports->fds[i]);
	}
	free(ports->fds);
	*ports = (struct smd_ports){0};
}
