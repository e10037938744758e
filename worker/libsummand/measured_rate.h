/*
 * How fast the shards of a table are, in Mbit/s, by what rank 0 has seen come of them: what was
 * declared may be wrong by any factor, and chunks are cut by it (specs/design/epochs.md, Rates).
 *
 * What a shard always had to do with for some time counts, in all; latencies of what is short do
 * not. A shard carries as much for each rank. Late ranks make shards look slower than they are, and
 * shapers let a burst pass; so only a rate that is several times off is said, and what was said
 * wrongly is said anew.
 *
 * One thread uses it: the owner of the progress engine. Times are smd_clock_ns().
 */
#ifndef SMD_LIBSUMMAND_MEASURED_RATE_H
#define SMD_LIBSUMMAND_MEASURED_RATE_H

#include <stdint.h>

struct smd_measured_rate_shard {
	uint64_t bytes;
	uint64_t ns;
	unsigned slices;
};

struct smd_measured_rate {
	unsigned nranks;
	unsigned nshards;
	struct smd_measured_rate_shard *shards;
	uint64_t next_ns; /* nothing is said before */
};

/* 0 or -ENOMEM. */
int smd_measured_rate_create(
	struct smd_measured_rate *rate, unsigned nranks, unsigned nshards, uint64_t now_ns);
void smd_measured_rate_destroy(struct smd_measured_rate *rate);

/* So many chunks of the shard came in `ns`, in which it always had something to do. */
void smd_measured_rate_slice(struct smd_measured_rate *rate, unsigned shard, unsigned chunks,
	uint64_t bytes, uint64_t ns);

/* The factor that a mean rate of so many Mbit/s is off by; 1: by less than is worth a change, or it
 * cannot be said yet. */
double smd_measured_rate_factor(struct smd_measured_rate *rate, double mean_mbps, uint64_t now_ns);

/* The factor has been taken. */
void smd_measured_rate_applied(struct smd_measured_rate *rate, uint64_t now_ns);

#endif
