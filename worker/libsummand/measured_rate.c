/* Keeps the best of what comes of shards, and compares it with what is believed of them. */
#include "worker/libsummand/measured_rate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/backoff.h"

#define SLICE_BYTES  16384u     /* of fewer, 5 ms are mostly a wait for a processor */
#define SLICES_LEAST 5u         /* of each shard that counts, */
#define SPENT_NS     100000000u /* and in so much time of the one that has most to do */
#define OFF          4.0        /* what is worth a change, */
#define FAR          8.0        /* and more than a host with much else to do takes away */
#define STEADY       0.5        /* of the fastest that slices have on average, where links decide */
#define AGAIN_NS     (10 * SMD_SECOND_NS)
#define SOON_NS      (SMD_SECOND_NS / 10) /* where processors decide: a program that begins is busy */
#define MBPS         8000.0 /* of bytes in ns */

/* Looks again at what comes from now on. */
static void begin_anew(struct smd_measured_rate *rate, uint64_t now_ns, uint64_t waited_ns)
{
	rate->since_ns = now_ns;
	rate->waited_ns = waited_ns;
	memset(rate->shards, 0, rate->nshards * sizeof(*rate->shards));
}

int smd_measured_rate_create(struct smd_measured_rate *rate, unsigned nranks, unsigned nshards,
	uint64_t now_ns, uint64_t waited_ns)
{
	*rate = (struct smd_measured_rate){
		.nranks = nranks,
		.nshards = nshards,
		.shards = calloc(nshards, sizeof(*rate->shards)),
		.next_ns = now_ns,
		.soon_ns = SOON_NS,
	};
	if (!rate->shards) {
		return -ENOMEM;
	}
	begin_anew(rate, now_ns, waited_ns);
	return 0;
}

void smd_measured_rate_destroy(struct smd_measured_rate *rate)
{
	free(rate->shards);
	rate->shards = NULL;
}

void smd_measured_rate_slice(
	struct smd_measured_rate *rate, unsigned shard, uint64_t bytes, uint64_t ns)
{
	struct smd_measured_rate_shard *one = &rate->shards[shard];
	double cost;

	if (bytes < SLICE_BYTES || ns < SMD_MEASURED_RATE_SLICE_NS) {
		return;
	}
	cost = (double)ns / (double)bytes;
	one->second = one->slices == 0 ? INFINITY : fmin(one->second, fmax(one->least, cost));
	one->least = one->slices == 0 ? cost : fmin(one->least, cost);
	if (cost > one->most) {
		one->most = cost;
		one->most_ns = ns;
		one->most_bytes = bytes;
	}
	one->ns += ns;
	one->bytes += bytes;
	one->slices++;
}

static uint64_t sum_up(const uint32_t *weights, unsigned nshards)
{
	uint64_t sum = 0;

	for (unsigned s = 0; s < nshards; s++) {
		sum += weights[s];
	}
	return sum;
}

/* The reducer on a worker's host may have a chunk in each operation where a server has fourteen: so
 * many operations would go by before it has shown what it carries. */
static bool counts(const struct smd_measured_rate *rate, uint32_t weight, uint64_t sum)
{
	return 2 * (uint64_t)weight * rate->nshards >= sum;
}

static bool is_known(const struct smd_measured_rate_shard *one)
{
	return one->slices >= SLICES_LEAST;
}

/* The time of slices of the shard that has most to do; 0: of some shard too few are known. */
static uint64_t find_spent(const struct smd_measured_rate *rate, const uint32_t *weights)
{
	uint64_t sum = sum_up(weights, rate->nshards);
	uint64_t spent = 0;

	for (unsigned s = 0; s < rate->nshards; s++) {
		if (!counts(rate, weights[s], sum)) {
			continue;
		}
		if (!is_known(&rate->shards[s])) {
			return 0;
		}
		spent = rate->shards[s].ns > spent ? rate->shards[s].ns : spent;
	}
	return spent;
}

bool smd_measured_rate_is_due(
	const struct smd_measured_rate *rate, const uint32_t *weights, uint64_t now_ns)
{
	return now_ns >= rate->next_ns && find_spent(rate, weights) >= SPENT_NS;
}

bool smd_measured_rate_is_near(
	const struct smd_measured_rate *rate, const uint32_t *weights, uint64_t now_ns)
{
	return now_ns >= rate->next_ns && find_spent(rate, weights) > 0;
}

/* Of all the time for which this was looked at. */
static bool processors_decide(
	const struct smd_measured_rate *rate, uint64_t now_ns, uint64_t waited_ns)
{
	return 2 * (waited_ns - rate->waited_ns) > now_ns - rate->since_ns;
}

/* What a link carries is steady, and what a processor does for one of many is not. The slowest
 * slice does not count: the first result waits for the rank that begins last. */
static bool is_steady(const struct smd_measured_rate *rate)
{
	double sum = 0;
	unsigned known = 0;

	for (unsigned s = 0; s < rate->nshards; s++) {
		const struct smd_measured_rate_shard *one = &rate->shards[s];

		if (is_known(one)) {
			sum += one->second * (double)(one->bytes - one->most_bytes) /
			       (double)(one->ns - one->most_ns);
			known++;
		}
	}
	return sum >= STEADY * known;
}

/* That links do stays so until they carry something else. */
static void say_who_decides(struct smd_measured_rate *rate, double factor)
{
	if (factor <= 1 / FAR && is_steady(rate)) {
		rate->links_decide = true;
	} else if (factor <= 1 / OFF || factor >= OFF) {
		rate->links_decide = false;
	}
}

double smd_measured_rate_of(const struct smd_measured_rate *rate, unsigned shard)
{
	const struct smd_measured_rate_shard *one = &rate->shards[shard];

	return is_known(one) ? MBPS * rate->nranks / one->second : 0;
}

double smd_measured_rate_factor(struct smd_measured_rate *rate, const uint32_t *weights,
	uint64_t now_ns, uint64_t waited_ns)
{
	uint64_t sum = sum_up(weights, rate->nshards);
	double believed = 0;
	double seen = 0;
	double factor;
	bool off;

	for (unsigned s = 0; s < rate->nshards; s++) {
		if (counts(rate, weights[s], sum)) {
			believed += weights[s];
			seen += smd_measured_rate_of(rate, s);
		}
	}
	factor = seen / believed;
	off = factor <= 1 / OFF || factor >= OFF;
	say_who_decides(rate, factor);
	if (off && (rate->links_decide || !processors_decide(rate, now_ns, waited_ns))) {
		return factor;
	}
	smd_measured_rate_applied(rate, now_ns, waited_ns);
	rate->soon = off;
	if (off) {
		rate->next_ns = now_ns + smd_backoff_next(&rate->soon_ns, AGAIN_NS);
	}
	return 1;
}

void smd_measured_rate_applied(struct smd_measured_rate *rate, uint64_t now_ns, uint64_t waited_ns)
{
	rate->next_ns = now_ns + AGAIN_NS;
	rate->soon = false;
	begin_anew(rate, now_ns, waited_ns);
}

void smd_measured_rate_use(
	struct smd_measured_rate *rate, unsigned nshards, uint64_t now_ns, uint64_t waited_ns)
{
	uint64_t next_ns = rate->next_ns;
	bool soon = rate->soon;

	rate->nshards = nshards;
	smd_measured_rate_applied(rate, now_ns, waited_ns);
	if (soon || next_ns > rate->next_ns) { /* a pause goes on */
		rate->next_ns = next_ns;
		rate->soon = soon;
	}
}
