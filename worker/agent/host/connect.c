/* Reads the invitation, and reaches the runner. */
#include "worker/agent/host/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"

#define ROUNDS     10   /* over all addresses */
#define TRY_MS     3000 /* for one */
#define PAUSE_MS   1000 /* after each round */
#define FIRST_KEPT 3    /* number of a descriptor */

/* Whether there is something to be read before that time. */
static bool await_input(int fd, uint64_t until_ns)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int n;

	do {
		uint64_t now_ns = smd_clock_ns();
		uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1000000 : 0;

		n = poll(&ready, 1, (int)left_ms);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

/* Byte by byte: what follows is the link's. */
int smd_invitation_read(
	int fd, unsigned within_s, struct smd_invitation *out, struct smd_error *error)
{
	uint64_t until_ns = smd_clock_ns() + within_s * (uint64_t)SMD_SECOND_NS;
	char *line = malloc(SMD_INVITATION_MAX);
	bool in_time = true;
	size_t used = 0;
	int ret;

	if (!line) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	while (used < SMD_INVITATION_MAX && (in_time = await_input(fd, until_ns))) {
		ssize_t got = read(fd, line + used, 1);

		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got != 1 || line[used] == '\n') {
			break;
		}
		used++;
	}
	ret = in_time ? smd_invitation_decode(line, used, out, error)
		      : smd_error_set(error, ETIMEDOUT,
				"standard input: a whole invitation must come within %u s, got %zu "
				"bytes of it",
				within_s, used);
	explicit_bzero(line, used);
	free(line);
	return ret;
}

static int connect_one(const struct addrinfo *place)
{
	int fd = socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	int on = 1;
	int err = 0;
	socklen_t size = sizeof(err);

	if (fd < 0) {
		return -errno;
	}
	if (connect(fd, place->ai_addr, place->ai_addrlen) && errno != EINPROGRESS) {
		err = errno;
	} else if (poll(&ready, 1, TRY_MS) != 1) {
		err = ETIMEDOUT;
	} else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size)) {
		err = errno;
	}
	if (err) {
		close(fd);
		return -err;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

/* "10.0.0.5:4187" or "[fd00::5]:4187". */
static int connect_text(const char *address)
{
	const struct addrinfo wanted = {
		.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	char host[SMD_INVITATION_ADDRESS_SIZE];
	struct addrinfo *place;
	const char *colon = strrchr(address, ':');
	size_t skip = address[0] == '[';
	int ret;

	if (!colon || (size_t)(colon - address) < 2 * skip) {
		return -EINVAL;
	}
	snprintf(host, sizeof(host), "%.*s", (int)((size_t)(colon - address) - 2 * skip),
		address + skip);
	if (getaddrinfo(host, colon + 1, &wanted, &place)) {
		return -EINVAL;
	}
	ret = connect_one(place);
	freeaddrinfo(place);
	return ret;
}

int smd_runner_connect(const struct smd_invitation *invitation, struct smd_error *error)
{
	int ret = -EINVAL;

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < invitation->naddresses; i++) {
			ret = connect_text(invitation->addresses[i]);
			if (ret >= 0) {
				return ret;
			}
		}
		poll(NULL, 0, PAUSE_MS);
	}
	return smd_error_set(error, -ret,
		"runner: must be reached at %s%s, got %s; the host of `summand` must take "
		"connections from this one",
		invitation->addresses[0], invitation->naddresses > 1 ? " or its other addresses" : "",
		strerror(-ret));
}

static int keep(int fd)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_KEPT);
	int flags = kept < 0 ? -1 : fcntl(kept, F_GETFL);

	return flags < 0 || fcntl(kept, F_SETFL, flags | O_NONBLOCK) ? -errno : kept;
}

int smd_runner_take_stream(int *read_fd, int *write_fd, struct smd_error *error)
{
	int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);

	*read_fd = keep(STDIN_FILENO);
	*write_fd = keep(STDOUT_FILENO);
	if (empty < 0 || *read_fd < 0 || *write_fd < 0 || dup2(empty, STDIN_FILENO) < 0 ||
		dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		return smd_error_set(error, errno, "standard input and output: %s", strerror(errno));
	}
	close(empty);
	return 0;
}
