/*
 * One rank of a job of tools/soak: collectives of random types, reductions and sizes in several
 * groups, the same on every rank because all draw them from one seed, and every result compared.
 *
 *   soak_rank work SEED NRANKS RANK GROUPS OPERATIONS MOST_BYTES destroy|exit|abrupt
 *   soak_rank half GROUP          joins a group of which no other rank ever comes
 *   soak_rank flood SECONDS       is refused as the second rank 0 of a group, again and again
 *
 * A rank says `joined` when it is in all groups, and at its end how many operations and bytes were
 * right. Exit code: 0 when all results were right, 1 for a wrong one, 2 for a wrong command line, 3
 * when a call failed, with its sentence.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/dtype.h"
#include "reduction_server/base/random.h"
#include "reduction_server/kernels/convert.h"
#include "worker/summand.h"

enum {
	PERIOD = 1009, /* inputs repeat after so many elements; prime, so that no chunk fits
			  another's place */
	GROUPS_MAX = 8,
	FLIGHT_MAX = 4, /* operations that are started before the first is waited for */
	ELEMENT_MAX = 8,
	GUARD = 64, /* bytes beside a buffer that nobody may write */
	POISON = 0xa5,
};

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_FAILED = 3 };

enum collective { ALLREDUCE, IN_PLACE, REDUCE, BROADCAST, BARRIER, COLLECTIVES };

struct job {
	uint64_t draw; /* the state of what all ranks draw alike */
	int nranks;
	int rank;
	int ngroups;
	uint64_t most_bytes;
	smd_context *context;
	smd_comm *comms[GROUPS_MAX];
	uint64_t operations;
	uint64_t bytes;
};

struct operation {
	unsigned number;
	enum collective collective;
	enum smd_dtype dtype;
	enum smd_op op;
	size_t count;
	int group;
	int root;
	uint8_t *send;
	uint8_t *recv; /* of what was allocated, GUARD bytes in */
	smd_request *request;
};

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, smd_error_message());
	exit(EXIT_FAILED);
}

static uint64_t draw(struct job *job, uint64_t below)
{
	return smd_random_next(&job->draw) % below;
}

/* Ranks stand in another order in each group. */
static int rank_in(const struct job *job, int group)
{
	return (job->rank + group) % job->nranks;
}

/* Small whole numbers, of which every sum of some ranks' is exact or rounds once, in every type. */
static double value(const struct operation *o, int rank, size_t i)
{
	int number = (int)((i * 7 + (size_t)rank * 3 + o->number) % 5);

	if (o->op == SMD_PROD && o->collective != BROADCAST) {
		return number == 0 ? 2 : 1;
	}
	return smd_dtype_is_unsigned(o->dtype) ? number : number - 2;
}

static double expected(const struct operation *o, int nranks, size_t i)
{
	double result = value(o, 0, i);

	if (o->collective == BROADCAST) {
		return value(o, o->root, i);
	}
	for (int r = 1; r < nranks; r++) {
		double next = value(o, r, i);

		switch (o->op) {
		case SMD_PROD:
			result *= next;
			break;
		case SMD_MAX:
			result = next > result ? next : result;
			break;
		case SMD_MIN:
			result = next < result ? next : result;
			break;
		case SMD_SUM:
		case SMD_AVG:
		case SMD_OP_COUNT:
			result += next;
			break;
		}
	}
	return o->op == SMD_AVG ? result / nranks : result;
}

/* One period of what a rank sends, or, with rank -1, of what comes out. */
static void encode_period(uint8_t *to, const struct operation *o, int rank, int nranks)
{
	size_t size = smd_dtype_bytes(o->dtype);

	for (size_t i = 0; i < PERIOD; i++) {
		smd_element_encode(to + i * size, o->dtype,
			rank < 0 ? expected(o, nranks, i) : value(o, rank, i));
	}
}

