/*
 * One rank of a job on Vertex AI that uses NCCL, without NCCL and without a GPU: the plugin is
 * opened by NCCL_NET_PLUGIN, finds its servers in CLUSTER_SPEC, and sums buffers of all ranks,
 * whose handles meet at MASTER_ADDR and MASTER_PORT, as those of NCCL do. It needs nothing but the
 * C library.
 *
 * WORKER_DEVICES (1) says over how many of the plugin's devices: each sums its share of a buffer of
 * WORKER_BYTES (1 MiB), WORKER_TIMES (20) times. It looks for results all the time, as NCCL's thread
 * does, or where there are many more ranks than processors every WORKER_NAP (0) microseconds.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

#define RANKS_MAX   4096
#define DEVICES_MAX 16
#define PERIOD      1000
#define RETRIES     600 /* of 100 ms */

#define CHECK(condition)                                                                           \
	((condition) ? (void)0 : fail("line %d: must hold: %s", __LINE__, #condition))

/* The group over one device, and its share of the buffer. */
struct vertex_rail {
	void *listen_comm;
	void *group;
	float *send;
	float *recv;
	void *send_memory;
	void *recv_memory;
	void *request;
	int done;
};

struct job {
	const struct nccl_collnet_v8 *coll;
	int rank;
	int nranks;
	int ndevices;
	size_t count; /* floats of a rail */
	int times;
	useconds_t nap_us;
	struct vertex_rail rails[DEVICES_MAX];
};

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(EXIT_FAILURE);
}

__attribute__((format(printf, 5, 6))) static void write_log(enum nccl_log_level level,
	unsigned long subsystems, const char *file, int line, const char *format, ...)
{
	va_list args;

	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		fail("%s must be set", name);
	}
	return value;
}

static long number(const char *name, long fallback)
{
	const char *value = getenv(name);

	return value ? strtol(value, NULL, 10) : fallback;
}

/* ---- the ranks' handles ---- */

static void carry(int fd, void *bytes, size_t length, int is_out)
{
	for (size_t at = 0; at < length;) {
		char *here = (char *)bytes + at;
		ssize_t count = is_out ? send(fd, here, length - at, MSG_NOSIGNAL)
				       : recv(fd, here, length - at, 0);

		CHECK(count > 0);
		at += (size_t)count;
	}
}

/* What a rank has to tell the others is where its devices listen: so many bytes each. */
static void gather_as_chief(char *handles, size_t bytes, int nranks)
{
	const struct sockaddr_in any = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(variable("MASTER_PORT")))};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int fds[RANKS_MAX];

	CHECK(bind(listener, (const struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(listen(listener, RANKS_MAX) == 0);
	for (int i = 1; i < nranks; i++) {
		uint32_t rank;

		fds[i] = accept(listener, NULL, NULL);
		CHECK(fds[i] >= 0);
		carry(fds[i], &rank, sizeof(rank), 0);
		CHECK(rank > 0 && rank < (uint32_t)nranks);
		carry(fds[i], handles + rank * bytes, bytes, 0);
	}
	for (int i = 1; i < nranks; i++) {
		carry(fds[i], handles, (size_t)nranks * bytes, 1);
		close(fds[i]);
	}
	close(listener);
}

/* Replicas start in any order. */
static int connect_to_chief(void)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;

	if (getaddrinfo(variable("MASTER_ADDR"), variable("MASTER_PORT"), &hints, &found)) {
		fail("MASTER_ADDR=%s: is not known", variable("MASTER_ADDR"));
	}
	for (int i = 0; i < RETRIES; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
			freeaddrinfo(found);
			return fd;
		}
		close(fd);
		usleep(100000);
	}
	fail("MASTER_ADDR=%s: does not answer", variable("MASTER_ADDR"));
}

static void gather(char *handles, size_t bytes, int rank, int nranks)
{
	uint32_t own = (uint32_t)rank;
	int fd;

	if (rank == 0) {
		gather_as_chief(handles, bytes, nranks);
		return;
	}
	fd = connect_to_chief();
	carry(fd, &own, sizeof(own), 1);
	carry(fd, handles + own * bytes, bytes, 1);
	carry(fd, handles, (size_t)nranks * bytes, 0);
	close(fd);
}

