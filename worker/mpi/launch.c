/* The chief's program: waits for the other replicas, runs the launcher, and says when it is over.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "worker/agent/exit_record.h"
#include "worker/mpi/child.h"
#include "worker/mpi/launcher.h"
#include "worker/mpi/mismatch.h"
#include "worker/mpi/nested.h"

#define RETRY_NS    100000000
#define REMIND_S    10
#define FAREWELL_MS 10000
#define END_S       10 /* mpirun's, for all ranks, after one has failed */
#define NOBODY      (-1)
#define OWN         0 /* the chief's place among the nodes */

struct launch {
	struct smd_mpi_options options;
	struct smd_mpi_nodes nodes;
	struct smd_mpi_link *links; /* to each node; the chief's own is none */
	struct pollfd *fds;         /* of the links, then SIGNALS and FAILURES */
	struct smd_mpi_scratch scratch;
	struct smd_mpi_child child;
	char token[SMD_TOKEN_MAX + 1];
	struct smd_mpi_party party;
	int signal_fd;
	int signo;         /* that asked it to end */
	int first_failed;  /* the node of which a rank failed first */
	uint32_t failure;  /* that rank's exit code */
	int lost;          /* a node is gone */
	uint64_t deadline; /* when the launcher has to have ended, after a failure; 0: none */
};

/* A signal ends waiting. */
static int pause_or_end(struct launch *launch)
{
	const struct timespec pause = {.tv_nsec = RETRY_NS};
	int signo;

	nanosleep(&pause, NULL);
	while ((signo = smd_mpi_signals_take(launch->signal_fd))) {
		launch->signo = signo == SIGCHLD ? launch->signo : signo;
	}
	return launch->signo ? -EINTR : 0;
}

/* Replicas start in any order, and an engine may take its time. */
static int attend_node(struct launch *launch, size_t i, uint64_t deadline, struct smd_error *error)
{
	const struct smd_mpi_node *node = &launch->nodes.nodes[i];
	uint64_t reminder = smd_clock_ns() + REMIND_S * SMD_SECOND_NS;
	int ret;

	launch->party.replica = node->name;
	for (;;) {
		ret = smd_mpi_connect(
			node->endpoint, SMD_MPI_ATTEND, &launch->party, &launch->links[i], error);
		if (ret == 0 || ret == -EACCES || ret == -EPROTO || smd_clock_ns() >= deadline) {
			return ret;
		}
		if (smd_clock_ns() >= reminder) {
			fprintf(stderr, SMD_MPI_PROGRAM ": waiting for %s\n", error->text);
			reminder = smd_clock_ns() + REMIND_S * SMD_SECOND_NS;
		}
		error->text[0] = '\0'; /* the first one would stay */
		if (pause_or_end(launch)) {
			return smd_error_set(error, EINTR, "ended by signal %d", launch->signo);
		}
	}
}

static int attend(struct launch *launch, struct smd_error *error)
{
	uint64_t deadline = smd_clock_ns() + (uint64_t)launch->options.wait_s * SMD_SECOND_NS;
	int ret = launch->nodes.count > 1 ? smd_mpi_party_read(&launch->party, launch->token, error)
					  : 0;

	for (size_t i = 1; i < launch->nodes.count && !ret; i++) {
		ret = attend_node(launch, i, deadline, error);
	}
	return ret;
}

static int run(struct launch *launch, char **command, struct smd_error *error)
{
	const int none[3] = {-1, -1, -1};
	char **argv = command;
	int ret =
		smd_mpi_launcher_prepare(&launch->scratch, &launch->nodes, &launch->options, error);

	ret = ret ? ret : smd_mpi_nested_make(&launch->scratch, error);
	if (launch->options.is_launcher) {
		smd_mpi_mismatch_forbid();
	} else if (!ret) {
		ret = smd_mpi_launcher_argv(&launch->options,
			(int)launch->nodes.count * launch->options.processes, command, &argv,
			error);
	}
	if (ret) {
		return ret;
	}
	ret = smd_mpi_child_start(&launch->child, argv, none);
	if (ret) {
		smd_error_set(error, -ret, "%s: %s", argv[0], strerror(-ret));
	}
	if (argv != command) {
		free(argv);
	}
	return ret;
}

