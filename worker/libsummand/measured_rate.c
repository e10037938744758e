/* Sums up what comes of shards, and compares it with what is believed of them. */
#include "worker/libsummand/measured_rate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"

#define SLICE_CHUNKS 4u         /* fewer are mostly latency, */
#define SLICE_NS     5000000u   /* unless they take so long */
#define SLICES_LEAST 5u         /* of each shard, */
#define SPENT_NS     100000000u /* and in so much time of the one that has most to do */
#define OFF          4.0        /* what is worth a change */
#define AGAIN_NS     (10 * SMD_SECOND_NS)
#define MBPS         8000.0 /* of bytes in ns */

int smd_measured_rate_create(
	struct smd_measured_rate *rate, unsigned nranks, unsigned nshards, uint64_t now_ns)
{
	*rate = (struct smd_measured_rate){
		.nranks = nranks,
		.nshards = nshards,
		.shards = calloc(nshards, sizeof(*rate->shards)),
		.next_ns = now_ns,
	};
	return rate->shards ? 0 : -ENOMEM;
}

void smd_measured_rate_destroy(struct smd_measured_rate *rate)
{
	free(rate->shards);
	rate->shards = NULL;
}

void smd_measured_rate_slice(struct smd_measured_rate *rate, unsigned shard, unsigned chunks,
	uint64_t bytes, uint64_t ns)
{
	struct smd_measured_rate_shard *one = &rate->shards[shard];

	if (bytes && ns && (chunks >= SLICE_CHUNKS || ns >= SLICE_NS)) {
		one->bytes += bytes;
		one->ns += ns;
		one->slices++;
	}
}

/* Looks again at what comes from now on. */
static void begin_anew(struct smd_measured_rate *rate, uint64_t now_ns)
{
	rate->next_ns = now_ns + AGAIN_NS;
	memset(rate->shards, 0, rate->nshards * sizeof(*rate->shards));
}

double smd_measured_rate_factor(struct smd_measured_rate *rate, double mean_mbps, uint64_t now_ns)
{
	double sum = 0;
	uint64_t spent = 0;
	double factor;

	if (now_ns < rate->next_ns) {
		return 1;
	}
	for (unsigned s = 0; s < rate->nshards; s++) {
		const struct smd_measured_rate_shard *one = &rate->shards[s];

		if (one->slices < SLICES_LEAST) {
			return 1;
		}
		spent = one->ns > spent ? one->ns : spent;
		sum += MBPS * rate->nranks * (double)one->bytes / (double)one->ns;
	}
	if (spent < SPENT_NS) {
		return 1;
	}
	factor = sum / rate->nshards / mean_mbps;
	if (factor > 1 / OFF && factor < OFF) {
		begin_anew(rate, now_ns);
		return 1;
	}
	return factor;
}

void smd_measured_rate_applied(struct smd_measured_rate *rate, uint64_t now_ns)
{
	begin_anew(rate, now_ns);
}