/* ---- the plugin ---- */

static const struct nccl_collnet_v8 *open_plugin(int ndevices)
{
	const struct nccl_collnet_v8 *coll;
	const struct nccl_net_v8 *net;
	char name[256];
	void *library;
	int ndev = 0;

	snprintf(name, sizeof(name), "libnccl-net-%s.so", variable("NCCL_NET_PLUGIN"));
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fail("%s", dlerror());
	}
	net = dlsym(library, "ncclNetPlugin_v8");
	coll = dlsym(library, "ncclCollNetPlugin_v8");
	CHECK(net && coll);
	CHECK(net->init(write_log) == NCCL_SUCCESS && coll->init(write_log) == NCCL_SUCCESS);
	CHECK(coll->devices(&ndev) == NCCL_SUCCESS && ndev >= ndevices);
	return coll;
}

static void open_buffers(const struct job *job, struct vertex_rail *rail)
{
	size_t bytes = job->count * sizeof(float);

	rail->send = calloc(job->count, sizeof(float));
	rail->recv = calloc(job->count, sizeof(float));
	CHECK(rail->send && rail->recv);
	CHECK(job->coll->regMr(rail->group, rail->send, bytes, NCCL_PTR_HOST, &rail->send_memory) ==
		NCCL_SUCCESS);
	CHECK(job->coll->regMr(rail->group, rail->recv, bytes, NCCL_PTR_HOST, &rail->recv_memory) ==
		NCCL_SUCCESS);
}

/* Where all ranks' devices listen: each rank's, one after the other. */
static char *exchange_handles(struct job *job)
{
	size_t bytes = (size_t)job->ndevices * NCCL_HANDLE_BYTES;
	char *handles = calloc((size_t)job->nranks, bytes);
	char *own = handles + (size_t)job->rank * bytes;

	CHECK(handles);
	for (int d = 0; d < job->ndevices; d++) {
		CHECK(job->coll->listen(d, own + d * NCCL_HANDLE_BYTES,
			      &job->rails[d].listen_comm) == NCCL_SUCCESS);
	}
	gather(handles, bytes, job->rank, job->nranks);
	return handles;
}

static void open_groups(struct job *job, char *handles)
{
	for (int d = 0; d < job->ndevices; d++) {
		struct vertex_rail *rail = &job->rails[d];
		void *list[RANKS_MAX];

		for (int i = 0; i < job->nranks; i++) {
			list[i] = handles + (i * job->ndevices + d) * NCCL_HANDLE_BYTES;
		}
		CHECK(job->coll->connect(list, job->nranks, job->rank, rail->listen_comm,
			      &rail->group) == NCCL_SUCCESS);
		CHECK(job->coll->closeListen(rail->listen_comm) == NCCL_SUCCESS);
		open_buffers(job, rail);
	}
}

static void close_groups(struct job *job)
{
	for (int d = 0; d < job->ndevices; d++) {
		struct vertex_rail *rail = &job->rails[d];

		CHECK(job->coll->deregMr(rail->group, rail->send_memory) == NCCL_SUCCESS);
		CHECK(job->coll->deregMr(rail->group, rail->recv_memory) == NCCL_SUCCESS);
		CHECK(job->coll->closeColl(rail->group) == NCCL_SUCCESS);
		free(rail->send);
		free(rail->recv);
	}
}

/* ---- sums ---- */

static float part_of(int rank, size_t i, int time)
{
	return (float)((i + (size_t)(rank + time)) % PERIOD);
}

static void fill(struct job *job, int time)
{
	for (int d = 0; d < job->ndevices; d++) {
		for (size_t i = 0; i < job->count; i++) {
			job->rails[d].send[i] = part_of(job->rank + d, i, time);
		}
	}
}