static void fill(uint8_t *to, const struct operation *o, int rank, int nranks)
{
	static uint8_t period[PERIOD * ELEMENT_MAX];
	size_t length = o->count * smd_dtype_bytes(o->dtype);
	size_t step = PERIOD * smd_dtype_bytes(o->dtype);

	encode_period(period, o, rank, nranks);
	for (size_t at = 0; at < length; at += step) {
		memcpy(to + at, period, length - at < step ? length - at : step);
	}
}

static bool is_right(const uint8_t *buffer, const struct operation *o, int nranks)
{
	static uint8_t period[PERIOD * ELEMENT_MAX];
	size_t length = o->count * smd_dtype_bytes(o->dtype);
	size_t step = PERIOD * smd_dtype_bytes(o->dtype);

	encode_period(period, o, -1, nranks);
	for (size_t at = 0; at < length; at += step) {
		if (memcmp(buffer + at, period, length - at < step ? length - at : step) != 0) {
			return false;
		}
	}
	return true;
}

static bool is_poison(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != POISON) {
			return false;
		}
	}
	return true;
}

static uint8_t *allocate(size_t length)
{
	uint8_t *memory = malloc(length + 2 * (size_t)GUARD);

	if (!memory) {
		perror("soak_rank: memory");
		exit(EXIT_FAILED);
	}
	memset(memory, POISON, length + 2 * (size_t)GUARD);
	return memory + GUARD;
}

static void choose(struct job *job, struct operation *o, unsigned number)
{
	uint64_t bytes;
	uint64_t bits = 0;

	while (job->most_bytes >> (bits + 1)) {
		bits++;
	}
	bytes = (uint64_t)1 << draw(job, bits + 1); /* every order of magnitude as often */
	bytes += draw(job, bytes);
	bytes = bytes < job->most_bytes ? bytes : job->most_bytes;
	o->number = number;
	o->dtype = (enum smd_dtype)draw(job, SMD_DTYPE_COUNT);
	o->op = (enum smd_op)draw(job, SMD_OP_COUNT);
	o->collective = (enum collective)draw(job, COLLECTIVES);
	o->group = (int)draw(job, (uint64_t)job->ngroups);
	o->root = (int)draw(job, (uint64_t)job->nranks);
	o->count = bytes / smd_dtype_bytes(o->dtype);
	o->count = o->count ? o->count : 1;
}

static int start_collective(struct job *job, struct operation *o)
{
	smd_comm *comm = job->comms[o->group];

	switch (o->collective) {
	case BROADCAST:
		return smd_broadcast_start(comm, o->recv, o->count, o->dtype, o->root, &o->request);
	case REDUCE:
		return smd_reduce_start(
			comm, o->send, o->recv, o->count, o->dtype, o->op, o->root, &o->request);
	case IN_PLACE:
		return smd_allreduce_start(
			comm, o->recv, o->recv, o->count, o->dtype, o->op, &o->request);
	case ALLREDUCE:
	case BARRIER:
	case COLLECTIVES:
		break;
	}
	return smd_allreduce_start(comm, o->send, o->recv, o->count, o->dtype, o->op, &o->request);
}

static void start(struct job *job, struct operation *o)
{
	int me = rank_in(job, o->group);
	size_t length = o->count * smd_dtype_bytes(o->dtype);

	o->recv = allocate(length);
	o->send = allocate(length);
	fill(o->send, o, me, job->nranks);
	if (o->collective == IN_PLACE || (o->collective == BROADCAST && me == o->root)) {
		memcpy(o->recv, o->send, length);
	}
	if (start_collective(job, o)) {
		fail("start");
	}
}

static void finish(struct job *job, struct operation *o)
{
	size_t length = o->count * smd_dtype_bytes(o->dtype);
	bool has_result = o->collective != REDUCE || o->root == rank_in(job, o->group);

	if (smd_request_wait(o->request)) {
		fail("operation");
	}
	if (!is_poison(o->recv - GUARD, GUARD) || !is_poison(o->recv + length, GUARD) ||
		(has_result && !is_right(o->recv, o, job->nranks))) {
		fprintf(stderr,
			"operation %u is wrong: collective %d of %zu %s, %s, root %d, rank %d of "
			"%d\n",
			o->number, o->collective, o->count, smd_dtype_name(o->dtype),
			smd_op_name(o->op), o->root, rank_in(job, o->group), job->nranks);
		exit(EXIT_WRONG);
	}
	free(o->send - GUARD);
	free(o->recv - GUARD);
	job->operations++;
	job->bytes += length;
}

