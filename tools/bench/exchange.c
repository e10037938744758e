/*
 * What a small all-reduce costs a server by epoll and by io_uring, without anything else: four
 * ranks send SIZE bytes over loopback, the server adds them and sends the sum to all.
 *
 *   exchange epoll|uring|uring-deferred SIZE OPERATIONS
 *
 * Prints a line: the time of an operation, and the processor time of the server and of a rank, in
 * us.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, ENTRIES = 16 };

struct server {
	size_t size;
	int fds[RANKS];
	char *inputs[RANKS];
	char *sum;
	size_t moved[RANKS];
	bool ready[RANKS]; /* a call may not block */
	int epoll;
	struct io_uring ring;
};

static void require(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "exchange: %s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static double seconds(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void add(struct server *server)
{
	float *sum = (float *)server->sum;

	memcpy(sum, server->inputs[0], server->size);
	for (int r = 1; r < RANKS; r++) {
		const float *input = (const float *)server->inputs[r];

		for (size_t i = 0; i < server->size / sizeof(float); i++) {
			sum[i] += input[i];
		}
	}
}

/* ---- ranks ---- */

static void run_rank(const struct sockaddr_in *address, size_t size, long operations)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char *buffer = calloc(1, size);
	int on = 1;

	require(buffer && connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0,
		"connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (long k = 0; k < operations; k++) {
		for (size_t n = 0; n < size;) {
			ssize_t sent = send(fd, buffer + n, size - n, 0);

			require(sent > 0, "send");
			n += (size_t)sent;
		}
		require(recv(fd, buffer, size, MSG_WAITALL) == (ssize_t)size, "recv");
	}
	exit(0);
}

/* ---- epoll ---- */

/* All that can be moved without waiting; whether all of it has been. */
static bool move(struct server *server, bool receive)
{
	bool all = true;

	for (int r = 0; r < RANKS; r++) {
		while (server->ready[r] && server->moved[r] < server->size) {
			size_t at = server->moved[r];
			ssize_t n = receive ? recv(server->fds[r], server->inputs[r] + at,
						      server->size - at, MSG_DONTWAIT)
					    : send(server->fds[r], server->sum + at,
						      server->size - at, MSG_DONTWAIT);

			require(n > 0 || (n < 0 && errno == EAGAIN), receive ? "recv" : "send");
			server->ready[r] = n > 0;
			server->moved[r] += n > 0 ? (size_t)n : 0;
		}
		all &= server->moved[r] == server->size;
	}
	return all;
}

static void exchange_by_epoll(struct server *server, bool receive)
{
	struct epoll_event events[RANKS];

	for (int r = 0; r < RANKS; r++) {
		server->moved[r] = 0;
		server->ready[r] = true;
	}
	while (!move(server, receive)) {
		int n = epoll_wait(server->epoll, events, RANKS, -1);

		for (int i = 0; i < n; i++) {
			server->ready[events[i].data.u32] = true;
		}
	}
}

static void begin_epoll(struct server *server)
{
	server->epoll = epoll_create1(0);
	for (uint32_t r = 0; r < RANKS; r++) {
		struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = r};

		require(epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->fds[r], &event) == 0,
			"epoll_ctl");
	}
}

/* ---- io_uring ---- */

/* One call gives the kernel all four, and returns when all are whole. */
static void exchange_by_uring(struct server *server, bool receive)
{
	struct io_uring_cqe *done;

	for (int r = 0; r < RANKS; r++) {
		struct io_uring_sqe *entry = io_uring_get_sqe(&server->ring);

		if (receive) {
			io_uring_prep_recv(entry, r, server->inputs[r], server->size, MSG_WAITALL);
		} else {
			io_uring_prep_send(entry, r, server->sum, server->size, MSG_WAITALL);
		}
		entry->flags |= IOSQE_FIXED_FILE;
	}
	require(io_uring_submit_and_wait(&server->ring, RANKS) >= 0, "io_uring_enter");
	for (int n = 0; n < RANKS; n++) {
		require(io_uring_wait_cqe(&server->ring, &done) == 0 &&
				done->res == (int)server->size,
			"io_uring");
		io_uring_cqe_seen(&server->ring, done);
	}
}

static void begin_uring(struct server *server, bool deferred)
{
	struct io_uring_params params = {
		.flags = deferred ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN : 0};

	errno = -io_uring_queue_init_params(ENTRIES, &server->ring, &params);
	require(errno == 0, "io_uring_setup");
	require(io_uring_register_files(&server->ring, server->fds, RANKS) == 0,
		"io_uring_register");
}

/* ---- all of it ---- */

static void listen_for(struct server *server, long operations, pid_t ranks[RANKS])
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int on = 1;

	require(bind(listener, (struct sockaddr *)&address, length) == 0 &&
			listen(listener, RANKS) == 0,
		"listen");
	getsockname(listener, (struct sockaddr *)&address, &length);
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = fork();
		if (ranks[r] == 0) {
			run_rank(&address, server->size, operations);
		}
	}
	for (int r = 0; r < RANKS; r++) {
		server->fds[r] = accept(listener, NULL, NULL);
		server->inputs[r] = calloc(1, server->size);
		require(server->fds[r] >= 0 && server->inputs[r], "accept");
		setsockopt(server->fds[r], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	}
	server->sum = calloc(1, server->size);
}

static double ranks_seconds(const pid_t ranks[RANKS])
{
	struct rusage usage;
	int status;

	for (int r = 0; r < RANKS; r++) {
		require(waitpid(ranks[r], &status, 0) > 0 && status == 0, "a rank");
	}
	getrusage(RUSAGE_CHILDREN, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	struct server server = {.size = argc == 4 ? strtoul(argv[2], NULL, 10) : 0};
	long operations = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
	bool epoll = argc == 4 && strcmp(argv[1], "epoll") == 0;
	void (*exchange)(struct server * server, bool receive) =
		epoll ? exchange_by_epoll : exchange_by_uring;
	pid_t ranks[RANKS];
	double time;
	double spent;

	if (server.size == 0 || operations <= 0) {
		fprintf(stderr, "usage: exchange epoll|uring|uring-deferred SIZE OPERATIONS\n");
		return 2;
	}
	listen_for(&server, operations, ranks);
	if (epoll) {
		begin_epoll(&server);
	} else {
		begin_uring(&server, strcmp(argv[1], "uring-deferred") == 0);
	}
	time = seconds(CLOCK_MONOTONIC);
	spent = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (long k = 0; k < operations; k++) {
		exchange(&server, true);
		add(&server);
		exchange(&server, false);
	}
	time = seconds(CLOCK_MONOTONIC) - time;
	spent = seconds(CLOCK_PROCESS_CPUTIME_ID) - spent;
	printf("%.1f %.1f %.1f\n", 1e6 * time / (double)operations,
		1e6 * spent / (double)operations,
		1e6 * ranks_seconds(ranks) / RANKS / (double)operations);
	return 0;
}