static void note_failure(struct launch *launch, int node, uint32_t code)
{
	if (launch->first_failed == NOBODY && code > 0) {
		launch->first_failed = node;
		launch->failure = code > 255 ? 1 : code;
		launch->deadline = smd_clock_ns() + END_S * SMD_SECOND_NS;
	}
}

static void lose_node(struct launch *launch, size_t i)
{
	if (!launch->child.has_ended && !launch->signo) {
		fprintf(stderr, SMD_MPI_PROGRAM ": %s is lost; the other ranks end\n",
			launch->nodes.nodes[i].name);
		launch->lost = 1;
	}
	launch->deadline = smd_clock_ns() + END_S * SMD_SECOND_NS;
	smd_mpi_link_close(&launch->links[i]);
	smd_mpi_child_signal(&launch->child, SIGTERM);
}

static void hear_node(struct launch *launch, size_t i)
{
	static struct smd_mpi_frame frame;
	uint32_t code;

	if (smd_mpi_receive(&launch->links[i], &frame) || frame.type != SMD_MPI_FAILED ||
		smd_mpi_frame_number(&frame, &code)) {
		lose_node(launch, i);
		return;
	}
	note_failure(launch, (int)i, code);
}

static void take_signals(struct launch *launch)
{
	int signo;

	while ((signo = smd_mpi_signals_take(launch->signal_fd))) {
		if (signo == SIGCHLD) {
			smd_mpi_child_reap(&launch->child);
		} else {
			launch->signo = signo;
			smd_mpi_child_signal(&launch->child, signo);
		}
	}
}

/* In ms, for poll(). */
static int time_left(const struct launch *launch)
{
	uint64_t now = smd_clock_ns();

	if (launch->deadline == 0) {
		return -1;
	}
	return now >= launch->deadline
		       ? 0
		       : (int)((launch->deadline - now) / (SMD_SECOND_NS / 1000)) + 1;
}

/* Until the launcher has ended, or should have: with a rank that leaves without MPI_Finalize Hydra
 * waits for the others for ever. */
static void watch(struct launch *launch)
{
	size_t count = launch->nodes.count;
	struct pollfd *own = launch->fds + count;

	while (!launch->child.has_ended && time_left(launch) != 0) {
		for (size_t i = 0; i < count; i++) {
			launch->fds[i] =
				(struct pollfd){.fd = launch->links[i].fd, .events = POLLIN};
		}
		own[0] = (struct pollfd){.fd = launch->signal_fd, .events = POLLIN};
		own[1] = (struct pollfd){.fd = launch->scratch.watch_fd, .events = POLLIN};
		if (poll(launch->fds, count + 2, time_left(launch)) < 0) {
			continue;
		}
		if (own[1].revents) {
			note_failure(
				launch, OWN, (uint32_t)smd_mpi_scratch_failure(&launch->scratch));
		}
		for (size_t i = 0; i < count; i++) {
			if (launch->fds[i].revents) {
				hear_node(launch, i);
			}
		}
		if (own[0].revents) {
			take_signals(launch);
		}
	}
}

