/*
 * Which shard a chunk goes to.
 *
 * Chunks are dealt in a repeating pattern, in which a shard has places in proportion to its weight,
 * spread as evenly as can be: of the first so many chunks each shard has its share, but for less
 * than one. So a server with three times the bandwidth gets three times the chunks, and the place of
 * chunk g in the pattern, g mod L, gives shard and ordinal in closed form: no table grows with the
 * number of chunks. The pattern is the shortest one that has the weights' proportions, as far as
 * whole Mbit/s can say.
 *
 * Every rank makes the same deal from the same table; smd_deal_hash() is what they compare: its upper
 * half is of all that is dealt by, its lower one of the processes that the servers are, which may be
 * others at a rank that begins after one was started again (specs/design/epochs.md).
 */
#ifndef SMD_LIBSUMMAND_DEAL_H
#define SMD_LIBSUMMAND_DEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMD_DEAL_FINE_STEPS   240 /* places that the largest weight has at most, */
#define SMD_DEAL_WEIGHT_STEPS 60  /* and that it has where these are not enough: 1/60, rounded */

struct smd_deal_shard {
	uint64_t server_id;
	uint32_t shard;
	uint32_t weight; /* Mbit/s, at least 1 */
};

struct smd_deal {
	unsigned nshards;
	uint32_t chunk_bytes; /* largest chunk of all shards */
	uint32_t mean_mbps;   /* of a shard */
	uint32_t most_mbps;   /* of the shard with the most, */
	unsigned most;        /* and its places in the pattern */
	bool pipelined;       /* many operations are in flight at once */
	int scale;            /* chunks are 2^scale times as large as bandwidths suggest */
	unsigned length;      /* L, places in the pattern */
	uint16_t *shard_at;   /* [length] place -> shard */
	uint16_t *rank_at;    /* [length] place -> how many places of that shard come before */
	unsigned *share;      /* [nshards] places of each shard */
	unsigned *first;      /* [nshards] where its places begin in `places` */
	uint32_t *places;     /* [length] the places of shard 0, of shard 1, ... */
};

/* 0 or -ENOMEM. nshards is 1 to 4096. */
int smd_deal_create(struct smd_deal *deal, const struct smd_deal_shard *shards, unsigned nshards,
	uint32_t chunk_bytes);
void smd_deal_destroy(struct smd_deal *deal);
/* What it has allocated. */
size_t smd_deal_bytes(const struct smd_deal *deal);

uint64_t smd_deal_hash(const struct smd_deal_shard *shards, unsigned nshards, uint32_t chunk_bytes);

/* With something else that is dealt by. */
uint64_t smd_deal_hash_add(uint64_t hash, uint64_t number);

static inline unsigned smd_deal_shard_of(const struct smd_deal *deal, uint64_t chunk)
{
	return deal->shard_at[chunk % deal->length];
}

static inline uint64_t smd_deal_ordinal_of(const struct smd_deal *deal, uint64_t chunk)
{
	unsigned place = (unsigned)(chunk % deal->length);

	return chunk / deal->length * deal->share[deal->shard_at[place]] + deal->rank_at[place];
}

/* The inverse of the two above. */
static inline uint64_t smd_deal_chunk_of(
	const struct smd_deal *deal, unsigned shard, uint64_t ordinal)
{
	unsigned share = deal->share[shard];

	return ordinal / share * deal->length + deal->places[deal->first[shard] + ordinal % share];
}

/* How many chunks before that one are the shard's. */
uint64_t smd_deal_ordinals_before(const struct smd_deal *deal, unsigned shard, uint64_t chunk);

/*
 * Elements per chunk of an operation of `count` elements of `size` bytes: at least 1, whole rounds
 * of the pattern if there is more than one, and the smaller the faster a chunk is on the wire.
 */
size_t smd_deal_chunk_elements(const struct smd_deal *deal, size_t count, size_t size);

/* Of the scales from *least to *most leaves those beyond which the chunks of an operation of so
 * many bytes would be no smaller, and no larger; spread: nor fewer than shards, if that can be. */
void smd_deal_bound_scales(
	const struct smd_deal *deal, uint64_t bytes, bool spread, int *least, int *most);

/*
 * How many chunks of so many bytes a rank of `nranks` should have under way on a shard, of those it
 * is granted: as few as keep the wire busy, because more wait in queues and push each other out of
 * caches. At least 2.
 */
unsigned smd_deal_window(const struct smd_deal *deal, unsigned nranks, size_t chunk_bytes);

/*
 * How many chunks, in the order of the deal, may be between the oldest one that is under way on any
 * shard and the next one to go, where that is the window: as many as have one more than that of the
 * largest share. So shards with less have less under way, and all of them end together.
 */
unsigned smd_deal_lead(const struct smd_deal *deal, unsigned window);

#endif
