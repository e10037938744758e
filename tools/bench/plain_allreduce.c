/* All-reduce through plain reduction servers: plain_allreduce RANK SIZE PORT ADDRESS,... PLAN
 * BUDGET_S. */
#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>

#include "driver.h"
#include "plain.h"

#define SERVERS_MAX 64
#define SLICE_MIN   4096 /* bytes that are worth a server */

/* A connection to a server and the thread that uses it. */
struct lane {
	struct plain_driver *driver;
	pthread_t thread;
	int fd;
	struct plain_head head;
	char *slice; /* of the data, which the result replaces */
};

struct plain_driver {
	struct driver base;
	float *data;
	size_t count;
	struct lane lanes[SERVERS_MAX];
	int nlanes;
	pthread_barrier_t start;
	pthread_barrier_t done;
};

static size_t chunk_of(const struct lane *lane, size_t at)
{
	size_t left = lane->head.bytes - at;

	return left < PLAIN_CHUNK ? left : PLAIN_CHUNK;
}

static void exchange(struct lane *lane)
{
	size_t sent = 0;
	size_t taken = 0;

	if (lane->head.bytes == 0) {
		return;
	}
	plain_write(lane->fd, &lane->head, sizeof(lane->head));
	while (taken < lane->head.bytes) {
		if (sent < lane->head.bytes && sent - taken < PLAIN_AHEAD * PLAIN_CHUNK) {
			plain_write(lane->fd, lane->slice + sent, chunk_of(lane, sent));
			sent += chunk_of(lane, sent);
		} else {
			plain_must(plain_read(lane->fd, lane->slice + taken, chunk_of(lane, taken)),
				"recv");
			taken += chunk_of(lane, taken);
		}
	}
}

static void *run_lane(void *arg)
{
	struct lane *lane = arg;

	for (;;) {
		pthread_barrier_wait(&lane->driver->start);
		exchange(lane);
		pthread_barrier_wait(&lane->driver->done);
	}
	return NULL;
}

/* The caller's thread uses the first lane itself, and alone where the data are not worth more. */
static void allreduce(struct driver *driver)
{
	struct plain_driver *plain = (struct plain_driver *)driver;
	size_t bytes = plain->count * sizeof(float);
	size_t worth = (bytes + SLICE_MIN - 1) / SLICE_MIN;
	size_t n = worth < (size_t)plain->nlanes ? worth : (size_t)plain->nlanes;

	for (size_t i = 0; i < (size_t)plain->nlanes; i++) {
		size_t begin = i < n ? plain->count * i / n : plain->count;
		size_t end = i < n ? plain->count * (i + 1) / n : plain->count;

		plain->lanes[i].slice = (char *)(plain->data + begin);
		plain->lanes[i].head = (struct plain_head){
			PLAIN_SUM_FLOAT, (uint32_t)((end - begin) * sizeof(float))};
	}
	if (n == 1) {
		exchange(&plain->lanes[0]);
		return;
	}
	pthread_barrier_wait(&plain->start);
	exchange(&plain->lanes[0]);
	pthread_barrier_wait(&plain->done);
}

static double max(struct driver *driver, double value)
{
	struct lane *lane = &((struct plain_driver *)driver)->lanes[0];

	lane->slice = (char *)&value;
	lane->head = (struct plain_head){PLAIN_MAX_DOUBLE, sizeof(value)};
	exchange(lane);
	return value;
}

static void begin(struct driver *driver, float *data, size_t count)
{
	((struct plain_driver *)driver)->data = data;
	((struct plain_driver *)driver)->count = count;
}

static void end(struct driver *driver)
{
	((struct plain_driver *)driver)->data = NULL;
}

static int connect_to(const char *address, int port, const struct plain_greeting *greeting)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	plain_must(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
	plain_tune(fd);
	plain_must(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0, "connect");
	plain_write(fd, greeting, sizeof(*greeting));
	return fd;
}

static void open_lanes(struct plain_driver *plain, int port, char *addresses)
{
	const struct plain_greeting greeting = {
		(uint32_t)plain->base.rank, (uint32_t)plain->base.size};

	for (char *address = strtok(addresses, ","); address && plain->nlanes < SERVERS_MAX;
		address = strtok(NULL, ",")) {
		struct lane *lane = &plain->lanes[plain->nlanes++];

		lane->driver = plain;
		lane->fd = connect_to(address, port, &greeting);
	}
	pthread_barrier_init(&plain->start, NULL, (unsigned)plain->nlanes);
	pthread_barrier_init(&plain->done, NULL, (unsigned)plain->nlanes);
	for (int i = 1; i < plain->nlanes; i++) {
		plain_must(pthread_create(
				   &plain->lanes[i].thread, NULL, run_lane, &plain->lanes[i]) == 0,
			"thread");
	}
}

int main(int argc, char **argv)
{
	static struct plain_driver plain = {
		.base = {.begin = begin, .allreduce = allreduce, .end = end, .max = max},
	};

	if (argc != 7) {
		fprintf(stderr,
			"plain_allreduce: must have RANK SIZE PORT ADDRESS,... PLAN BUDGET_S\n");
		return 2;
	}
	plain.base.rank = atoi(argv[1]);
	plain.base.size = atoi(argv[2]);
	open_lanes(&plain, atoi(argv[3]), argv[4]);
	driver_run(&plain.base, argv[5], atof(argv[6]));
	return 0; /* ends the lanes' threads, too */
}
