/*
 * How fast the shards of a table are, in Mbit/s, by what rank 0 has seen come of them: what was
 * declared may be wrong by any factor, and chunks are cut by it (specs/design/epochs.md, Rates).
 *
 * The fastest of what a shard always had to do with for some time counts: a link never carries more
 * than it can, but late ranks, and processors that others have, let it carry less. Latencies of
 * what is short, and bursts that a shaper lets pass, do not count, and nothing does while this
 * host's processors are what is waited for, unless slices show a link: steady, and far slower than
 * a busy processor. A shard carries as much for each rank. One with less than half of the mean
 * weight has little to do in an operation: it is neither waited for nor counted. Only a rate that
 * is several times off is said, and what was said wrongly is said anew.
 *
 * One thread uses it: the owner of the progress engine. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_MEASURED_RATE_H
#define SMD_LIBSUMMAND_MEASURED_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define SMD_MEASURED_RATE_SLICE_NS 5000000u /* shorter ones are mostly latency, or a burst */

struct smd_measured_rate_shard {
	double least;        /* ns that a byte took, */
	double second;       /* the next after that, */
	double most;         /* and the most, */
	uint64_t most_ns;    /* in a slice of so long, */
	uint64_t most_bytes; /* with so many bytes */
	uint64_t ns;         /* of all slices, with that one */
	uint64_t bytes;
	unsigned slices;
};

struct smd_measured_rate {
	unsigned nranks;
	unsigned nshards;
	struct smd_measured_rate_shard *shards;
	bool links_decide;  /* surely, however much the processors are waited for */
	uint64_t next_ns;   /* nothing is said before */
	uint64_t soon_ns;   /* until it is looked at again, where nothing could be said: */
	bool soon;          /* that is next_ns now */
	uint64_t since_ns;  /* of what was seen, */
	uint64_t waited_ns; /* with what the processors had been waited for (pressure.h) by then */
};

/* 0 or -ENOMEM. */
int smd_measured_rate_create(struct smd_measured_rate *rate, unsigned nranks, unsigned nshards,
	uint64_t now_ns, uint64_t waited_ns);
void smd_measured_rate_destroy(struct smd_measured_rate *rate);

/* So many bytes of the shard came in `ns`, in which it always had something to do. */
void smd_measured_rate_slice(
	struct smd_measured_rate *rate, unsigned shard, uint64_t bytes, uint64_t ns);

/* Whether there is enough for the next two. `weights` are those in use, of each shard, in Mbit/s.
 */
bool smd_measured_rate_is_due(
	const struct smd_measured_rate *rate, const uint32_t *weights, uint64_t now_ns);

/* Whether there will be soon: it takes some more slices of shards that have shown several. */
bool smd_measured_rate_is_near(
	const struct smd_measured_rate *rate, const uint32_t *weights, uint64_t now_ns);

/* What the shard carries at least, in Mbit/s; 0: it has had too little to do. */
double smd_measured_rate_of(const struct smd_measured_rate *rate, unsigned shard);

/* The factor that the weights are off by; 1: by less than is worth a change. */
double smd_measured_rate_factor(struct smd_measured_rate *rate, const uint32_t *weights,
	uint64_t now_ns, uint64_t waited_ns);

/* The factor has been taken. */
void smd_measured_rate_applied(struct smd_measured_rate *rate, uint64_t now_ns, uint64_t waited_ns);

/* So many shards are in use from now on, at most as many as it was made for. */
void smd_measured_rate_use(
	struct smd_measured_rate *rate, unsigned nshards, uint64_t now_ns, uint64_t waited_ns);

#endif