/* A node that a rank failed on says so by its own end, which comes before the chief's. */
static void dismiss(struct launch *launch, int exit_code)
{
	const struct timespec head_start = {.tv_nsec = 2 * RETRY_NS};
	uint64_t deadline = smd_clock_ns() + FAREWELL_MS * (SMD_SECOND_NS / 1000);

	for (size_t i = 1; i < launch->nodes.count; i++) {
		int is_first = exit_code && launch->first_failed == (int)i;

		if (launch->links[i].fd >= 0) {
			smd_mpi_send_number(
				&launch->links[i], SMD_MPI_DONE, is_first ? launch->failure : 0);
		}
	}
	for (size_t i = 1; i < launch->nodes.count; i++) {
		struct pollfd gone = {.fd = launch->links[i].fd, .events = POLLRDHUP};
		uint64_t now = smd_clock_ns();

		if (gone.fd >= 0 && now < deadline) {
			poll(&gone, 1, (int)((deadline - now) / (SMD_SECOND_NS / 1000)));
		}
	}
	if (exit_code && launch->first_failed > OWN) {
		nanosleep(&head_start, NULL);
	}
}

/* The launcher's own word, or that of the rank for which it had to be ended. */
static int exit_code_of(const struct launch *launch)
{
	if (launch->child.has_ended && launch->child.exit_code && !launch->lost) {
		return launch->child.exit_code;
	}
	if (launch->failure) {
		return (int)launch->failure;
	}
	return launch->child.has_ended && !launch->lost ? 0 : EXIT_FAILURE;
}

/* MPI takes each replica for a host, so those that share one would all begin with its first core.
 */
static void settle_binding(struct launch *launch)
{
	const char *a;
	const char *b;

	if (strcmp(launch->options.binding, SMD_MPI_NOT_BOUND) != 0 &&
		smd_mpi_launcher_find_shared(&launch->nodes, &a, &b)) {
		fprintf(stderr,
			SMD_MPI_PROGRAM ": ranks are not bound (--binding=%s): %s and %s share a "
					"host, and would have the same cores\n",
			launch->options.binding, a, b);
		launch->options.binding = SMD_MPI_NOT_BOUND;
	}
}

static int open_launch(struct launch *launch, struct smd_error *error)
{
	int ret = smd_mpi_nodes_read(&launch->nodes, error);

	launch->first_failed = NOBODY;
	launch->child.pid = -1;
	launch->signal_fd = smd_mpi_signals_open();
	if (ret || launch->signal_fd < 0) {
		return ret ? ret : smd_error_set(error, EMFILE, "signals cannot be waited for");
	}
	launch->links = calloc(launch->nodes.count, sizeof(*launch->links));
	launch->fds = calloc(launch->nodes.count + 2, sizeof(*launch->fds));
	if (!launch->links || !launch->fds) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < launch->nodes.count; i++) {
		launch->links[i].fd = -1;
	}
	settle_binding(launch);
	return smd_mpi_scratch_make(&launch->scratch, error);
}

static void close_launch(struct launch *launch)
{
	for (size_t i = 0; launch->links && i < launch->nodes.count; i++) {
		smd_mpi_link_close(&launch->links[i]);
	}
	if (launch->scratch.path[0]) {
		smd_mpi_scratch_remove(&launch->scratch);
	}
	free(launch->links);
	free(launch->fds);
	smd_mpi_nodes_free(&launch->nodes);
	explicit_bzero(launch->token, sizeof(launch->token));
}

int smd_mpi_launch(const struct smd_mpi_options *options, char **command)
{
	struct launch launch = {.options = *options};
	struct smd_error error = {{0}};
	int exit_code = EXIT_FAILURE;
	int ret = open_launch(&launch, &error);

	ret = ret ? ret : attend(&launch, &error);
	ret = ret ? ret : run(&launch, command, &error);
	if (ret == 0) {
		watch(&launch);
		exit_code = exit_code_of(&launch);
	} else if (launch.signo) {
		exit_code = SMD_EXIT_SIGNALLED + launch.signo;
	} else {
		exit_code =
			smd_mpi_fail(ret == -ENOENT ? SMD_EXIT_NOT_FOUND : EXIT_FAILURE, &error);
	}
	if (launch.links) {
		smd_mpi_child_end(&launch.child);
		dismiss(&launch, exit_code);
	}
	close_launch(&launch);
	return exit_code;
}
