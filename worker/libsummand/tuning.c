/* Feeds what rank 0 sees to the balance and the search, and lets one of them have its way. */
#include "worker/libsummand/tuning.h"

#include <errno.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"

#define SLICE_CHUNKS 8u        /* fewer say little of a shard, */
#define SLICE_NS     20000000u /* unless they took so long */
#define DELAY_MOST_S 60u

int smd_tuning_create(struct smd_tuning *tuning, const uint32_t *weights, unsigned nshards,
	int scale, uint64_t now_ns)
{
	*tuning = (struct smd_tuning){.weights = calloc(nshards, sizeof(*tuning->weights))};
	if (!tuning->weights || smd_balance_create(&tuning->balance, weights, nshards, now_ns)) {
		smd_tuning_destroy(tuning);
		return -ENOMEM;
	}
	smd_chunk_search_begin(&tuning->search, scale, now_ns);
	return 0;
}

void smd_tuning_destroy(struct smd_tuning *tuning)
{
	free(tuning->weights);
	smd_balance_destroy(&tuning->balance);
}

void smd_tuning_begin(struct smd_tuning *tuning, uint64_t bytes, uint64_t now_ns)
{
	if (tuning->in_flight++ == 0) {
		tuning->began_ns = now_ns;
		tuning->bytes = 0;
	}
	tuning->bytes += bytes;
}

void smd_tuning_end(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (--tuning->in_flight == 0) {
		tuning->fresh |= smd_chunk_search_took(
			&tuning->search, tuning->bytes, now_ns - tuning->began_ns);
	}
}

void smd_tuning_slice(
	struct smd_tuning *tuning, unsigned shard, unsigned chunks, uint64_t bytes, uint64_t ns)
{
	if (chunks >= SLICE_CHUNKS || ns >= SLICE_NS) {
		smd_balance_slice(&tuning->balance, shard, bytes, ns);
		tuning->fresh = true;
	}
}

static void take_weights(struct smd_tuning *tuning, bool wanted)
{
	for (unsigned s = 0; s < tuning->balance.nshards; s++) {
		const struct smd_balance_shard *shard = &tuning->balance.shards[s];

		tuning->weights[s] = wanted ? shard->wanted : shard->weight;
	}
}

bool smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (!tuning->fresh || now_ns < tuning->next_ns) {
		return false;
	}
	tuning->fresh = false;
	tuning->weighs = smd_balance_want(&tuning->balance, now_ns);
	if (!tuning->weighs && !smd_chunk_search_want(&tuning->search, now_ns)) {
		return false;
	}
	take_weights(tuning, tuning->weighs);
	tuning->scale = tuning->weighs ? tuning->search.scale : tuning->search.wanted;
	return true;
}

void smd_tuning_applied(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->delay_s = 0;
	if (tuning->weighs) {
		smd_balance_applied(&tuning->balance, now_ns);
		smd_chunk_search_forget(&tuning->search);
	} else {
		smd_chunk_search_applied(&tuning->search);
		smd_balance_forget(&tuning->balance);
	}
}

void smd_tuning_refused(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->delay_s = tuning->delay_s ? 2 * tuning->delay_s : 1;
	tuning->delay_s = tuning->delay_s < DELAY_MOST_S ? tuning->delay_s : DELAY_MOST_S;
	tuning->next_ns = now_ns + tuning->delay_s * SMD_SECOND_NS;
}
