/* All-reduce of ranks that exchange parts with each other, as a yardstick of what servers cost
 * where processors decide: direct_allreduce RANK SIZE PORT ADDRESS,... parts|first|all PLAN
 * BUDGET_S.
 *
 * With `parts` each rank sums its part of all, with `first` the first rank sums everything, and
 * with `all` each does, in one round: nobody waits for a result. Nothing is said but bytes, and
 * nothing is kept in case of a failure.
 */
#include <arpa/inet.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "driver.h"
#include "plain.h"

#define RANKS_MAX 64
#define ALIGNMENT 4096

/* Bytes that are on their way to or from another rank. */
struct span {
	char *next;
	size_t left;
};

struct other {
	int fd;
	struct span input;  /* of its part, to it, */
	struct span result; /* of ours, to it */
	struct span theirs; /* its elements of our part, */
	struct span summed; /* and then its part's result */
	char *received;     /* where theirs go */
};

struct direct {
	struct driver base;
	float *data;
	size_t count;
	bool first; /* one rank has all, */
	bool all;   /* or each has */
	struct other others[RANKS_MAX];
};

/* Of the elements; the part of a rank ends where the next one's begins. */
static size_t part_begin(const struct direct *direct, int rank)
{
	if (direct->all) {
		return 0;
	}
	if (direct->first) {
		return rank == 0 ? 0 : direct->count;
	}
	return direct->count * (size_t)rank / (size_t)direct->base.size;
}

static struct span span_of(const struct direct *direct, int rank)
{
	size_t begin = part_begin(direct, rank);
	size_t end = direct->all ? direct->count : part_begin(direct, rank + 1);

	return (struct span){(char *)(direct->data + begin), (end - begin) * sizeof(float)};
}

static bool advance(struct span *span, ssize_t done, const char *what)
{
	plain_must(done > 0 || (done < 0 && errno == EAGAIN), what);
	if (done < 0) {
		return false;
	}
	span->next += done;
	span->left -= (size_t)done;
	return true;
}

/* As much as the socket takes. Whether it took something. */
static bool send_some(int fd, struct span *span)
{
	return span->left > 0 &&
	       advance(span, send(fd, span->next, span->left, MSG_NOSIGNAL | MSG_DONTWAIT), "send");
}

static bool receive_some(int fd, struct span *span)
{
	return span->left > 0 &&
	       advance(span, recv(fd, span->next, span->left, MSG_DONTWAIT), "recv");
}

/* Its inputs come before the result of its part, on one connection. */
static bool move(struct other *other)
{
	bool moved = send_some(other->fd, &other->input);

	if (other->input.left == 0) {
		moved |= send_some(other->fd, &other->result);
	}
	moved |= receive_some(other->fd, &other->theirs);
	if (other->theirs.left == 0) {
		moved |= receive_some(other->fd, &other->summed);
	}
	return moved;
}

static void sum_part(struct direct *direct)
{
	struct span part = span_of(direct, direct->base.rank);
	float *sums = (float *)part.next;

	for (int r = 0; r < direct->base.size; r++) {
		const float *values = (const float *)direct->others[r].received;

		for (size_t i = 0; r != direct->base.rank && i < part.left / sizeof(float); i++) {
			sums[i] += values[i];
		}
	}
	for (int r = 0; r < direct->base.size && !direct->all; r++) {
		direct->others[r].result = part;
	}
}

