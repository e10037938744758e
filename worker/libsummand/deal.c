/* Deals chunks to shards in proportion to their weights. */
#include "worker/libsummand/deal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/bytes.h"
#include "reduction_server/base/hash.h"
#include "reduction_server/wire/frame.h"

/* Measured, with specs/design/performance.md: */
#define CHUNK_LEAST_BYTES 16384u       /* below, a chunk costs more in calls than in bytes */
#define CHUNK_ALONE_BYTES 65536u       /* what is no more than that of a shard's is one */
#define CHUNK_LEAST_US    32u          /* the same, for what is that short on the wire */
#define CHUNK_MOST_US     512u         /* a longer one delays what comes after it */
#define CHUNK_COST_US     32u          /* what a chunk costs beyond its bytes, about */
#define PIPELINED_SCALE   2 /* a chunk is so much larger at most, in powers of 2, where others' hide its way */
#define WINDOW_US         500u         /* a round trip, and what threads take to wake up */
#define WINDOW_LEAST      2u
#define LEAD_ROUNDS       1u /* so much later than others may a shard be, and they do not wait */
#define FINE_SHARDS       256u         /* more have a pattern that is long enough */
#define SIZE_LIMIT        (1ull << 40) /* larger operations are cut as this one */

/* How best_chunk_bytes() does, and which operations ranks may exchange: ranks that do otherwise are
 * told by the hash. */
#define CUTS 4u

static uint64_t largest_weight(const struct smd_deal_shard *shards, unsigned nshards)
{
	uint64_t largest = 1;

	for (unsigned s = 0; s < nshards; s++) {
		largest = shards[s].weight > largest ? shards[s].weight : largest;
	}
	return largest;
}

/* In 1/steps of the largest, and never nothing. */
static unsigned share_of(uint64_t weight, uint64_t largest, unsigned steps)
{
	uint64_t scaled = (weight * steps + largest / 2) / largest;

	return scaled ? (unsigned)scaled : 1;
}

/* Whether shares in 1/steps of the largest are these weights, as far as whole Mbit/s can say: half of
 * one off at most, and 2 %. */
static bool are_weights(const struct smd_deal_shard *shards, unsigned nshards, uint64_t largest,
	unsigned steps)
{
	for (unsigned s = 0; s < nshards; s++) {
		uint64_t given = shards[s].weight * (uint64_t)steps;
		uint64_t dealt = share_of(shards[s].weight, largest, steps) * largest;
		uint64_t off = given > dealt ? given - dealt : dealt - given;

		if (2 * off > steps || 50 * off > given) {
			return false;
		}
	}
	return true;
}

/* The fewest steps that will do; SMD_DEAL_WEIGHT_STEPS where none of those do that a pattern has
 * room for. */
static unsigned choose_steps(
	const struct smd_deal_shard *shards, unsigned nshards, uint64_t largest)
{
	unsigned most = nshards <= FINE_SHARDS ? SMD_DEAL_FINE_STEPS : SMD_DEAL_WEIGHT_STEPS;

	for (unsigned steps = 1; steps <= most; steps++) {
		if (are_weights(shards, nshards, largest, steps)) {
			return steps;
		}
	}
	return SMD_DEAL_WEIGHT_STEPS;
}

/* The weights as small whole numbers in the same proportion. */
static unsigned scale_weights(
	const struct smd_deal_shard *shards, unsigned nshards, unsigned *share)
{
	uint64_t largest = largest_weight(shards, nshards);
	unsigned steps = choose_steps(shards, nshards, largest);
	unsigned divisor = 0;
	unsigned length = 0;

	for (unsigned s = 0; s < nshards; s++) {
		unsigned a = share_of(shards[s].weight, largest, steps);
		unsigned b = divisor;

		share[s] = a;
		while (b) { /* greatest common divisor */
			unsigned rest = a % b;

			a = b;
			b = rest;
		}
		divisor = a;
	}
	for (unsigned s = 0; s < nshards; s++) {
		share[s] /= divisor;
		length += share[s];
	}
	return length;
}

/*
 * From the last place to the first: a shard's number j, so counted, may come from j/share of the
 * pattern on, and must come before (j+1)/share of it. At each place, of the shards that may come the
 * one that must come first does, which meets all these bounds: no shard is ever a whole place off its
 * share. So of shards with little, which have much freedom, the pattern has no chunk at its end: an
 * operation ends with chunks of those that most lanes are busy for. Ties go up in number.
 */
