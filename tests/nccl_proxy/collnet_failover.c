/*
 * Nodes for tools/bench-failover: all-reduces through the plugin, one after another, and the check
 * of every element of every result.
 *
 *   collnet_failover NODES SIZE ITERATIONS
 *
 * Each goes in PARTS at once, as NCCL cuts one for its buffer's slots, and lasts from the first
 * part's begin to the last one's end. Servers come by the environment. Node 0 prints the times of
 * the slowest node as summand-perf does, and on standard error what the plugin says, and "begins"
 * before the first one. Exit code: 0 when all results were right.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/parse.h"
#include "tests/nccl_proxy/library.h"
#include "tests/nccl_proxy/logbook.h"
#include "tests/nccl_proxy/proxy.h"
#include "tools/bench/failover_times.h"

enum { PARTS = 4, LIMIT_S = 100 };

struct work {
	uint64_t bytes; /* of an all-reduce */
	int iterations; /* after one more, which is not timed */
};

static double reduce_once(struct proxy *proxy, uint64_t seed)
{
	struct proxy_op ops[PARTS] = {{0}};
	size_t left = PARTS;
	double us;
	double begin;

	for (unsigned k = 0; k < PARTS; k++) {
		ops[k] = (struct proxy_op){.slot = k,
			.dtype = NCCL_FLOAT32,
			.op = NCCL_SUM,
			.count = proxy->shape.slot_bytes / 4,
			.seed = seed * PARTS + k};
		proxy_fill(proxy, &ops[k]);
	}
	begin = smd_clock_seconds();
	for (unsigned k = 0; k < PARTS; k++) {
		while (!ops[k].request) {
			CHECK_EQUAL(proxy_start(proxy, &ops[k]), NCCL_SUCCESS);
		}
	}
	while (left) {
		for (unsigned k = 0; k < PARTS; k++) {
			if (ops[k].request) {
				CHECK_EQUAL(proxy_test(proxy, &ops[k]), NCCL_SUCCESS);
				left -= !ops[k].request;
			}
		}
		usleep(20); /* NCCL spins; here processors are shared */
	}
	us = (smd_clock_seconds() - begin) * 1e6;
	for (unsigned k = 0; k < PARTS; k++) {
		proxy_verify(proxy, &ops[k]);
	}
	return us;
}

static void report(struct fleet_node *node, double *times, int n)
{
	struct failover_times mine = failover_times_of(times, (size_t)n);
	struct failover_times all[FLEET_NODES_MAX];

	fleet_gather(node, &mine, sizeof(mine), all);
	for (int r = 0; r < node->nnodes; r++) {
		mine.median_us = fmax(mine.median_us, all[r].median_us);
		mine.max_us = fmax(mine.max_us, all[r].max_us);
	}
	if (node->rank == 0) {
		failover_times_print(&mine);
	}
}

static void work(struct fleet_node *node)
{
	const struct work *work = node->argument;
	const struct proxy_shape shape = {
		.comm_id = 1, .slots = PARTS, .slot_bytes = work->bytes / PARTS};
	double *times = calloc((size_t)work->iterations, sizeof(*times));
	void *library = library_open();
	struct collnet collnet;
	struct proxy proxy;

	CHECK(times);
	if (node->rank == 0) {
		logbook_echo(NCCL_LOG_INFO);
	}
	collnet_find(&collnet, library, COLLNET_NEWEST);
	proxy_open(&proxy, &collnet, node, &shape);
	if (node->rank == 0) {
		fprintf(stderr, "begins\n");
	}
	for (int i = -1; i < work->iterations; i++) {
		double us = reduce_once(&proxy, (uint64_t)(i + 1));

		if (i >= 0) {
			times[i] = us;
		}
	}
	report(node, times, work->iterations);
	free(times);
	proxy_deregister(&proxy, PROXY_SEND);
	proxy_close(&proxy);
	library_close(library);
}

int main(int argc, char **argv)
{
	struct work works = {0};
	struct fleet fleet = {.seconds = LIMIT_S, .body = work, .argument = &works};

	fleet.nnodes = argc == 4 ? atoi(argv[1]) : 0;
	works.iterations = argc == 4 ? atoi(argv[3]) : 0;
	if (fleet.nnodes < 1 || fleet.nnodes > FLEET_NODES_MAX || works.iterations < 1 ||
		smd_parse_size(argv[2], &works.bytes) || works.bytes < PARTS * 4 ||
		works.bytes % (PARTS * 4)) {
		fprintf(stderr,
			"collnet_failover: must be called with NODES (1 to %d), SIZE and "
			"ITERATIONS\n",
			FLEET_NODES_MAX);
		return 2;
	}
	return fleet_run(&fleet) ? EXIT_SUCCESS : EXIT_FAILURE;
}