static void allreduce(struct driver *driver)
{
	struct direct *direct = (struct direct *)driver;
	size_t own = span_of(direct, driver->rank).left;
	bool summed = false;
	bool ended = false;

	for (int r = 0; r < driver->size; r++) {
		struct other *other = &direct->others[r];

		other->input = span_of(direct, r);
		other->summed = direct->all ? (struct span){NULL, 0} : other->input;
		other->theirs = (struct span){other->received, own};
		other->result = (struct span){NULL, 0};
	}
	while (!ended) {
		bool moved = false;
		bool received = true;

		ended = summed;
		for (int i = 1; i < driver->size; i++) { /* not all to the same one first */
			struct other *other = &direct->others[(driver->rank + i) % driver->size];

			moved |= move(other);
			received &=
				other->theirs.left == 0 && (!direct->all || other->input.left == 0);
			ended &= other->result.left == 0 && other->summed.left == 0;
		}
		if (received && !summed) {
			sum_part(direct);
			summed = true;
		} else if (!moved && !ended) {
			sched_yield();
		}
	}
}

static double max(struct driver *driver, double value)
{
	struct direct *direct = (struct direct *)driver;
	double most = value;

	for (int r = 0; r < driver->size; r++) {
		if (r != driver->rank) {
			plain_write(direct->others[r].fd, &value, sizeof(value));
		}
	}
	for (int r = 0; r < driver->size; r++) {
		double theirs = value;

		plain_must(r == driver->rank ||
				   plain_read(direct->others[r].fd, &theirs, sizeof(theirs)),
			"recv");
		most = theirs > most ? theirs : most;
	}
	return most;
}

static void begin(struct driver *driver, float *data, size_t count)
{
	struct direct *direct = (struct direct *)driver;
	size_t own;

	direct->data = data;
	direct->count = count;
	own = span_of(direct, driver->rank).left;
	for (int r = 0; r < driver->size; r++) {
		direct->others[r].received =
			aligned_alloc(ALIGNMENT, (own / ALIGNMENT + 1) * ALIGNMENT);
		plain_must(direct->others[r].received != NULL, "aligned_alloc");
	}
}

static void end(struct driver *driver)
{
	struct direct *direct = (struct direct *)driver;

	for (int r = 0; r < driver->size; r++) {
		free(direct->others[r].received);
	}
}

static int connect_to(const char *address, int port, int rank)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	plain_must(inet_pton(AF_INET, address, &at.sin_addr) == 1, address);
	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
			plain_tune(fd);
			plain_write(fd, &rank, sizeof(rank));
			return fd;
		}
		plain_must(errno == ECONNREFUSED, "connect"); /* it does not listen yet */
		close(fd);
		usleep(10000);
	}
}

/* Each rank connects to those before it. */
static void meet(struct direct *direct, int port, char *addresses)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;
	char *address = strtok(addresses, ",");

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	plain_must(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0, "bind");
	plain_must(listen(listener, RANKS_MAX) == 0, "listen");
	for (int r = 0; r < direct->base.rank && address; r++, address = strtok(NULL, ",")) {
		direct->others[r].fd = connect_to(address, port, direct->base.rank);
	}
	for (int r = direct->base.rank + 1; r < direct->base.size; r++) {
		int fd = accept(listener, NULL, NULL);
		int rank = -1;

		plain_must(fd >= 0 && plain_read(fd, &rank, sizeof(rank)), "accept");
		plain_must(rank > direct->base.rank && rank < direct->base.size, "rank");
		plain_tune(fd);
		direct->others[rank].fd = fd;
	}
	close(listener);
}

int main(int argc, char **argv)
{
	static struct direct direct = {
		.base = {.begin = begin, .allreduce = allreduce, .end = end, .max = max},
	};

	if (argc != 8 || atoi(argv[2]) > RANKS_MAX) {
		fprintf(stderr,
			"direct_allreduce: must have RANK SIZE PORT ADDRESS,... parts|first|all "
			"PLAN BUDGET_S, and at most 64 ranks\n");
		return 2;
	}
	direct.base.rank = atoi(argv[1]);
	direct.base.size = atoi(argv[2]);
	direct.first = strcmp(argv[5], "first") == 0;
	direct.all = strcmp(argv[5], "all") == 0;
	meet(&direct, atoi(argv[3]), argv[4]);
	driver_run(&direct.base, argv[6], atof(argv[7]));
	return 0;
}