static void choose_shards(struct smd_deal *deal, unsigned *laid)
{
	uint64_t length = deal->length;

	for (unsigned place = 0; place < deal->length; place++) {
		uint64_t first = UINT64_MAX;
		unsigned next = 0;

		for (unsigned s = 0; s < deal->nshards; s++) {
			uint64_t share = deal->share[s];
			uint64_t due = ((laid[s] + 1) * length + share - 1) / share;

			if (laid[s] * length < share * (place + 1) && due <= first) {
				first = due;
				next = s;
			}
		}
		deal->shard_at[deal->length - 1 - place] = (uint16_t)next;
		laid[next]++;
	}
}

static int lay_pattern(struct smd_deal *deal)
{
	unsigned *laid = calloc(deal->nshards, sizeof(*laid));

	if (!laid) {
		return -ENOMEM;
	}
	choose_shards(deal, laid);
	memset(laid, 0, deal->nshards * sizeof(*laid));
	for (unsigned place = 0; place < deal->length; place++) {
		unsigned s = deal->shard_at[place];

		deal->rank_at[place] = (uint16_t)laid[s];
		deal->places[deal->first[s] + laid[s]++] = place;
	}
	free(laid);
	return 0;
}

static uint32_t mean_weight(const struct smd_deal_shard *shards, unsigned nshards)
{
	uint64_t sum = 0;

	for (unsigned s = 0; s < nshards; s++) {
		sum += shards[s].weight;
	}
	return (uint32_t)(sum / nshards);
}

int smd_deal_create(struct smd_deal *deal, const struct smd_deal_shard *shards, unsigned nshards,
	uint32_t chunk_bytes)
{
	unsigned first = 0;

	*deal = (struct smd_deal){.nshards = nshards, .chunk_bytes = chunk_bytes};
	deal->mean_mbps = mean_weight(shards, nshards);
	deal->most_mbps = (uint32_t)largest_weight(shards, nshards);
	deal->share = calloc(nshards, sizeof(*deal->share));
	deal->first = calloc(nshards, sizeof(*deal->first));
	if (!deal->share || !deal->first) {
		goto destroy;
	}
	deal->length = scale_weights(shards, nshards, deal->share);
	for (unsigned s = 0; s < nshards; s++) {
		deal->first[s] = first;
		first += deal->share[s];
		deal->most = deal->share[s] > deal->most ? deal->share[s] : deal->most;
	}
	deal->shard_at = calloc(deal->length, sizeof(*deal->shard_at));
	deal->rank_at = calloc(deal->length, sizeof(*deal->rank_at));
	deal->places = calloc(deal->length, sizeof(*deal->places));
	if (!deal->shard_at || !deal->rank_at || !deal->places || lay_pattern(deal)) {
		goto destroy;
	}
	return 0;

destroy:
	smd_deal_destroy(deal);
	return -ENOMEM;
}

size_t smd_deal_bytes(const struct smd_deal *deal)
{
	size_t place = sizeof(*deal->shard_at) + sizeof(*deal->rank_at) + sizeof(*deal->places);

	return deal->length * place +
	       deal->nshards * (sizeof(*deal->share) + sizeof(*deal->first));
}

void smd_deal_destroy(struct smd_deal *deal)
{
	free(deal->shard_at);
	free(deal->rank_at);
	free(deal->share);
	free(deal->first);
	free(deal->places);
	*deal = (struct smd_deal){0};
}

uint64_t smd_deal_ordinals_before(const struct smd_deal *deal, unsigned shard, uint64_t chunk)
{
	const uint32_t *places = deal->places + deal->first[shard];
	uint32_t rest = (uint32_t)(chunk % deal->length);
	unsigned before = 0;

	while (before < deal->share[shard] && places[before] < rest) {
		before++;
	}
	return chunk / deal->length * deal->share[shard] + before;
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
	uint8_t bytes[sizeof(number)];

	smd_put64(bytes, number);
	return smd_hash(hash, bytes, sizeof(bytes));
}

/* Of what is dealt by, which is never 0, and of the servers. */
static uint64_t join_halves(uint64_t dealt, uint64_t servers)
{
	return (uint64_t)((uint32_t)(dealt ^ dealt >> 32) | 1) << 32 |
	       (uint32_t)(servers ^ servers >> 32);
}

uint64_t smd_deal_hash(const struct smd_deal_shard *shards, unsigned nshards, uint32_t chunk_bytes)
{
	uint64_t dealt = hash_number(hash_number(SMD_HASH_SEED, CUTS), chunk_bytes);
	uint64_t servers = SMD_HASH_SEED;

	for (unsigned s = 0; s < nshards; s++) {
		dealt = hash_number(dealt, shards[s].shard);
		dealt = hash_number(dealt, shards[s].weight);
		servers = hash_number(servers, shards[s].server_id);
	}
	return join_halves(dealt, servers);
}

