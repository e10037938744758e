/* Serves one connection of a node: attends to the chief, or keeps a daemon. */
#include "worker/mpi/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/mpi/child.h"

#define READ_SIZE 16384
#define STREAMS   3

static struct smd_mpi_frame frame; /* a session has one process */

/* Tells the chief of the first rank that fails, and the node how the job has ended. */
static int attend(struct smd_mpi_link *link, const struct smd_mpi_scratch *scratch, int signal_fd,
	int over_fd, struct smd_error *error)
{
	int has_told = 0;
	int is_over = 0;

	for (;;) {
		/* The connection stays until the node is gone, for the chief to see. */
		struct pollfd fds[] = {
			{.fd = signal_fd, .events = POLLIN},
			{.fd = is_over ? -1 : link->fd, .events = POLLIN},
			{.fd = has_told || is_over ? -1 : scratch->watch_fd, .events = POLLIN},
		};
		uint32_t number = EXIT_FAILURE;
		uint8_t code;
		int ret = 0;

		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0) {
			continue;
		}
		if (fds[2].revents && (number = (uint32_t)smd_mpi_scratch_failure(scratch)) > 0) {
			has_told = 1;
			smd_mpi_send_number(link, SMD_MPI_FAILED, number);
		}
		if (fds[1].revents) {
			ret = smd_mpi_receive(link, &frame);
			if (!ret && frame.type == SMD_MPI_DONE) {
				ret = smd_mpi_frame_number(&frame, &number);
			} else {
				ret = ret ? ret : -EPROTO;
			}
			is_over = 1;
			code = ret ? EXIT_FAILURE : (uint8_t)number;
			if (ret) {
				smd_error_set(error, -ret, "the launch on the chief is lost: %s",
					ret == -ECONNRESET ? "it has closed the connection"
							   : strerror(-ret));
				fprintf(stderr, "summand-mpi: %s\n", error->text);
			}
			if (write(over_fd, &code, 1) != 1) {
				return -EIO;
			}
		}
		if (fds[0].revents && smd_mpi_signals_take(signal_fd) != SIGCHLD) {
			return 0;
		}
	}
}

/* A daemon and the pipes to it. */
struct daemon {
	struct smd_mpi_child child;
	int fds[STREAMS]; /* this end of its standard streams; -1: closed */
};

static void close_stream(struct daemon *daemon, int i)
{
	if (daemon->fds[i] >= 0) {
		close(daemon->fds[i]);
		daemon->fds[i] = -1;
	}
}

static int daemon_start(struct daemon *daemon, char *text)
{
	char shell[] = "/bin/sh";
	char option[] = "-c";
	char *argv[] = {shell, option, text, NULL};
	int pipes[STREAMS][2];
	int theirs[STREAMS];
	int ret = 0;

	for (int i = 0; i < STREAMS; i++) {
		if (pipe2(pipes[i], O_CLOEXEC)) {
			return -errno; /* the session ends, and what is open with it */
		}
		theirs[i] = pipes[i][i == 0 ? 0 : 1];
		daemon->fds[i] = pipes[i][i == 0 ? 1 : 0];
	}
	ret = smd_mpi_child_start(&daemon->child, argv, theirs);
	for (int i = 0; i < STREAMS; i++) {
		close(theirs[i]);
	}
	return ret;
}

/* Input comes in small pieces, and only when the pipe has room for one. */
static int take_frame(struct daemon *daemon, struct smd_mpi_link *link)
{
	int ret = smd_mpi_receive(link, &frame);

	if (ret) {
		return ret;
	}
	switch (frame.type) {
	case SMD_MPI_INPUT:
		if (daemon->fds[0] >= 0 && write(daemon->fds[0], frame.bytes, frame.length) < 0 &&
			errno == EPIPE) {
			close_stream(daemon, 0);
		}
		return 0;
	case SMD_MPI_INPUT_END:
		close_stream(daemon, 0);
		return 0;
	default:
		return -EPROTO;
	}
}

