/* Forks the nodes, carries their bytes, and ends those that hang. */
#include "tests/nccl_proxy/fleet.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/nccl_proxy/logbook.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 4
#else
#define SLOWNESS 1
#endif

#define DOING_BYTES 128

/* What the process that runs a fleet knows of a node. */
struct seat {
	pid_t pid;     /* 0: ended */
	int bootstrap; /* -1: closed at the other end */
};

static struct fleet_node *self;
static char (*doing)[DOING_BYTES]; /* of each node; shared by all processes */
static pthread_mutex_t doing_lock = PTHREAD_MUTEX_INITIALIZER;

int fleet_slowness(void)
{
	return SLOWNESS;
}

void fleet_doing(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	pthread_mutex_lock(&doing_lock);
	vsnprintf(doing[self->rank], DOING_BYTES, format, args);
	pthread_mutex_unlock(&doing_lock);
	va_end(args);
}

/* In one piece, as other nodes may write, too. */
void fleet_fail(const char *file, int line, const char *format, ...)
{
	char owner[32];
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(owner, sizeof(owner), "node %d:", self ? self->rank : -1);
	fprintf(stderr, "%s %s:%d: %s (%s)\n", owner, file, line, text,
		self ? doing[self->rank] : "before the fleet");
	logbook_print(owner);
	fflush(NULL);
	_exit(1);
}

/* ---- the bootstrap ---- */

static bool send_all(int fd, const void *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool receive_all(int fd, void *bytes, size_t size)
{
	return recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

void fleet_gather(struct fleet_node *node, const void *mine, size_t size, void *all)
{
	uint32_t length = (uint32_t)size;

	CHECK(size <= FLEET_BYTES_MAX);
	CHECK(send_all(node->bootstrap, &length, sizeof(length)));
	CHECK(send_all(node->bootstrap, mine, size));
	CHECK(receive_all(node->bootstrap, all, size * (size_t)node->nnodes));
}

void fleet_barrier(struct fleet_node *node)
{
	char all[FLEET_NODES_MAX];

	fleet_gather(node, "", 1, all);
}

/* One node's bytes, or zeros where it has ended. False: it has. */
static bool take(struct seat *seat, uint32_t *size, char *bytes)
{
	uint32_t length;

	if (seat->bootstrap >= 0 && receive_all(seat->bootstrap, &length, sizeof(length)) &&
		length <= FLEET_BYTES_MAX && receive_all(seat->bootstrap, bytes, length)) {
		*size = length;
		return true;
	}
	if (seat->bootstrap >= 0) {
		close(seat->bootstrap);
		seat->bootstrap = -1;
	}
	return false;
}

/* Every node that is there has to call, so this waits for each. */
static void carry(struct seat *seats, int nnodes)
{
	static char given[FLEET_NODES_MAX][FLEET_BYTES_MAX];
	static char all[FLEET_NODES_MAX * FLEET_BYTES_MAX];
	uint32_t size = 0;

	for (int r = 0; r < nnodes; r++) {
		if (!take(&seats[r], &size, given[r])) {
			memset(given[r], 0, FLEET_BYTES_MAX);
		}
	}
	for (int r = 0; r < nnodes; r++) {
		memcpy(all + (size_t)r * size, given[r], size);
	}
	for (int r = 0; size && r < nnodes; r++) {
		if (seats[r].bootstrap >= 0) {
			send_all(seats[r].bootstrap, all, (size_t)nnodes * size);
		}
	}
}

/* ---- the nodes ---- */

static void run_node(const struct fleet *fleet, int rank, int bootstrap, pid_t parent)
{
	struct fleet_node node = {
		.rank = rank,
		.nnodes = fleet->nnodes,
		.argument = fleet->argument,
		.bootstrap = bootstrap,
	};
	char name[32];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(1);
	}
	snprintf(name, sizeof(name), "node-%d", rank);
	setenv("SUMMAND_REPLICA", name, 1);
	self = &node;
	fleet->body(&node);
	exit(0);
}

static void start_nodes(const struct fleet *fleet, struct seat *seats)
{
	pid_t parent = getpid();

	fflush(NULL);
	for (int r = 0; r < fleet->nnodes; r++) {
		int ends[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		seats[r].bootstrap = ends[0];
		seats[r].pid = fork();
		CHECK(seats[r].pid >= 0);
		if (seats[r].pid == 0) {
			for (int i = 0; i <= r; i++) {
				close(seats[i].bootstrap);
			}
			run_node(fleet, r, ends[1], parent);
		}
		close(ends[1]);
	}
}

/* False: it has not ended as it should. */
static bool judge(const struct fleet *fleet, int rank, int status)
{
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	if (fleet->killed >> rank & 1 ? killed : status == 0) {
		return true;
	}
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "node %d: ended by signal %d (%s)\n", rank, WTERMSIG(status),
			doing[rank]);
	} else {
		fprintf(stderr, "node %d: exit code %d\n", rank, WEXITSTATUS(status));
	}
	return false;
}

/* Ends the nodes that are left. */
static void end_nodes(const struct fleet *fleet, struct seat *seats, const char *why)
{
	for (int r = 0; r < fleet->nnodes; r++) {
		if (seats[r].pid) {
			fprintf(stderr, "node %d: %s (%s)\n", r, why, doing[r]);
			kill(seats[r].pid, SIGKILL);
			waitpid(seats[r].pid, NULL, 0);
			seats[r].pid = 0;
		}
	}
}

/* How many nodes are left; *good becomes false when one has failed. */
static int collect(const struct fleet *fleet, struct seat *seats, bool *good)
{
	int left = 0;

	for (int r = 0; r < fleet->nnodes; r++) {
		int status;

		if (seats[r].pid && waitpid(seats[r].pid, &status, WNOHANG) == seats[r].pid) {
			seats[r].pid = 0;
			*good &= judge(fleet, r, status);
		}
		left += seats[r].pid != 0;
	}
	return left;
}

/* Whether every node that has not ended has something to be carried; waits a little for that. */
static bool all_call(const struct seat *seats, int nnodes)
{
	bool any = false;

	for (int r = 0; r < nnodes; r++) {
		struct pollfd wait = {.fd = seats[r].bootstrap, .events = POLLIN};

		if (seats[r].bootstrap >= 0 && poll(&wait, 1, 20) == 0) {
			return false;
		}
		any |= seats[r].bootstrap >= 0;
	}
	return any;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool attend(const struct fleet *fleet, struct seat *seats)
{
	double end = now() + fleet->seconds * SLOWNESS;
	bool good = true;

	while (collect(fleet, seats, &good)) {
		if (all_call(seats, fleet->nnodes)) {
			carry(seats, fleet->nnodes);
		} else {
			usleep(2000);
		}
		if (!good) {
			end_nodes(fleet, seats, "ended, as another one has failed");
		} else if (now() > end) {
			end_nodes(fleet, seats, "hangs");
			good = false;
		}
	}
	return good;
}

bool fleet_run(const struct fleet *fleet)
{
	struct seat seats[FLEET_NODES_MAX] = {{0}};
	size_t shared = FLEET_NODES_MAX * DOING_BYTES;
	bool good;

	CHECK(fleet->nnodes <= FLEET_NODES_MAX);
	doing = mmap(NULL, shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(doing != MAP_FAILED);
	start_nodes(fleet, seats);
	good = attend(fleet, seats);
	for (int r = 0; r < fleet->nnodes; r++) {
		if (seats[r].bootstrap >= 0) {
			close(seats[r].bootstrap);
		}
	}
	munmap(doing, shared);
	return good;
}
