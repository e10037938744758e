/* Any other replica's program: starts the launcher's daemons there until the chief says it is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker/agent/descendants.h"
#include "worker/agent/exit_record.h"
#include "worker/mpi/child.h"
#include "worker/mpi/nested.h"
#include "worker/mpi/nodes.h"
#include "worker/mpi/scratch.h"
#include "worker/mpi/session.h"
#include "worker/mpi/verbs.h"

#define SESSIONS_MAX 64  /* at once; proved or not */
#define END_STEPS    300 /* of 10 ms */
#define END_STEP_NS  10000000

struct replica_node {
	struct smd_mpi_scratch scratch;
	char token[SMD_TOKEN_MAX + 1];
	struct smd_mpi_party party;
	int listener;
	int signal_fd;
	int over[2]; /* of a session that knows how the job ended: the exit code */
	pid_t sessions[SESSIONS_MAX];
	size_t nsessions;
	int exit_code;
	int is_over;
};

/* In a process of its own, so that what it starts is found below it. */
static void accept_session(struct replica_node *node)
{
	struct smd_error error = {{0}};
	int fd = accept4(node->listener, NULL, NULL, SOCK_CLOEXEC);
	pid_t parent = getpid();
	pid_t pid;

	if (fd < 0) {
		return;
	}
	pid = node->nsessions < SESSIONS_MAX ? fork() : -1;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(node->listener);
		close(node->signal_fd);
		if (getppid() != parent || smd_mpi_session_run(fd, &node->party, &node->scratch,
						   node->over[1], &error)) {
			_exit(smd_mpi_fail(EXIT_FAILURE, &error));
		}
		_exit(EXIT_SUCCESS);
	}
	if (pid > 0) {
		node->sessions[node->nsessions++] = pid;
	}
	close(fd);
}

/* Orphans of a session come here too. */
static void reap_sessions(struct replica_node *node)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (size_t i = 0; i < node->nsessions; i++) {
			if (node->sessions[i] == pid) {
				node->sessions[i] = node->sessions[--node->nsessions];
			}
		}
	}
}

static void take_signals(struct replica_node *node)
{
	int signo;

	while ((signo = smd_mpi_signals_take(node->signal_fd))) {
		if (signo == SIGCHLD) {
			reap_sessions(node);
		} else {
			node->is_over = 1;
			node->exit_code = SMD_EXIT_SIGNALLED + signo;
		}
	}
}

static void serve(struct replica_node *node)
{
	while (!node->is_over) {
		struct pollfd fds[] = {
			{.fd = node->signal_fd, .events = POLLIN},
			{.fd = node->over[0], .events = POLLIN},
			{.fd = node->listener, .events = POLLIN},
		};
		uint8_t code;

		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0) {
			continue;
		}
		if (fds[0].revents) {
			take_signals(node);
		}
		if (fds[1].revents && read(node->over[0], &code, 1) == 1) {
			node->is_over = 1;
			node->exit_code = code;
		}
		if (fds[2].revents && !node->is_over) {
			accept_session(node);
		}
	}
}

/* They end what they have started, so they get the time for it. */
static void end_sessions(struct replica_node *node)
{
	const struct timespec step = {.tv_nsec = END_STEP_NS};

	close(node->listener);
	for (size_t i = 0; i < node->nsessions; i++) {
		kill(node->sessions[i], SIGTERM);
	}
	for (int i = 0; i < END_STEPS && node->nsessions > 0; i++) {
		nanosleep(&step, NULL);
		reap_sessions(node);
	}
	smd_descendants_kill();
}

int smd_mpi_node(const struct smd_mpi_options *options)
{
	struct replica_node node = {.listener = -1};
	struct smd_error error = {{0}};
	int ret = smd_mpi_party_read(&node.party, node.token, &error);

	node.party.replica = smd_mpi_replica();
	node.signal_fd = smd_mpi_signals_open();
	if (!ret && (node.signal_fd < 0 || pipe2(node.over, O_CLOEXEC))) {
		ret = smd_error_set(&error, errno, "pipes cannot be made: %m");
	}
	ret = ret ? ret : smd_mpi_scratch_make(&node.scratch, &error);
	if (ret) {
		return smd_mpi_fail(EXIT_FAILURE, &error);
	}
	/* Several replicas of one host are several hosts to Open MPI, whose segments would have the
	 * same names, and whose ranks would take those of another replica for their neighbours. */
	setenv("OMPI_MCA_btl_vader_backing_directory", node.scratch.path, 1);
	setenv("PMIX_HOSTNAME", node.party.replica, 1);
	if (smd_mpi_nested_make(&node.scratch, &error) == 0) {
		node.listener = smd_mpi_listen(options->listen, &error);
	}
	if (node.listener < 0) {
		node.exit_code = smd_mpi_fail(EXIT_FAILURE, &error);
	} else {
		serve(&node);
		end_sessions(&node);
	}
	smd_mpi_scratch_remove(&node.scratch);
	return node.exit_code;
}