/* Some operations at once, then now and then a pause, of which each rank makes another. */
static void run_operations(struct job *job, unsigned operations)
{
	struct operation flight[FLIGHT_MAX];
	uint64_t own = job->draw + (uint64_t)job->rank;

	for (unsigned done = 0; done < operations;) {
		unsigned n = 1 + (unsigned)draw(job, FLIGHT_MAX);

		for (unsigned i = 0; i < n; i++) {
			choose(job, &flight[i], done + i);
			if (flight[i].collective == BARRIER) {
				n = i;
				if (smd_barrier(job->comms[flight[i].group])) {
					fail("barrier");
				}
				done++;
				job->operations++;
				break;
			}
			start(job, &flight[i]);
		}
		for (unsigned i = 0; i < n; i++) {
			finish(job, &flight[i]);
		}
		done += n;
		if (smd_random_next(&own) % 8 == 0) {
			usleep((useconds_t)(smd_random_next(&own) % 20000));
		}
	}
}

static void create_context(struct job *job)
{
	if (smd_context_create(NULL, &job->context)) {
		fail("context");
	}
}

static int work(char **words)
{
	struct job job = {.draw = strtoull(words[0], NULL, 10),
		.nranks = atoi(words[1]),
		.rank = atoi(words[2]),
		.ngroups = atoi(words[3]),
		.most_bytes = strtoull(words[5], NULL, 10)};

	if (job.nranks < 1 || job.rank < 0 || job.rank >= job.nranks || job.ngroups < 1 ||
		job.ngroups > GROUPS_MAX || job.most_bytes < 1) {
		return EXIT_USAGE;
	}
	create_context(&job);
	for (int g = 0; g < job.ngroups; g++) {
		char name[32];

		snprintf(name, sizeof(name), "group %d", g);
		if (smd_comm_create(
			    job.context, name, job.nranks, rank_in(&job, g), &job.comms[g])) {
			fail("group");
		}
	}
	puts("joined");
	fflush(stdout);
	run_operations(&job, (unsigned)strtoul(words[4], NULL, 10));
	printf("%llu %llu\n", (unsigned long long)job.operations, (unsigned long long)job.bytes);
	fflush(stdout);
	if (strcmp(words[6], "abrupt") == 0) {
		_exit(0);
	}
	for (int g = 0; g < job.ngroups && strcmp(words[6], "destroy") == 0; g++) {
		smd_comm_destroy(job.comms[g]);
	}
	if (strcmp(words[6], "destroy") == 0) {
		smd_context_destroy(job.context);
	}
	return 0;
}

static int join_half(const char *group)
{
	struct job job = {0};

	create_context(&job);
	if (smd_comm_create(job.context, group, 200, 7, &job.comms[0]) == 0) {
		return EXIT_WRONG;
	}
	fail("group");
	return 0;
}

static int flood(const char *seconds)
{
	time_t end = time(NULL) + atoi(seconds);
	struct job job = {0};
	unsigned long refused = 0;

	create_context(&job);
	if (smd_comm_create(job.context, "flooded", 1, 0, &job.comms[0])) {
		fail("group");
	}
	for (; time(NULL) < end; refused++) {
		if (smd_comm_create(job.context, "flooded", 1, 0, &job.comms[1]) == 0) {
			return EXIT_WRONG;
		}
	}
	printf("%lu\n", refused);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 9 && strcmp(argv[1], "work") == 0) {
		return work(argv + 2);
	}
	if (argc == 3 && strcmp(argv[1], "half") == 0) {
		return join_half(argv[2]);
	}
	if (argc == 3 && strcmp(argv[1], "flood") == 0) {
		return flood(argv[2]);
	}
	fprintf(stderr, "soak_rank: see the top of tests/functional/soak/rank.c\n");
	return EXIT_USAGE;
}
