/*
 * One rank of a job on Vertex AI that uses NCCL, without NCCL and without a GPU: the plugin is
 * opened by NCCL_NET_PLUGIN, finds its servers in CLUSTER_SPEC, and sums buffers of all ranks,
 * whose handles meet at MASTER_ADDR and MASTER_PORT, as those of NCCL do. It needs nothing but the
 * C library.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

#define RANKS_MAX 16
#define COUNT     (256 * 1024) /* floats */
#define TIMES     20
#define RETRIES   600 /* of 100 ms */

#define CHECK(condition)                                                                           \
	((condition) ? (void)0 : fail("line %d: must hold: %s", __LINE__, #condition))

struct vertex_handle {
	char bytes[NCCL_HANDLE_BYTES];
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

static void gather_as_chief(struct vertex_handle *handles, int nranks)
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
		carry(fds[i], &handles[rank], sizeof(handles[rank]), 0);
	}
	for (int i = 1; i < nranks; i++) {
		carry(fds[i], handles, (size_t)nranks * sizeof(*handles), 1);
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

static void gather(struct vertex_handle *handles, int rank, int nranks)
{
	uint32_t number = (uint32_t)rank;
	int fd;

	if (rank == 0) {
		gather_as_chief(handles, nranks);
		return;
	}
	fd = connect_to_chief();
	carry(fd, &number, sizeof(number), 1);
	carry(fd, &handles[rank], sizeof(*handles), 1);
	carry(fd, handles, (size_t)nranks * sizeof(*handles), 0);
	close(fd);
}

/* ---- the plugin ---- */

static const struct nccl_collnet_v8 *open_plugin(void)
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
	CHECK(coll->devices(&ndev) == NCCL_SUCCESS && ndev > 0);
	return coll;
}

static void *open_group(const struct nccl_collnet_v8 *coll, int rank, int nranks)
{
	static struct vertex_handle handles[RANKS_MAX];
	void *list[RANKS_MAX];
	void *listen_comm;
	void *group;

	CHECK(coll->listen(0, &handles[rank], &listen_comm) == NCCL_SUCCESS);
	gather(handles, rank, nranks);
	for (int i = 0; i < nranks; i++) {
		list[i] = &handles[i];
	}
	CHECK(coll->connect(list, nranks, rank, listen_comm, &group) == NCCL_SUCCESS);
	CHECK(coll->closeListen(listen_comm) == NCCL_SUCCESS);
	return group;
}

static float part_of(int rank, int i, int time)
{
	return (float)((i + rank + time) % 1000);
}

/* Sums of whole numbers, which are exact. How many are wrong. */
static int count_wrong(const float *result, int nranks, int time)
{
	int wrong = 0;

	for (int i = 0; i < COUNT; i++) {
		float sum = 0;

		for (int rank = 0; rank < nranks; rank++) {
			sum += part_of(rank, i, time);
		}
		wrong += result[i] != sum;
	}
	return wrong;
}

int main(void)
{
	static float buffers[2][COUNT];
	int rank = atoi(variable("RANK"));
	int nranks = atoi(variable("WORLD_SIZE"));
	const struct nccl_collnet_v8 *coll;
	void *mhandles[2];
	void *group;
	int wrong = 0;

	CHECK(nranks > 0 && nranks <= RANKS_MAX && rank >= 0 && rank < nranks);
	coll = open_plugin();
	group = open_group(coll, rank, nranks);
	for (int i = 0; i < 2; i++) {
		CHECK(coll->regMr(group, buffers[i], sizeof(buffers[i]), NCCL_PTR_HOST,
			      &mhandles[i]) == NCCL_SUCCESS);
	}
	for (int time = 0; time < TIMES; time++) {
		void *request = NULL;
		int done = 0;
		int size;

		for (int i = 0; i < COUNT; i++) {
			buffers[0][i] = part_of(rank, i, time);
		}
		CHECK(coll->iallreduce(group, buffers[0], buffers[1], COUNT, NCCL_FLOAT32, NCCL_SUM,
			      mhandles[0], mhandles[1], &request) == NCCL_SUCCESS);
		CHECK(request);
		while (!done) {
			CHECK(coll->test(request, &done, &size) == NCCL_SUCCESS);
		}
		wrong += count_wrong(buffers[1], nranks, time);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(coll->deregMr(group, mhandles[i]) == NCCL_SUCCESS);
	}
	CHECK(coll->closeColl(group) == NCCL_SUCCESS);
	printf("rank %d of %d: %d all-reduces, %d wrong elements\n", rank, nranks, TIMES, wrong);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