uint64_t smd_deal_hash_add(uint64_t hash, uint64_t number)
{
	return join_halves(hash_number(hash >> 32, number), (uint32_t)hash);
}

/* The largest whole number whose square is at most n. */
static uint64_t square_root(uint64_t n)
{
	uint64_t root = 0;

	for (uint64_t bit = 1ull << 31; bit; bit >>= 1) {
		if ((root + bit) * (root + bit) <= n) {
			root += bit;
		}
	}
	return root;
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
	value = value < least ? least : value;
	return value > most ? most : value;
}

/*
 * The first chunk's way in and the last one's way out are not hidden behind others: small chunks
 * make them short. But each chunk has a cost of its own. For M bytes over s shards of B bytes/us
 * each, time beyond the wire's is about c / B for the last chunk and M / (s c) * cost for all; the
 * least is at c = sqrt(M / s * B * cost). B in Mbit/s is bytes in 8 us.
 *
 * Where many operations are in flight, those after it hide the way of an operation's last chunk: it is cut into one
 * chunk for each shard then, if these are not too large.
 */
static uint64_t best_chunk_bytes(const struct smd_deal *deal, uint64_t bytes, int scale)
{
	uint64_t most = deal->chunk_bytes;
	uint64_t per_shard = (bytes < SIZE_LIMIT ? bytes : SIZE_LIMIT) / deal->nshards;
	uint64_t alone = per_shard + (bytes % deal->nshards != 0); /* of equal shards, at most */
	uint64_t cost = deal->mean_mbps * CHUNK_COST_US / 8;
	uint64_t least = deal->mean_mbps * CHUNK_LEAST_US / 8;
	uint64_t longest = deal->mean_mbps * CHUNK_MOST_US / 8;
	uint64_t best;

	least = clamp(least, CHUNK_LEAST_BYTES, most);
	longest = clamp(longest, least, most);
	if (deal->length == deal->nshards && alone <= CHUNK_ALONE_BYTES) {
		least = clamp(alone, least, longest);
	}
	best = clamp(square_root(per_shard * clamp(cost, 1, most)), least, longest);
	best = deal->pipelined ? clamp(per_shard, best, best << PIPELINED_SCALE) : best;
	return clamp(scale < 0 ? best >> -scale : best << scale,
		CHUNK_LEAST_BYTES < most ? CHUNK_LEAST_BYTES : most, most);
}

void smd_deal_bound_scales(
	const struct smd_deal *deal, uint64_t bytes, bool spread, int *least, int *most)
{
	uint64_t smallest = best_chunk_bytes(deal, bytes, *least);
	uint64_t of_each = (bytes + deal->nshards - 1) / deal->nshards;

	while (*least < *most && best_chunk_bytes(deal, bytes, *least + 1) == smallest) {
		++*least;
	}
	while (*least < *most && best_chunk_bytes(deal, bytes, *most - 1) >=
					 clamp(bytes, 1, best_chunk_bytes(deal, bytes, *most))) {
		--*most;
	}
	while (spread && *least < *most && best_chunk_bytes(deal, bytes, *most) > of_each) {
		--*most;
	}
}

size_t smd_deal_chunk_elements(const struct smd_deal *deal, size_t count, size_t size)
{
	uint64_t bytes = (uint64_t)count * size;
	uint64_t chunk = best_chunk_bytes(deal, bytes, deal->scale);
	uint64_t nchunks = bytes / chunk + (bytes % chunk != 0);

	if (nchunks > deal->length) { /* whole rounds, so that every shard gets its share */
		uint64_t rounds = (nchunks + deal->length / 2) / deal->length;

		if (bytes / (rounds * deal->length) >= deal->chunk_bytes) {
			rounds++;
		}
		chunk = (bytes + rounds * deal->length - 1) / (rounds * deal->length);
	} else if (nchunks > 1) { /* the longest decides */
		chunk = (bytes + nchunks - 1) / nchunks;
	}
	chunk = (chunk + 63) / 64 * 64; /* chunks begin on cache lines of an aligned buffer */
	return clamp(chunk, size, deal->chunk_bytes) / size;
}

unsigned smd_deal_window(const struct smd_deal *deal, unsigned nranks, size_t chunk_bytes)
{
	uint64_t bits = 8 * (uint64_t)nranks * chunk_bytes;
	uint64_t window = ((uint64_t)WINDOW_US * deal->most_mbps + bits) / (bits + 1);

	return (unsigned)clamp(window, WINDOW_LEAST, SMD_WINDOW_MAX);
}

unsigned smd_deal_lead(const struct smd_deal *deal, unsigned window)
{
	unsigned rounds = window + LEAD_ROUNDS; /* of places, each with one of the largest share's */

	return (rounds * deal->length + deal->most - 1) / deal->most;
}
