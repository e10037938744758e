/* A plain reduction server, as a yardstick: plain_server ADDRESS PORT, one thread for each worker.
 */
#include <arpa/inet.h>
#include <pthread.h>

#include "plain.h"

#define WORKERS_MAX 64
#define SLOTS       2 /* one is reduced while results of the other are still sent */

struct worker {
	pthread_t thread;
	int fd;
	int rank;
	char *parts[SLOTS]; /* what it has sent */
};

static struct worker workers[WORKERS_MAX];
static int size;
static char *results[SLOTS];
static pthread_barrier_t barrier;

static void sum_floats(float *result, size_t begin, size_t end, int slot)
{
	const float *first = (const float *)workers[0].parts[slot];

	for (size_t i = begin; i < end; i++) {
		result[i] = first[i];
	}
	for (int r = 1; r < size; r++) {
		const float *part = (const float *)workers[r].parts[slot];

		for (size_t i = begin; i < end; i++) {
			result[i] += part[i];
		}
	}
}

static void max_doubles(double *result, size_t count, int slot)
{
	for (size_t i = 0; i < count; i++) {
		result[i] = ((const double *)workers[0].parts[slot])[i];
		for (int r = 1; r < size; r++) {
			double value = ((const double *)workers[r].parts[slot])[i];

			result[i] = value > result[i] ? value : result[i];
		}
	}
}

/* This worker's share of the slot's reduction. */
static void reduce_share(const struct worker *worker, uint32_t op, size_t bytes, int slot)
{
	size_t count = bytes / sizeof(float);

	if (op == PLAIN_SUM_FLOAT) {
		sum_floats((float *)results[slot], count * (size_t)worker->rank / (size_t)size,
			count * ((size_t)worker->rank + 1) / (size_t)size, slot);
	} else if (worker->rank == 0) {
		max_doubles((double *)results[slot], bytes / sizeof(double), slot);
	}
}

/* The barrier of the next chunk comes after this one's result is sent, so two slots are enough. */
static void *serve(void *arg)
{
	struct worker *worker = arg;
	struct plain_head head;
	int slot = 0;

	while (plain_read(worker->fd, &head, sizeof(head))) {
		for (size_t at = 0; at < head.bytes; at += PLAIN_CHUNK) {
			size_t left = head.bytes - at;
			size_t length = left < PLAIN_CHUNK ? left : PLAIN_CHUNK;

			plain_must(plain_read(worker->fd, worker->parts[slot], length), "recv");
			pthread_barrier_wait(&barrier);
			reduce_share(worker, head.op, length, slot);
			pthread_barrier_wait(&barrier);
			plain_write(worker->fd, results[slot], length);
			slot = (slot + 1) % SLOTS;
		}
	}
	close(worker->fd);
	return NULL;
}

static int listen_at(const char *address, int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	plain_must(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	plain_must(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0, "bind");
	plain_must(listen(fd, WORKERS_MAX) == 0, "listen");
	return fd;
}

static void accept_workers(int listener)
{
	int accepted = 0;

	do {
		struct plain_greeting greeting;
		int fd = accept(listener, NULL, NULL);

		plain_must(fd >= 0, "accept");
		plain_tune(fd);
		plain_must(plain_read(fd, &greeting, sizeof(greeting)) &&
				   greeting.rank < WORKERS_MAX && greeting.size <= WORKERS_MAX,
			"greeting");
		workers[greeting.rank].fd = fd;
		workers[greeting.rank].rank = (int)greeting.rank;
		size = (int)greeting.size;
	} while (++accepted < size);
}

static char *allocate_chunk(void)
{
	char *chunk = aligned_alloc(4096, PLAIN_CHUNK);

	plain_must(chunk != NULL, "memory");
	return chunk;
}

/* One job after another, each until its workers have gone. */
static void serve_job(int listener)
{
	accept_workers(listener);
	pthread_barrier_init(&barrier, NULL, (unsigned)size);
	for (int r = 0; r < size; r++) {
		plain_must(pthread_create(&workers[r].thread, NULL, serve, &workers[r]) == 0,
			"thread");
	}
	for (int r = 0; r < size; r++) {
		pthread_join(workers[r].thread, NULL);
	}
	pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
	int listener;

	if (argc != 3) {
		fprintf(stderr, "plain_server: must have ADDRESS PORT\n");
		return 2;
	}
	for (int slot = 0; slot < SLOTS; slot++) {
		results[slot] = allocate_chunk();
		for (int r = 0; r < WORKERS_MAX; r++) {
			workers[r].parts[slot] = allocate_chunk();
		}
	}
	listener = listen_at(argv[1], atoi(argv[2]));
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		serve_job(listener);
	}
}