static int pass_output(struct daemon *daemon, int i, struct smd_mpi_link *link)
{
	char bytes[READ_SIZE];
	ssize_t n = read(daemon->fds[i], bytes, sizeof(bytes));

	if (n <= 0) {
		close_stream(daemon, i);
		return 0;
	}
	return smd_mpi_send(link, i == 1 ? SMD_MPI_OUTPUT : SMD_MPI_ERROR, bytes, (size_t)n);
}

/* What is left in the pipes; whoever else holds them is not waited for. */
static int drain(struct daemon *daemon, struct smd_mpi_link *link)
{
	int ret = 0;

	for (int i = 1; i < STREAMS && !ret; i++) {
		struct pollfd left = {.fd = daemon->fds[i], .events = POLLIN};

		while (left.fd >= 0 && !ret && poll(&left, 1, 0) > 0) {
			ret = pass_output(daemon, i, link);
			left.fd = daemon->fds[i];
		}
	}
	return ret;
}

/* 0: it has ended; else why its connection has. A signal that asks to end: -EINTR. */
static int daemon_watch(struct daemon *daemon, struct smd_mpi_link *link, int signal_fd)
{
	int ret = 0;

	while (!ret && !daemon->child.has_ended) {
		struct pollfd room = {.fd = daemon->fds[0], .events = POLLOUT};
		int takes = room.fd < 0 || poll(&room, 1, 0) > 0;
		struct pollfd fds[] = {
			{.fd = signal_fd, .events = POLLIN},
			{.fd = link->fd, .events = (short)(takes ? POLLIN : POLLRDHUP)},
			{.fd = daemon->fds[1], .events = POLLIN},
			{.fd = daemon->fds[2], .events = POLLIN},
			{.fd = takes ? -1 : daemon->fds[0], .events = POLLOUT},
		};

		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0) {
			continue;
		}
		for (int i = 1; i < STREAMS && !ret; i++) {
			ret = fds[1 + i].revents ? pass_output(daemon, i, link) : 0;
		}
		if (!ret && fds[1].revents) {
			ret = takes ? take_frame(daemon, link) : -ECONNRESET;
		}
		if (!ret && fds[0].revents) {
			if (smd_mpi_signals_take(signal_fd) != SIGCHLD) {
				ret = -EINTR;
			}
			smd_mpi_child_reap(&daemon->child);
		}
	}
	return ret ? ret : drain(daemon, link);
}

static int keep_daemon(struct smd_mpi_link *link, int signal_fd, struct smd_error *error)
{
	struct daemon daemon = {.child = {.pid = -1}, .fds = {-1, -1, -1}};
	int ret = smd_mpi_receive(link, &frame);

	if (!ret && frame.type != SMD_MPI_COMMAND) {
		ret = -EPROTO;
	}
	ret = ret ? ret : daemon_start(&daemon, frame.bytes);
	if (ret) {
		return smd_error_set(error, -ret, "a daemon cannot be started: %s", strerror(-ret));
	}
	ret = daemon_watch(&daemon, link, signal_fd);
	smd_mpi_child_end(&daemon.child);
	for (int i = 0; i < STREAMS; i++) {
		close_stream(&daemon, i);
	}
	if (ret == 0) {
		ret = smd_mpi_send_number(link, SMD_MPI_EXIT, (uint32_t)daemon.child.exit_code);
	}
	/* That mpirun or its starter ends, and the daemon with it, is no failure of the node. */
	return ret == -EPROTO ? smd_error_set(error, EPROTO, "a frame must be one of a starter")
			      : 0;
}

int smd_mpi_session_run(int fd, const struct smd_mpi_party *party,
	const struct smd_mpi_scratch *scratch, int over_fd, struct smd_error *error)
{
	struct smd_mpi_link link;
	enum smd_mpi_purpose purpose;
	int signal_fd = smd_mpi_signals_open();
	int ret = smd_mpi_accept(fd, party, &link, &purpose, error);

	if (ret) {
		return ret;
	}
	ret = purpose == SMD_MPI_ATTEND ? attend(&link, scratch, signal_fd, over_fd, error)
					: keep_daemon(&link, signal_fd, error);
	smd_mpi_link_close(&link);
	return ret;
}
