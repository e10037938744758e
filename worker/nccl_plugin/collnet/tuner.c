/* Chooses CollNet for large all-reduces, and keeps small ones from it. */
#include "worker/nccl_plugin/collnet/tuner.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/parse.h"
#include "worker/nccl_plugin/abi/log.h"

#define MIN_BYTES_DEFAULT (1ull << 20) /* specs/guide/nccl.md tells why */
#define LL_MAX_BYTES      65536        /* near where NCCL leaves LL in its model of a tree */

struct smd_tuner {
	uint64_t min_bytes;
	bool one_gpu_per_node;
};

/* What goes through CollNet when there are several nodes: NVLS does between them. */
static const enum nccl_algorithm through_collnet[] = {
	NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN, NCCL_ALGO_NVLS};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char told[128];

static bool is_news(const char *line)
{
	bool news;

	pthread_mutex_lock(&lock);
	news = strcmp(line, told) != 0;
	snprintf(told, sizeof(told), "%s", line);
	pthread_mutex_unlock(&lock);
	return news;
}

static void tell(bool on, uint64_t min_bytes, const char *refused)
{
	char line[sizeof(told)];

	if (on) {
		snprintf(line, sizeof(line),
			"tuner: CollNet for all-reduce from %llu bytes up, and not below; the rest "
			"is NCCL's",
			(unsigned long long)min_bytes);
	} else {
		snprintf(line, sizeof(line), "tuner: every choice is NCCL's");
	}
	if (!is_news(line)) {
		return;
	}
	if (refused) {
		smd_nccl_log_warn("SUMMAND_NCCL_MIN_BYTES: must be a size like 1M, got \"%s\"; it "
				  "is %llu",
			refused, (unsigned long long)min_bytes);
	}
	smd_nccl_log_info(NCCL_SUB_TUNING, "%s", line);
}

struct smd_tuner *smd_tuner_open(size_t nranks, size_t nnodes, bool on)
{
	const char *text = getenv("SUMMAND_NCCL_MIN_BYTES");
	uint64_t min_bytes = MIN_BYTES_DEFAULT;
	bool refused = text && *text && smd_parse_size(text, &min_bytes);
	struct smd_tuner *tuner = on && nnodes > 1 ? malloc(sizeof(*tuner)) : NULL;

	tell(on, min_bytes, refused ? text : NULL);
	if (tuner) {
		tuner->min_bytes = min_bytes;
		tuner->one_gpu_per_node = nranks == nnodes;
	}
	return tuner;
}

void smd_tuner_close(struct smd_tuner *tuner)
{
	free(tuner);
}

static bool is_through_collnet(int algorithm)
{
	for (size_t i = 0; i < sizeof(through_collnet) / sizeof(through_collnet[0]); i++) {
		if (algorithm == (int)through_collnet[i]) {
			return true;
		}
	}
	return false;
}

/* Which of the ways is decided inside of the nodes, by links and switches between GPUs. */
static void take_cheapest_way(float *costs, int nalgorithms, int nprotocols)
{
	float *least = NULL;

	for (int a = 0; a < nalgorithms; a++) {
		float *cost = costs + (size_t)a * (size_t)nprotocols + NCCL_PROTO_SIMPLE;

		if (is_through_collnet(a) && *cost >= 0 && (!least || *cost < *least)) {
			least = cost;
		}
	}
	if (least) {
		*least = 0;
	}
}

/* NCCL believes a chain through CollNet to have hardly more latency than one hop of a ring. */
static void take_no_way(float *costs, int nalgorithms, int nprotocols)
{
	bool others = false;

	for (int i = 0; i < nalgorithms * nprotocols; i++) {
		others |= !is_through_collnet(i / nprotocols) && costs[i] >= 0;
	}
	for (int i = 0; others && i < nalgorithms * nprotocols; i++) {
		if (is_through_collnet(i / nprotocols)) {
			costs[i] = NCCL_COST_IGNORE;
		}
	}
}

/* What NCCL cannot use or may not, by NCCL_ALGO for one, has no cost. */
void smd_tuner_weigh(const struct smd_tuner *tuner, int function, size_t bytes, float *costs,
	int nalgorithms, int nprotocols)
{
	if (!tuner || function != NCCL_FUNC_ALLREDUCE || nprotocols <= NCCL_PROTO_SIMPLE) {
		return;
	}
	if (bytes >= tuner->min_bytes) {
		take_cheapest_way(costs, nalgorithms, nprotocols);
	} else {
		take_no_way(costs, nalgorithms, nprotocols);
	}
}

/*
 * NCCL 2.21 takes an answer as it is, even against NCCL_ALGO and NCCL_PROTO; it does not say
 * whether there are the switches that CollNetDirect needs, nor what anything costs.
 */
void smd_tuner_name(
	const struct smd_tuner *tuner, int function, size_t bytes, int *algorithm, int *protocol)
{
	if (!tuner || function != NCCL_FUNC_ALLREDUCE || getenv("NCCL_ALGO") ||
		getenv("NCCL_PROTO")) {
		return;
	}
	if (bytes >= tuner->min_bytes) {
		*algorithm = NCCL_ALGO_COLLNET_CHAIN;
		*protocol = NCCL_PROTO_SIMPLE;
	} else if (tuner->one_gpu_per_node) { /* else there may be better ways inside of nodes */
		*algorithm = NCCL_ALGO_TREE;
		*protocol = bytes <= LL_MAX_BYTES ? NCCL_PROTO_LL : NCCL_PROTO_SIMPLE;
	}
}
