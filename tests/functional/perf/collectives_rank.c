/*
 * A rank of two communicators that does every collective in both at once, in place and not, until
 * one fails: then it says how many had ended well, and the error, and ends with 0. A wrong bit ends
 * it at once (CHECK).
 *
 *   collectives_rank NRANKS RANK
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/allreduce/fixture.h"
#include "worker/summand.h"

enum { COMMS = 2, KINDS = 5, LARGE = 300000 };

struct work {
	smd_comm *comm;
	float *send;
	float *recv;
	smd_request *request;
};

static size_t count_of(int operation)
{
	/* Seven, so that each comes with every kind and every root. Of the largest no copy is kept:
	 * it returns when all hold it (worker/libsummand/history.h). */
	static const size_t counts[] = {1, 60000, 1000, 20000, LARGE, 4000, 1};

	return counts[operation % 7];
}

static bool is_in_place(int operation)
{
	return operation % KINDS % 2;
}

/* All-reduce, reduce and broadcast. Each communicator has other numbers. */
static int start(struct work *one, int nranks, int rank, int operation)
{
	size_t count = count_of(operation);
	int root = operation % nranks;
	bool broadcasts = operation % KINDS == KINDS - 1;
	float *send = is_in_place(operation) ? one->recv : one->send;

	memset(one->recv, 0xa5, count * sizeof(*one->recv));
	if (broadcasts) {
		if (rank == root) {
			pool_fill(one->recv, rank, operation, count);
		}
		return smd_broadcast_start(
			one->comm, one->recv, count, SMD_FLOAT32, root, &one->request);
	}
	pool_fill(send, rank, operation, count);
	return operation % KINDS < 2 ? smd_allreduce_start(one->comm, send, one->recv, count,
					       SMD_FLOAT32, SMD_SUM, &one->request)
				     : smd_reduce_start(one->comm, send, one->recv, count,
					       SMD_FLOAT32, SMD_SUM, root, &one->request);
}

static void check(const struct work *one, int nranks, int rank, int operation)
{
	size_t count = count_of(operation);
	int root = operation % nranks;

	if (operation % KINDS == KINDS - 1) {
		for (size_t i = 0; i < count; i++) {
			float must = pool_element(root, operation, i);

			CHECK(memcmp(&one->recv[i], &must, sizeof(must)) == 0);
		}
	} else if (operation % KINDS < 2 || rank == root) {
		pool_check_sum(one->recv, nranks, operation, count);
	}
}

static int run_both(struct work *both, int nranks, int rank, int operation)
{
	int ret = 0;

	for (int c = 0; ret == 0 && c < COMMS; c++) {
		both[c].request = NULL;
		ret = start(&both[c], nranks, rank, COMMS * operation + c);
	}
	for (int c = 0; c < COMMS && both[c].request; c++) {
		int err = smd_request_wait(both[c].request);

		both[c].request = NULL;
		if (err == 0) {
			check(&both[c], nranks, rank, COMMS * operation + c);
		}
		ret = ret ? ret : err;
	}
	return ret;
}

int main(int argc, char **argv)
{
	int nranks = argc > 2 ? (int)strtol(argv[1], NULL, 10) : 1;
	int rank = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
	struct work both[COMMS] = {{NULL}};
	smd_context *context;
	int operation = 0;

	CHECK(smd_context_create(NULL, &context) == 0);
	for (int c = 0; c < COMMS; c++) {
		both[c].send = malloc(LARGE * sizeof(float));
		both[c].recv = malloc(LARGE * sizeof(float));
		CHECK(smd_comm_create(
			      context, c ? "second" : "first", nranks, rank, &both[c].comm) == 0);
	}
	puts("joined");
	fflush(stdout);
	while (run_both(both, nranks, rank, operation) == 0) {
		operation++;
	}
	printf("%d were right, then: %s\n", operation, smd_error_message());
	for (int c = 0; c < COMMS; c++) {
		smd_comm_destroy(both[c].comm);
		free(both[c].send);
		free(both[c].recv);
	}
	smd_context_destroy(context);
	return EXIT_SUCCESS;
}
