/* Forks the nodes, carries their bytes, and ends those that hang. */
#include "tests/nccl_proxy/fleet.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
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

#define EMULATED 6 /* processors, on a host that does other things too */

#define DOING_BYTES 128
#define STARVED_NS  100000000ull /* how often the nodes' starvation is read */
#define LIMITS_MOST 4            /* a fleet ends after so many times its limit in any case */

/* What the process that runs a fleet knows of a node. */
struct seat {
	pid_t pid;     /* 0: ended */
	int bootstrap; /* -1: closed at the other end */
	uint64_t starved_ns; /* so far, of this process */
};

/* What all processes of the fleet see. */
struct board {
	char doing[FLEET_NODES_MAX][DOING_BYTES];
	_Atomic uint64_t starved_ns; /* of the node that starved most */
};

static struct fleet_node *self;
static struct board *board;
static pthread_mutex_t doing_lock = PTHREAD_MUTEX_INITIALIZER;

static double clock_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double fleet_now(void)
{
	return clock_seconds() - (board ? (double)atomic_load(&board->starved_ns) * 1e-9 : 0);
}

size_t fleet_share(size_t whole)
{
	return getenv("SUMMAND_TEST_RDMA") ? (whole + 7) / 8 : whole;
}

int fleet_slowness(void)
{
	return SLOWNESS * (getenv("SUMMAND_TEST_RDMA") ? EMULATED : 1);
}

void fleet_doing(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	pthread_mutex_lock(&doing_lock);
	vsnprintf(board->doing[self->rank], DOING_BYTES, format, args);
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
		self ? board->doing[self->rank] : "before the fleet");
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
	fleet_doing("has begun");
	fleet->body(&node);
	exit(0);
}

static void start_node(const struct fleet *fleet, struct seat *seats, int rank)
{
	pid_t parent = getpid();
	int ends[2];

	fflush(NULL);
	snprintf(board->doing[rank], DOING_BYTES, "has not begun");
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	seats[rank].bootstrap = ends[0];
	seats[rank].starved_ns = 0;
	seats[rank].pid = fork();
	CHECK(seats[rank].pid >= 0);
	if (seats[rank].pid == 0) {
		for (int i = 0; i < fleet->nnodes; i++) {
			if (seats[i].bootstrap >= 0) {
				close(seats[i].bootstrap);
			}
		}
		run_node(fleet, rank, ends[1], parent);
	}
	close(ends[1]);
}

static void start_nodes(const struct fleet *fleet, struct seat *seats)
{
	for (int r = 0; r < fleet->nnodes; r++) {
		seats[r].bootstrap = -1;
	}
	for (int r = 0; r < fleet->nnodes; r++) {
		start_node(fleet, seats, r);
	}
}

/* How long the process was ready to run and did not, as Linux counts it; 0 where it does not. */
static uint64_t starved_ns(pid_t pid)
{
	char path[48];
	unsigned long long ran;
	unsigned long long waited = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	file = fopen(path, "r");
	if (file) {
		if (fscanf(file, "%llu %llu", &ran, &waited) != 2) {
			waited = 0;
		}
		fclose(file);
	}
	return waited;
}

static void publish_starved(const struct fleet *fleet, struct seat *seats)
{
	uint64_t most = 0; /* what has been, in this interval */

	for (int r = 0; r < fleet->nnodes; r++) {
		uint64_t now_ns = seats[r].pid ? starved_ns(seats[r].pid) : 0;

		if (now_ns > seats[r].starved_ns) {
			uint64_t since = now_ns - seats[r].starved_ns;

			most = since > most ? since : most;
			seats[r].starved_ns = now_ns;
		}
	}
	atomic_fetch_add(&board->starved_ns, most);
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
			board->doing[rank]);
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
			fprintf(stderr, "node %d: %s (%s)\n", r, why, board->doing[r]);
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

static bool attend(const struct fleet *fleet, struct seat *seats)
{
	double limit = fleet->seconds * fleet_slowness();
	double end = fleet_now() + limit;
	double last = clock_seconds() + LIMITS_MOST * limit;
	double look = 0;
	bool good = true;

	while (collect(fleet, seats, &good)) {
		if (clock_seconds() >= look) {
			publish_starved(fleet, seats);
			look = clock_seconds() + STARVED_NS * 1e-9;
		}
		if (all_call(seats, fleet->nnodes)) {
			carry(seats, fleet->nnodes);
		} else {
			usleep(2000);
		}
		if (!good) {
			end_nodes(fleet, seats, "ended, as another one has failed");
		} else if (fleet_now() > end || clock_seconds() > last) {
			end_nodes(fleet, seats, "hangs");
			good = false;
		}
	}
	return good;
}

bool fleet_run(const struct fleet *fleet)
{
	struct seat seats[FLEET_NODES_MAX] = {{0}};
	bool good;

	CHECK(fleet->nnodes <= FLEET_NODES_MAX);
	board = mmap(
		NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(board != MAP_FAILED);
	start_nodes(fleet, seats);
	good = attend(fleet, seats);
	for (int r = 0; r < fleet->nnodes; r++) {
		if (seats[r].bootstrap >= 0) {
			close(seats[r].bootstrap);
		}
	}
	munmap(board, sizeof(*board));
	board = NULL;
	return good;
}