/* Sums of whole numbers, which are exact, and come again after PERIOD elements. How many are wrong. */
static int count_wrong(const struct job *job, int time)
{
	float sums[PERIOD] = {0};
	int wrong = 0;

	for (int rank = 0; rank < job->nranks; rank++) {
		sums[0] += part_of(rank, 0, time);
	}
	for (size_t i = 1; i < PERIOD; i++) { /* each rank's part is what the next one's was */
		sums[i] = sums[i - 1] - part_of(0, i - 1, time) +
			  part_of(job->nranks, i - 1, time);
	}
	for (int d = 0; d < job->ndevices; d++) {
		for (size_t i = 0; i < job->count; i++) {
			wrong += job->rails[d].recv[i] != sums[(i + (size_t)d) % PERIOD];
		}
	}
	return wrong;
}

/* On all devices at once, as NCCL's channels do it. */
static void sum_all(struct job *job)
{
	int left = job->ndevices;
	int size;

	for (int d = 0; d < job->ndevices; d++) {
		struct vertex_rail *rail = &job->rails[d];

		rail->done = 0;
		CHECK(job->coll->iallreduce(rail->group, rail->send, rail->recv, job->count,
			      NCCL_FLOAT32, NCCL_SUM, rail->send_memory, rail->recv_memory,
			      &rail->request) == NCCL_SUCCESS);
		CHECK(rail->request);
	}
	for (; left; job->nap_us ? usleep(job->nap_us) : sched_yield()) {
		for (int d = 0; d < job->ndevices; d++) {
			struct vertex_rail *rail = &job->rails[d];

			if (!rail->done) {
				CHECK(job->coll->test(rail->request, &rail->done, &size) ==
					NCCL_SUCCESS);
				left -= rail->done != 0;
			}
		}
	}
}

static double now_us(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

/* What this process shares with no other one. */
static void print_memory(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	long kib = 0;
	char line[128];

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		kib += strncmp(line, "Private_", 8) == 0 ? strtol(strchr(line, ':') + 1, NULL, 10)
							 : 0;
	}
	fclose(file);
	printf("memory: %ld KiB\n", kib);
}

static int compare(const void *a, const void *b)
{
	const double *one = a;
	const double *other = b;

	return (*one > *other) - (*one < *other);
}

int main(void)
{
	struct job job = {
		.rank = atoi(variable("RANK")),
		.nranks = atoi(variable("WORLD_SIZE")),
		.ndevices = (int)number("WORKER_DEVICES", 1),
		.times = (int)number("WORKER_TIMES", 20),
		.nap_us = (useconds_t)number("WORKER_NAP", 0),
	};
	double connecting;
	double busy; /* of that, with a processor */
	double *took;
	char *handles;
	int wrong = 0;

	CHECK(job.nranks > 0 && job.nranks <= RANKS_MAX && job.rank >= 0 && job.rank < job.nranks);
	CHECK(job.ndevices > 0 && job.ndevices <= DEVICES_MAX && job.times > 0);
	job.count = (size_t)number("WORKER_BYTES", 1 << 20) / sizeof(float) / (size_t)job.ndevices;
	took = calloc((size_t)job.times, sizeof(*took));
	CHECK(took);
	job.coll = open_plugin(job.ndevices);
	handles = exchange_handles(&job);
	connecting = now_us(CLOCK_MONOTONIC);
	busy = now_us(CLOCK_PROCESS_CPUTIME_ID);
	open_groups(&job, handles);
	connecting = now_us(CLOCK_MONOTONIC) - connecting;
	busy = now_us(CLOCK_PROCESS_CPUTIME_ID) - busy;
	free(handles);
	for (int time = 0; time < job.times; time++) {
		fill(&job, time);
		took[time] = now_us(CLOCK_MONOTONIC);
		sum_all(&job);
		took[time] = now_us(CLOCK_MONOTONIC) - took[time];
		wrong += count_wrong(&job, time);
	}
	print_memory();
	close_groups(&job);
	qsort(took, (size_t)job.times, sizeof(*took), compare);
	printf("rank %d of %d: %d all-reduces, %d wrong elements\n", job.rank, job.nranks,
		job.times, wrong);
	printf("connected: %.1f ms, busy %.1f ms\n", connecting / 1e3, busy / 1e3);
	printf("median: %.1f us\n", took[job.times / 2]);
	free(took);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
