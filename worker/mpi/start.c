/* Stands in for ssh where mpirun starts its daemons: summand-mpi-start [-x] NAME COMMAND... */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "worker/mpi/nodes.h"
#include "worker/mpi/verbs.h"

#define EXIT_NO_CONNECTION 255 /* as ssh has it */
#define INPUT_SIZE         1024

/* The words behind each other, which the shell there takes apart again, as with ssh. NULL: out of
 * memory, or there are none. */
static char *join(char **words)
{
	size_t size = 1;
	char *text;
	char *end;

	for (char **word = words; *word; word++) {
		size += strlen(*word) + 1;
	}
	text = *words ? malloc(size) : NULL;
	end = text;
	for (char **word = words; text && *word; word++) {
		end = stpcpy(end, *word);
		*end++ = word[1] ? ' ' : '\0';
	}
	return text;
}

static int write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, bytes, length);

		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		bytes += n > 0 ? n : 0;
		length -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Takes what has come. 1: the daemon has ended, with that exit code. */
static int hear(struct smd_mpi_link *link, uint32_t *exit_code)
{
	static struct smd_mpi_frame frame;
	int ret = smd_mpi_receive(link, &frame);

	if (ret) {
		return ret;
	}
	switch (frame.type) {
	case SMD_MPI_OUTPUT:
		return write_all(STDOUT_FILENO, frame.bytes, frame.length);
	case SMD_MPI_ERROR:
		return write_all(STDERR_FILENO, frame.bytes, frame.length);
	case SMD_MPI_EXIT:
		ret = smd_mpi_frame_number(&frame, exit_code);
		return ret ? ret : 1;
	default:
		return -EPROTO;
	}
}

/* A small piece, so that sending never waits for a node that waits for this program. */
static int pass_input(struct smd_mpi_link *link, int *has_input)
{
	char bytes[INPUT_SIZE];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	*has_input = n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n > 0) {
		return smd_mpi_send(link, SMD_MPI_INPUT, bytes, (size_t)n);
	}
	return *has_input ? 0 : smd_mpi_send(link, SMD_MPI_INPUT_END, NULL, 0);
}

static int relay(struct smd_mpi_link *link, uint32_t *exit_code)
{
	int has_input = 1;
	int ret = 0;

	while (ret == 0) {
		struct pollfd room = {.fd = link->fd, .events = POLLOUT};
		int sends = has_input && poll(&room, 1, 0) > 0;
		struct pollfd fds[] = {
			{.fd = link->fd,
				.events = (short)(POLLIN | (has_input && !sends ? POLLOUT : 0))},
			{.fd = sends ? STDIN_FILENO : -1, .events = POLLIN},
		};

		if (poll(fds, 2, -1) < 0) {
			continue;
		}
		if (fds[0].revents & ~POLLOUT) {
			ret = hear(link, exit_code);
		}
		if (ret == 0 && fds[1].revents) {
			ret = pass_input(link, &has_input);
		}
	}
	return ret;
}

static int start_on(const struct smd_mpi_nodes *nodes, const char *name, char **command,
	uint32_t *exit_code, struct smd_error *error)
{
	const struct smd_mpi_node *node = smd_mpi_nodes_find(nodes, name);
	char token[SMD_TOKEN_MAX + 1];
	struct smd_mpi_party party;
	struct smd_mpi_link link;
	char *text;
	int ret;

	if (!node) {
		return smd_error_set(error, ENOENT,
			SMD_MPI_STARTER ": must start something on a replica of the job, got %s",
			name);
	}
	ret = smd_mpi_party_read(&party, token, error);
	party.replica = node->name;
	ret = ret ? ret : smd_mpi_connect(node->endpoint, SMD_MPI_START, &party, &link, error);
	explicit_bzero(token, sizeof(token));
	if (ret) {
		return ret;
	}
	text = join(command);
	ret = text ? smd_mpi_send(&link, SMD_MPI_COMMAND, text, strlen(text)) : -EINVAL;
	free(text);
	ret = ret ? ret : relay(&link, exit_code);
	smd_mpi_link_close(&link);
	return ret < 0 ? smd_error_set(error, -ret, "%s: its daemon is lost: %s", name,
				 ret == -ECONNRESET ? "the connection is closed" : strerror(-ret))
		       : 0;
}

int smd_mpi_start(char **argv)
{
	struct smd_error error = {{0}};
	struct smd_mpi_nodes nodes;
	uint32_t exit_code = EXIT_SUCCESS;
	int ret;

	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody but mpirun wants to know */
	do {
		argv++;
	} while (*argv && **argv == '-'); /* of ssh's options -x is what mpirun knows */
	if (!*argv || !argv[1]) {
		smd_error_set(
			&error, EINVAL, SMD_MPI_STARTER ": must be called as NAME COMMAND...");
		return smd_mpi_fail(EXIT_NO_CONNECTION, &error);
	}
	ret = smd_mpi_nodes_read(&nodes, &error);
	if (!ret) {
		ret = start_on(&nodes, argv[0], argv + 1, &exit_code, &error);
		smd_mpi_nodes_free(&nodes);
	}
	return ret ? smd_mpi_fail(EXIT_NO_CONNECTION, &error) : (int)exit_code;
}
