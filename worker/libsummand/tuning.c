/* Feeds what rank 0 sees to rate, balance and search, and lets one of them have its way. */
#include "worker/libsummand/tuning.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/pressure.h"

#define SLICE_CHUNKS 8u        /* fewer at once say little of a shard, */
#define SLICE_NS     20000000u /* unless they took so long, together with those before */
#define LOOK_NS      100000000u
#define DELAY_MOST_S 60u

int smd_tuning_create(struct smd_tuning *tuning, unsigned nranks, const uint32_t *weights,
	unsigned nshards, int scale, uint64_t now_ns)
{
	*tuning = (struct smd_tuning){
		.weights = calloc(nshards, sizeof(*tuning->weights)),
		.rests = calloc(nshards, sizeof(*tuning->rests)),
	};
	if (!tuning->weights || !tuning->rests ||
		smd_measured_rate_create(
			&tuning->rate, nranks, nshards, now_ns, smd_pressure_waited_ns()) ||
		smd_balance_create(&tuning->balance, weights, nshards, now_ns)) {
		smd_tuning_destroy(tuning);
		return -ENOMEM;
	}
	smd_chunk_search_begin(&tuning->search, scale, now_ns);
	tuning->looked_ns = now_ns;
	tuning->waited_ns = smd_pressure_waited_ns();
	return 0;
}

void smd_tuning_destroy(struct smd_tuning *tuning)
{
	free(tuning->weights);
	free(tuning->rests);
	smd_measured_rate_destroy(&tuning->rate);
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

static void take_rest(struct smd_tuning *tuning, unsigned shard)
{
	struct smd_tuning_rest *rest = &tuning->rests[shard];

	smd_balance_slice(&tuning->balance, shard, rest->bytes, rest->ns);
	*rest = (struct smd_tuning_rest){0};
	tuning->fresh = true;
}

void smd_tuning_slice(
	struct smd_tuning *tuning, unsigned shard, unsigned chunks, uint64_t bytes, uint64_t ns)
{
	struct smd_tuning_rest *rest = &tuning->rests[shard];

	smd_measured_rate_slice(&tuning->rate, shard, bytes, ns);
	rest->chunks += chunks;
	rest->bytes += bytes;
	rest->ns += ns;
	if (rest->ns >= SLICE_NS) {
		for (unsigned s = 0; s < tuning->balance.nshards; s++) {
			if (tuning->rests[s].chunks >= SLICE_CHUNKS ||
				tuning->rests[s].ns >= SLICE_NS) {
				take_rest(tuning, s);
			}
		}
	} else if (chunks >= SLICE_CHUNKS) {
		take_rest(tuning, shard);
	}
}

static double mean_weight(const struct smd_balance *balance)
{
	double sum = 0;

	for (unsigned s = 0; s < balance->nshards; s++) {
		sum += balance->shards[s].weight;
	}
	return sum / balance->nshards;
}

/* Whether they do is known when enough time has gone; until then no search begins. */
static bool knows_who_decides(struct smd_tuning *tuning, uint64_t now_ns)
{
	uint64_t looked_ns = tuning->looked_ns;
	uint64_t waited_ns = tuning->waited_ns;

	if (now_ns - looked_ns < LOOK_NS) {
		return false;
	}
	tuning->looked_ns = now_ns;
	tuning->waited_ns = smd_pressure_waited_ns();
	tuning->search.processors_decide = 2 * (tuning->waited_ns - waited_ns) > now_ns - looked_ns;
	return true;
}

static bool search_wants(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (smd_chunk_search_is_due(&tuning->search, now_ns) &&
		!knows_who_decides(tuning, now_ns)) {
		return false;
	}
	return smd_chunk_search_want(&tuning->search, now_ns);
}

/* What is wanted first: chunks are cut by rates, so these come before all else. */
static bool find_cause(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->cause = SMD_TUNING_RATES;
	if (smd_measured_rate_is_due(&tuning->rate, now_ns)) {
		tuning->factor = smd_measured_rate_factor(&tuning->rate,
			mean_weight(&tuning->balance), now_ns, smd_pressure_waited_ns());
		if (tuning->factor != 1) {
			return true;
		}
	}
	tuning->cause = SMD_TUNING_WEIGHTS;
	if (smd_balance_want(&tuning->balance, now_ns)) {
		return true;
	}
	tuning->cause = SMD_TUNING_CHUNKS;
	return search_wants(tuning, now_ns);
}

static uint32_t weight_of(const struct smd_tuning *tuning, unsigned shard)
{
	const struct smd_balance_shard *one = &tuning->balance.shards[shard];

	switch (tuning->cause) {
	case SMD_TUNING_RATES:
		return smd_balance_scaled(one, tuning->factor);
	case SMD_TUNING_WEIGHTS:
		return one->wanted;
	default:
		return one->weight;
	}
}

static int scale_of(const struct smd_tuning *tuning)
{
	switch (tuning->cause) {
	case SMD_TUNING_RATES:
		return 0; /* what was found before was for other rates */
	case SMD_TUNING_WEIGHTS:
		return tuning->search.scale;
	default:
		return tuning->search.wanted;
	}
}

bool smd_tuning_want(struct smd_tuning *tuning, uint64_t now_ns)
{
	if (!tuning->fresh || now_ns < tuning->next_ns) {
		return false;
	}
	tuning->fresh = false;
	if (!find_cause(tuning, now_ns)) {
		return false;
	}
	for (unsigned s = 0; s < tuning->balance.nshards; s++) {
		tuning->weights[s] = weight_of(tuning, s);
	}
	tuning->scale = scale_of(tuning);
	return true;
}

void smd_tuning_applied(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->delay_s = 0;
	memset(tuning->rests, 0, tuning->balance.nshards * sizeof(*tuning->rests));
	switch (tuning->cause) {
	case SMD_TUNING_RATES:
		smd_balance_scale(&tuning->balance, tuning->factor);
		smd_chunk_search_begin(&tuning->search, 0, now_ns);
		smd_measured_rate_applied(&tuning->rate, now_ns, smd_pressure_waited_ns());
		break;
	case SMD_TUNING_WEIGHTS:
		smd_balance_applied(&tuning->balance, now_ns);
		smd_chunk_search_forget(&tuning->search);
		break;
	case SMD_TUNING_CHUNKS:
		smd_chunk_search_applied(&tuning->search);
		smd_balance_forget(&tuning->balance);
		break;
	}
}

void smd_tuning_refused(struct smd_tuning *tuning, uint64_t now_ns)
{
	tuning->delay_s = tuning->delay_s ? 2 * tuning->delay_s : 1;
	tuning->delay_s = tuning->delay_s < DELAY_MOST_S ? tuning->delay_s : DELAY_MOST_S;
	tuning->next_ns = now_ns + tuning->delay_s * SMD_SECOND_NS;
}
