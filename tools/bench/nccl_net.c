/*
 * Measures the point-to-point networks of two NCCL plugins, side by side: between two processes of
 * this machine, in turns, the medians of both and their ratio.
 *
 *   nccl_net --plugin=LIB --peer=LIB [--rounds=N] [--sizes=BYTES,...] [--connections=N,...]
 *
 * Latency: half of a message's way there and back. Bandwidth: a stream of messages, 8 in flight on
 * each connection as NCCL has them.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/nccl_proxy/net_call.h"

#define ROUNDS_MAX      99
#define LIST_MAX        16
#define CONNECTIONS_MAX 64
#define IN_FLIGHT       8
#define STREAM_BYTES    (512.0 * (1 << 20)) /* of one measurement, but at least */
#define STREAM_LEAST    16                  /* and at most so many messages */
#define STREAM_MOST     20000
#define PINGS_MOST      4000

struct number_list {
	size_t values[LIST_MAX];
	unsigned n;
};

/* One library, and its connections to the other process. */
struct side {
	const char *path;
	struct net net;
	void *send[CONNECTIONS_MAX];
	void *receive[CONNECTIONS_MAX];
	void *send_handle[CONNECTIONS_MAX];
	void *receive_handle[CONNECTIONS_MAX];
};

static struct side sides[2];
static struct number_list sizes = {{4096, 65536, 524288, 4 << 20, 64 << 20}, 5};
static struct number_list connections = {{1, 8}, 2};
static unsigned rounds = 5;
static int other; /* a socket to the other process */
static bool first;
static uint8_t *memory; /* of all messages */

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "nccl_net: %s\n", what);
	_exit(1);
}

