/*
 * A rank for tools/bench-failover: all-reduces of memory of the fake device, one after another, and
 * the check of every element of every result. The lanes go over TCP or shared memory, so all goes
 * through stages.
 *
 *   staged_failover NRANKS RANK SIZE ITERATIONS
 *
 * Servers come by the environment. Rank 0 prints the times of the slowest rank as summand-perf
 * does; "begins" on standard error before the first operation. Exit code: 0 when all results were
 * right, 1 when one was wrong or a call failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "tests/unit/cuda/gpu.h"
#include "tools/bench/failover_times.h"
#include "worker/perf/perf.h"
#include "worker/summand.h"

struct staged {
	int nranks;
	int rank;
	uint64_t bytes;
	int iterations; /* after one more, which is not timed */
	smd_context *context;
	smd_comm *comm;
	void *input; /* of the device, as the next */
	void *output;
	void *stale; /* of the host, as the next; what was right before must not pass for right */
	void *fetched;
	double *times;
	uint64_t wrong;
};

static void must(int ret, const char *what)
{
	if (ret) {
		fprintf(stderr, "staged_failover: %s: %s\n", what, smd_error_message());
		exit(EXIT_FAILURE);
	}
}

static double reduce_once(struct staged *rank)
{
	size_t count = rank->bytes / sizeof(float);
	double begin;
	double us;

	gpu_upload(rank->output, rank->stale, rank->bytes);
	begin = smd_clock_seconds();
	must(smd_allreduce(rank->comm, rank->input, rank->output, count, SMD_FLOAT32, SMD_SUM),
		"all-reduce");
	us = (smd_clock_seconds() - begin) * 1e6;
	gpu_download(rank->fetched, rank->output, rank->bytes);
	rank->wrong += perf_input_check(
		rank->fetched, count, SMD_FLOAT32, SMD_FLOAT32, SMD_SUM, rank->nranks, 0);
	return us;
}

static void report(struct staged *rank)
{
	struct failover_times slowest = failover_times_of(rank->times, (size_t)rank->iterations);

	must(smd_allreduce(rank->comm, &slowest, &slowest, sizeof(slowest) / sizeof(double),
		     SMD_FLOAT64, SMD_MAX),
		"all-reduce of times");
	if (rank->rank == 0) {
		failover_times_print(&slowest);
	}
	if (rank->wrong) {
		fprintf(stderr, "staged_failover: rank %d: %" PRIu64 " wrong elements\n",
			rank->rank, rank->wrong);
	}
}

static void work(struct staged *rank)
{
	const struct smd_context_options options = {0};

	gpu_open(FAKE_DRIVER);
	must(smd_context_create(&options, &rank->context), "context");
	must(smd_comm_create(rank->context, "failover", rank->nranks, rank->rank, &rank->comm),
		"communicator");
	rank->input = gpu_alloc(rank->bytes);
	rank->output = gpu_alloc(rank->bytes);
	perf_input_fill(rank->fetched, rank->bytes / sizeof(float), SMD_FLOAT32, SMD_FLOAT32,
		SMD_SUM, rank->rank);
	gpu_upload(rank->input, rank->fetched, rank->bytes);
	memset(rank->stale, 0xa5, rank->bytes);
	if (rank->rank == 0) {
		fprintf(stderr, "begins\n");
	}
	for (int i = -1; i < rank->iterations; i++) {
		double us = reduce_once(rank);

		if (i >= 0) {
			rank->times[i] = us;
		}
	}
	report(rank);
	smd_comm_destroy(rank->comm);
	smd_context_destroy(rank->context);
	gpu_free(rank->input);
	gpu_free(rank->output);
}

int main(int argc, char **argv)
{
	struct staged rank = {0};

	if (argc == 5) {
		rank.nranks = atoi(argv[1]);
		rank.rank = atoi(argv[2]);
		rank.iterations = atoi(argv[4]);
	}
	if (rank.nranks < 1 || rank.rank < 0 || rank.rank >= rank.nranks || rank.iterations < 1 ||
		smd_parse_size(argv[3], &rank.bytes) || rank.bytes < sizeof(float) ||
		rank.bytes % sizeof(float)) {
		fprintf(stderr,
			"staged_failover: must be called with NRANKS, RANK, SIZE and ITERATIONS\n");
		return 2;
	}
	rank.stale = malloc(rank.bytes);
	rank.fetched = malloc(rank.bytes);
	rank.times = calloc((size_t)rank.iterations, sizeof(*rank.times));
	if (!rank.stale || !rank.fetched || !rank.times) {
		fprintf(stderr, "staged_failover: out of memory\n");
		return EXIT_FAILURE;
	}
	work(&rank);
	free(rank.stale);
	free(rank.fetched);
	free(rank.times);
	return rank.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