static void must(int ret, const char *what)
{
	if (ret) {
		fprintf(stderr, "nccl_net: %s: result %d\n", what, ret);
		_exit(1);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void meet(void)
{
	char byte = 0;

	if (write(other, &byte, 1) != 1 || read(other, &byte, 1) != 1) {
		die("the other process has ended");
	}
}

/* ---- connections ---- */

static void quiet(enum nccl_log_level level, unsigned long subsystems, const char *file, int line,
	const char *format, ...)
{
	va_list args;

	(void)subsystems;
	(void)file;
	(void)line;
	if (level == NCCL_LOG_WARN) {
		va_start(args, format);
		vfprintf(stderr, format, args);
		va_end(args);
		fputc('\n', stderr);
	}
}

static void side_load(struct side *side)
{
	void *library = dlopen(side->path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		die(dlerror());
	}
	for (int v = NET_VERSIONS - 1; v >= 0 && !side->net.table; v--) {
		char name[32];

		snprintf(name, sizeof(name), "ncclNetPlugin_v%d", net_versions[v]);
		side->net.version = net_versions[v];
		side->net.table = dlsym(library, name);
	}
	if (!side->net.table) {
		die("a library must have a net table of v6 or v8 to v12");
	}
	must(net_init(&side->net, quiet), "init");
}

static void side_connect(struct side *side, unsigned i, size_t room)
{
	char mine[NCCL_HANDLE_BYTES], theirs[NCCL_HANDLE_BYTES];
	void *listen;

	must(net_listen(&side->net, 0, mine, &listen), "listen");
	if (write(other, mine, sizeof(mine)) != (ssize_t)sizeof(mine) ||
		recv(other, theirs, sizeof(theirs), MSG_WAITALL) != (ssize_t)sizeof(theirs)) {
		die("the other process has ended");
	}
	while (!side->send[i] || !side->receive[i]) {
		if (!side->send[i]) {
			must(net_connect(&side->net, 0, theirs, &side->send[i]), "connect");
		}
		if (!side->receive[i]) {
			must(net_accept(&side->net, listen, &side->receive[i]), "accept");
		}
	}
	must(net_close_listen(&side->net, listen), "close");
	must(net_register(&side->net, side->send[i], memory, room, &side->send_handle[i]),
		"register");
	must(net_register(&side->net, side->receive[i], memory, room, &side->receive_handle[i]),
		"register");
}

/* ---- messages ---- */

static void post(struct side *side, unsigned i, size_t size, bool send, void **request)
{
	void *data = memory;
	int tag = 0;

	must(send ? net_isend(&side->net, side->send[i], data, size, tag, side->send_handle[i],
			    request)
		  : net_irecv(&side->net, side->receive[i], 1, &data, &size, &tag,
			    &side->receive_handle[i], request),
		send ? "isend" : "irecv");
}

static void finish(struct side *side, void *request)
{
	int done = 0;

	while (!done) {
		must(net_test(&side->net, request, &done, NULL), "test");
	}
}

/* Seconds of half a round trip. As many receives are posted ahead as NCCL has. */
static double measure_latency(struct side *side, size_t size, unsigned pings)
{
	void *send, *receives[IN_FLIGHT];
	double begin;

	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		post(side, 0, size, false, &receives[i]);
	}
	meet();
	begin = now();
	for (unsigned i = 0; i < pings; i++) {
		if (first) {
			post(side, 0, size, true, &send);
			finish(side, send);
		}
		finish(side, receives[i % IN_FLIGHT]);
		if (!first) {
			post(side, 0, size, true, &send);
			finish(side, send);
		}
		if (i + IN_FLIGHT < pings) {
			post(side, 0, size, false, &receives[i % IN_FLIGHT]);
		}
	}
	return (now() - begin) / pings / 2;
}

/* Seconds for `messages` on each connection, until all have arrived. */
static double measure_stream(struct side *side, size_t size, unsigned n, unsigned messages)
{
	void *requests[CONNECTIONS_MAX][IN_FLIGHT] = {{NULL}};
	unsigned begun[CONNECTIONS_MAX] = {0}, ended[CONNECTIONS_MAX] = {0};
	unsigned left = n;
	double begin;

	meet();
	begin = now();
	while (left) {
		for (unsigned i = 0; i < n; i++) {
			while (begun[i] < messages && begun[i] - ended[i] < IN_FLIGHT) {
				void **request = &requests[i][begun[i] % IN_FLIGHT];

				post(side, i, size, first, request);
				if (!*request) {
					break;
				}
				begun[i]++;
			}
			while (ended[i] < begun[i]) {
				int done;

				must(net_test(&side->net, requests[i][ended[i] % IN_FLIGHT], &done,
					     NULL),
					"test");
				if (!done) {
					break;
				}
				left -= ++ended[i] == messages;
			}
		}
	}
	meet(); /* the receiver has all */
	return now() - begin;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

static void print_pair(const char *name, size_t size, unsigned n, double plugin, double peer,
	const char *unit, double ratio)
{
	if (first) {
		printf("%-10s %9zu B  %2u connection%s  %10.3f  %10.3f %s  ratio %.2f\n", name,
			size, n, n > 1 ? "s" : " ", plugin, peer, unit, ratio);
		fflush(stdout);
	}
}

/* A ratio above 1 says that the plugin is the faster one. */
static void run_size(size_t size, unsigned n)
{
	double stream = STREAM_BYTES / (double)size;
	unsigned messages = stream < STREAM_LEAST  ? STREAM_LEAST
			    : stream > STREAM_MOST ? STREAM_MOST
						   : (unsigned)stream;
	double bandwidth[2][ROUNDS_MAX], latency[2][ROUNDS_MAX], a, b;
	unsigned pings = messages < PINGS_MOST ? messages : PINGS_MOST;

	messages = (messages + n - 1) / n;
	for (unsigned round = 0; round <= rounds; round++) { /* the first one warms up */
		for (unsigned s = 0; s < 2; s++) {
			unsigned side = (s + round) % 2;
			unsigned at = round ? round - 1 : 0;

			bandwidth[side][at] = (double)size * messages * n /
					      measure_stream(&sides[side], size, n, messages);
			if (n == 1) {
				latency[side][at] = measure_latency(&sides[side], size, pings);
			}
		}
	}
	a = median(bandwidth[0], rounds) * 1e-9;
	b = median(bandwidth[1], rounds) * 1e-9;
	print_pair("bandwidth", size, n, a, b, "GB/s", a / b);
	if (n == 1) {
		a = median(latency[0], rounds) * 1e6;
		b = median(latency[1], rounds) * 1e6;
		print_pair("latency", size, n, a, b, "us  ", b / a);
	}
}

static void run(void)
{
	size_t room = 0;
	unsigned most = 0;

	for (unsigned i = 0; i < sizes.n; i++) {
		room = sizes.values[i] > room ? sizes.values[i] : room;
	}
	memory = malloc(room);
	if (!memory) {
		die("out of memory");
	}
	memset(memory, 1, room);
	for (unsigned i = 0; i < connections.n; i++) {
		most = connections.values[i] > most ? (unsigned)connections.values[i] : most;
	}
	for (unsigned s = 0; s < 2; s++) {
		side_load(&sides[s]);
		for (unsigned i = 0; i < most; i++) {
			side_connect(&sides[s], i, room);
		}
	}
	if (first) {
		printf("%-40s %10s  %10s\n", "", "plugin", "peer");
	}
	for (unsigned c = 0; c < connections.n; c++) {
		for (unsigned i = 0; i < sizes.n; i++) {
			run_size(sizes.values[i], (unsigned)connections.values[c]);
		}
	}
	meet();
	for (unsigned s = 0; s < 2; s++) {
		for (unsigned i = 0; i < most; i++) {
			net_deregister(&sides[s].net, sides[s].send[i], sides[s].send_handle[i]);
			net_deregister(
				&sides[s].net, sides[s].receive[i], sides[s].receive_handle[i]);
			net_close_send(&sides[s].net, sides[s].send[i]);
			net_close_receive(&sides[s].net, sides[s].receive[i]);
		}
	}
	free(memory);
}

static void read_list(const char *text, size_t most, struct number_list *out)
{
	out->n = 0;
	for (char *end; *text && out->n < LIST_MAX; text = *end ? end + 1 : end) {
		out->values[out->n] = strtoull(text, &end, 10);
		if (end == text || out->values[out->n] == 0 || out->values[out->n] > most) {
			die("lists must be numbers with commas between them");
		}
		out->n++;
	}
}

static void read_option(const char *text)
{
	if (strncmp(text, "--plugin=", 9) == 0) {
		sides[0].path = text + 9;
	} else if (strncmp(text, "--peer=", 7) == 0) {
		sides[1].path = text + 7;
	} else if (strncmp(text, "--rounds=", 9) == 0) {
		rounds = (unsigned)strtoul(text + 9, NULL, 10);
	} else if (strncmp(text, "--sizes=", 8) == 0) {
		read_list(text + 8, 1 << 30, &sizes);
	} else if (strncmp(text, "--connections=", 14) == 0) {
		read_list(text + 14, CONNECTIONS_MAX, &connections);
	} else {
		fprintf(stderr, "nccl_net: unknown option \"%s\"\n", text);
		_exit(2);
	}
}

int main(int argc, char **argv)
{
	int ends[2], status = 1;
	pid_t child;

	for (int i = 1; i < argc; i++) {
		read_option(argv[i]);
	}
	if (!sides[0].path || !sides[1].path || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr,
			"nccl_net: --plugin and --peer must be given, --rounds be 1 to "
			"%d\n",
			ROUNDS_MAX);
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
		die("cannot make a socket");
	}
	child = fork();
	first = child != 0;
	other = ends[first ? 0 : 1];
	close(ends[first ? 1 : 0]);
	run();
	if (!first) {
		return 0;
	}
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
