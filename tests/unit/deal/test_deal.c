/* The deal: chunk and (shard, ordinal) are each other's inverse, and shares follow the weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/wire/frame.h"
#include "worker/libsummand/deal.h"

#define SHARDS_MANY 1200
#define CHUNK_BYTES (256u << 10)

struct weights {
	unsigned nshards;
	const uint32_t *of;
};

static struct smd_deal_shard *table_of(const uint32_t *weights, unsigned nshards)
{
	struct smd_deal_shard *shards = calloc(nshards, sizeof(*shards));

	for (unsigned s = 0; s < nshards; s++) {
		shards[s] = (struct smd_deal_shard){1000 + s / 4, s % 4, weights[s]};
	}
	return shards;
}

static void deal_of(struct smd_deal *deal, const uint32_t *weights, unsigned nshards)
{
	struct smd_deal_shard *shards = table_of(weights, nshards);

	assert_int_equal(smd_deal_create(deal, shards, nshards, CHUNK_BYTES), 0);
	free(shards);
}

/* Three repetitions of the pattern from `first` on: every chunk comes back, and each shard's
 * ordinals go up one by one. */
static void assert_inverse(const struct smd_deal *deal, uint64_t first)
{
	uint64_t *next = calloc(deal->nshards, sizeof(*next));

	for (uint64_t chunk = first; chunk < first + 3ull * deal->length; chunk++) {
		unsigned shard = smd_deal_shard_of(deal, chunk);
		uint64_t ordinal = smd_deal_ordinal_of(deal, chunk);

		assert_in_range(shard, 0, deal->nshards - 1);
		assert_int_equal(smd_deal_chunk_of(deal, shard, ordinal), chunk);
		if (chunk >= first + deal->length) {
			assert_int_equal(ordinal, next[shard]);
		}
		next[shard] = ordinal + 1;
	}
	free(next);
}

static const struct weights vectors[] = {
	{1, (const uint32_t[]){1}},
	{1, (const uint32_t[]){UINT32_MAX}},
	{2, (const uint32_t[]){1, 1}},
	{2, (const uint32_t[]){750, 250}},
	{2, (const uint32_t[]){1, UINT32_MAX}},
	{3, (const uint32_t[]){25000, 10000, 10000}},
	{3, (const uint32_t[]){7, 11, 13}},
	{5, (const uint32_t[]){1, 2, 3, 4, 5}},
	{8, (const uint32_t[]){6250, 6250, 6250, 6250, 2500, 2500, 2500, 2500}},
};

static void chunk_and_ordinal_are_inverse(void **state)
{
	(void)state;
	for (size_t v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
		struct smd_deal deal;

		deal_of(&deal, vectors[v].of, vectors[v].nshards);
		assert_inverse(&deal, 0);
		assert_inverse(&deal, 1ull << 40); /* no table grows with the number of chunks */
		smd_deal_destroy(&deal);
	}
}

static void chunk_and_ordinal_are_inverse_for_any_weights(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint32_t weights[40];
		struct smd_deal deal;

		for (unsigned s = 0; s < 40; s++) {
			seed = seed * 1664525u + 1013904223u;
			weights[s] = 1 + (seed >> 8) % 100000;
		}
		deal_of(&deal, weights, 1 + (unsigned)round % 40);
		assert_inverse(&deal, 0);
		smd_deal_destroy(&deal);
	}
}

/* 1200 shards, of which one is a little slower, have a pattern of 69599 places: 590 is 57/58 of 600. */
static void large_pools_are_dealt_too(void **state)
{
	uint32_t *weights = calloc(SHARDS_MANY, sizeof(*weights));
	struct smd_deal deal;

	(void)state;
	for (unsigned s = 0; s < SHARDS_MANY; s++) {
		weights[s] = s == 617 ? 590 : 600;
	}
	deal_of(&deal, weights, SHARDS_MANY);
	assert_int_equal(deal.length, SHARDS_MANY * 58 - 1);
	assert_inverse(&deal, 0);
	smd_deal_destroy(&deal);
	free(weights);
}

static void assert_shares(const uint32_t *weights, const unsigned *shares, unsigned nshards)
{
	struct smd_deal deal;
	unsigned length = 0;

	deal_of(&deal, weights, nshards);
	for (unsigned s = 0; s < nshards; s++) {
		assert_int_equal(deal.share[s], shares[s]);
		length += shares[s];
	}
	assert_int_equal(deal.length, length);
	smd_deal_destroy(&deal);
}

static void shares_are_in_proportion_to_weights(void **state)
{
	(void)state;
	assert_shares((const uint32_t[]){750, 250}, (const unsigned[]){3, 1}, 2);
	assert_shares((const uint32_t[]){25000, 10000, 10000}, (const unsigned[]){5, 2, 2}, 3);
	assert_shares((const uint32_t[]){9, 9, 9, 9}, (const unsigned[]){1, 1, 1, 1}, 4);
	assert_shares((const uint32_t[]){7, 11, 13}, (const unsigned[]){7, 11, 13}, 3);
	assert_shares((const uint32_t[]){101, 100}, (const unsigned[]){68, 67}, 2);
	/* 1/14 of 400 Mbit/s, and 5/14, in whole ones. */
	assert_shares((const uint32_t[]){400, 29}, (const unsigned[]){14, 1}, 2);
	assert_shares((const uint32_t[]){400, 143}, (const unsigned[]){14, 5}, 2);
	assert_shares((const uint32_t[]){10000, 81}, (const unsigned[]){123, 1}, 2);
	/* Rounded to 1/60 of the largest, and never to nothing. */
	assert_shares((const uint32_t[]){60000, 1}, (const unsigned[]){60, 1}, 2);
}

/* Of any first chunks, each shard has its share but for less than one. */
static void assert_exact(const struct smd_deal *deal)
{
	unsigned *laid = calloc(deal->nshards, sizeof(*laid));

	for (unsigned place = 0; place < deal->length; place++) {
		laid[smd_deal_shard_of(deal, place)]++;
		for (unsigned s = 0; s < deal->nshards; s++) {
			int64_t off = (int64_t)laid[s] * deal->length -
				      (int64_t)deal->share[s] * (place + 1);

			assert_true(llabs(off) < deal->length);
		}
	}
	free(laid);
}

static void shares_are_exact_to_the_chunk(void **state)
{
	uint32_t seed = 2;

	(void)state;
	for (size_t v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
		struct smd_deal deal;

		deal_of(&deal, vectors[v].of, vectors[v].nshards);
		assert_exact(&deal);
		smd_deal_destroy(&deal);
	}
	for (int round = 0; round < 100; round++) {
		uint32_t weights[40];
		struct smd_deal deal;

		for (unsigned s = 0; s < 40; s++) {
			seed = seed * 1664525u + 1013904223u;
			weights[s] = 1 + (seed >> 8) % 10000;
		}
		deal_of(&deal, weights, 1 + (unsigned)round % 40);
		assert_exact(&deal);
		smd_deal_destroy(&deal);
	}
}

/* k servers, and reducers on the hosts of n workers, which are to a server as n-k to 2(n-1): what
 * they declare, in whole Mbit/s, is dealt as that. */
static void assert_hybrid(unsigned n, unsigned k, uint32_t mbps)
{
	uint32_t weights[64];
	struct smd_deal deal;

	for (unsigned s = 0; s < k + n; s++) {
		weights[s] = s < k ? mbps : (mbps * (n - k) + n - 1) / (2 * (n - 1));
	}
	deal_of(&deal, weights, k + n);
	for (unsigned s = 0; s < n; s++) {
		assert_int_equal(deal.share[k + s] * 2 * (n - 1), deal.share[0] * (n - k));
	}
	assert_exact(&deal);
	smd_deal_destroy(&deal);
}

static void reducers_on_workers_hosts_get_their_shares(void **state)
{
	static const uint32_t rates[] = {400, 1000, 2500, 10000, 25000, 100000};

	(void)state;
	for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		for (unsigned n = 2; n <= (rates[r] < 2500 ? 8 : 20); n++) {
			for (unsigned k = 1; k < n; k++) {
				assert_hybrid(n, k, rates[r]);
			}
		}
	}
}

/* A shard that has share/length of the places waits at most twice the even distance for its next
 * one, whoever the others are. */
static void turns_are_spread_evenly(void **state)
{
	(void)state;
	for (size_t v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
		struct smd_deal deal;

		deal_of(&deal, vectors[v].of, vectors[v].nshards);
		for (unsigned s = 0; s < deal.nshards; s++) {
			unsigned even = (deal.length + deal.share[s] - 1) / deal.share[s];

			for (uint64_t o = 0; o < deal.share[s]; o++) {
				uint64_t gap = smd_deal_chunk_of(&deal, s, o + 1) -
					       smd_deal_chunk_of(&deal, s, o);

				assert_in_range(gap, 1, 2 * even);
			}
		}
		smd_deal_destroy(&deal);
	}
}

static void equal_weights_take_turns(void **state)
{
	struct smd_deal deal;

	(void)state;
	deal_of(&deal, (const uint32_t[]){4, 4, 4, 4, 4}, 5);
	for (uint64_t chunk = 0; chunk < 50; chunk++) {
		assert_int_equal(smd_deal_shard_of(&deal, chunk), chunk % 5);
		assert_int_equal(smd_deal_ordinal_of(&deal, chunk), chunk / 5);
	}
	smd_deal_destroy(&deal);
}

static uint64_t hash_of(const uint32_t *weights, unsigned nshards, uint32_t chunk_bytes)
{
	struct smd_deal_shard *shards = table_of(weights, nshards);
	uint64_t hash = smd_deal_hash(shards, nshards, chunk_bytes);

	free(shards);
	return hash;
}

/* Ranks that would deal differently must notice before they wait for each other for ever. */
static void the_hash_tells_tables_apart(void **state)
{
	const uint32_t weights[] = {1, 2, 3, 4};
	uint64_t hash = hash_of(weights, 4, CHUNK_BYTES);
	struct smd_deal_shard *shards = table_of(weights, 4);
	struct smd_deal_shard keep;

	(void)state;
	assert_true(hash == smd_deal_hash(shards, 4, CHUNK_BYTES));
	assert_true(hash != hash_of((const uint32_t[]){1, 2, 3, 5}, 4, CHUNK_BYTES));
	assert_true(hash != hash_of(weights, 3, CHUNK_BYTES));
	assert_true(hash != hash_of(weights, 4, CHUNK_BYTES / 2));
	keep = shards[0];
	shards[0] = shards[1];
	shards[1] = keep;
	assert_true(hash >> 32 != smd_deal_hash(shards, 4, CHUNK_BYTES) >> 32);
	shards[1] = shards[0];
	shards[0] = keep;
	shards[2].server_id++;
	assert_true(hash != smd_deal_hash(shards, 4, CHUNK_BYTES));
	/* Ranks with other processes at the same places deal alike. */
	assert_true(hash >> 32 == smd_deal_hash(shards, 4, CHUNK_BYTES) >> 32);
	assert_true(hash >> 32 != smd_deal_hash_add(hash, 1) >> 32);
	assert_true(smd_deal_hash_add(hash, 2) >> 32 != smd_deal_hash_add(hash, 1) >> 32);
	assert_true((uint32_t)hash == (uint32_t)smd_deal_hash_add(hash, 1));
	free(shards);
}

static size_t chunk_bytes_of(uint32_t mbps, unsigned nshards, size_t bytes)
{
	uint32_t weights[16];
	struct smd_deal deal;
	size_t chunk;

	for (unsigned s = 0; s < nshards; s++) {
		weights[s] = mbps;
	}
	deal_of(&deal, weights, nshards);
	chunk = smd_deal_chunk_elements(&deal, bytes, 1);
	smd_deal_destroy(&deal);
	return chunk;
}

static void chunks_have_bounds(void **state)
{
	static const size_t counts[] = {0, 1, 3, 4096, 100003, 1 << 20, (size_t)1 << 34};
	static const size_t sizes[] = {1, 2, 4, 8};
	struct smd_deal deal;

	(void)state;
	deal_of(&deal, (const uint32_t[]){10000, 10000, 10000}, 3);
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (size_t s = 0; s < 4; s++) {
			size_t chunk = smd_deal_chunk_elements(&deal, counts[c], sizes[s]);
			size_t nchunks = (counts[c] + chunk - 1) / chunk;

			assert_in_range(chunk * sizes[s], 1, CHUNK_BYTES);
			assert_int_equal(chunk * sizes[s] % 64, 0);
			assert_true(nchunks <= 1 || chunk * sizes[s] >= 8192);
		}
	}
	smd_deal_destroy(&deal);
}

/* A chunk is small enough that the first and the last do not leave links idle for long, and large
 * enough that it takes longer on the wire than in the processors. */
static void faster_servers_get_larger_chunks(void **state)
{
	(void)state;
	assert_in_range(chunk_bytes_of(1000, 4, 1 << 20), 16 << 10, 48 << 10);
	assert_in_range(chunk_bytes_of(10000, 4, 1 << 20), 32 << 10, 128 << 10);
	assert_in_range(chunk_bytes_of(100000, 4, 64 << 20), CHUNK_BYTES / 8 * 7, CHUNK_BYTES);
	assert_true(chunk_bytes_of(400, 4, 64 << 20) < chunk_bytes_of(1000, 4, 64 << 20));
}

static void larger_operations_get_larger_chunks(void **state)
{
	size_t before = 0;

	(void)state;
	for (size_t bytes = 1 << 20; bytes <= 1 << 26; bytes *= 4) {
		size_t chunk = chunk_bytes_of(1000, 4, bytes);

		assert_true(chunk >= before);
		before = chunk;
	}
	assert_true(before > chunk_bytes_of(1000, 4, 1 << 20));
}

/* At 10 Gbit/s one has 40,000 bytes at the least, and the longer of two would decide. */
static void few_chunks_are_equal(void **state)
{
	(void)state;
	assert_int_equal(chunk_bytes_of(10000, 4, 64 << 10), 32 << 10);
	assert_int_equal(chunk_bytes_of(10000, 4, 128 << 10), 32 << 10);
	assert_int_equal(chunk_bytes_of(10000, 4, 32 << 10), 40000);
}

/* Results leave in pieces while a chunk still comes in, so that a second one would be but more
 * messages. */
static void a_shard_with_little_gets_it_in_one(void **state)
{
	struct smd_deal deal;

	(void)state;
	assert_int_equal(chunk_bytes_of(1000, 4, 64 << 10), 16 << 10);
	assert_int_equal(chunk_bytes_of(1000, 4, 128 << 10), 32 << 10);
	assert_int_equal(chunk_bytes_of(10000, 4, 256 << 10), 64 << 10);
	assert_in_range(chunk_bytes_of(10000, 4, 320 << 10), 32 << 10, 48 << 10);
	assert_int_equal(chunk_bytes_of(10000, 4, (256 << 10) - 1), 64 << 10);
	assert_int_equal(chunk_bytes_of(10000, 4, 200001), 50048);
	/* Where it would be long on the wire, or others have more, it is not. */
	deal_of(&deal, (const uint32_t[]){1000, 2000}, 2);
	assert_in_range(smd_deal_chunk_elements(&deal, 128 << 10, 1), 21 << 10, 22 << 10);
	smd_deal_destroy(&deal);
	assert_int_equal(chunk_bytes_of(200, 4, 256 << 10), 16 << 10);
}

/* Otherwise one shard would have more to do than another of the same bandwidth. */
static void large_operations_are_cut_into_whole_rounds(void **state)
{
	(void)state;
	for (unsigned nshards = 1; nshards <= 16; nshards++) {
		size_t bytes = 5000000;
		size_t chunk = chunk_bytes_of(1000, nshards, bytes);
		size_t rounds = (bytes + chunk * nshards - 1) / (chunk * nshards);

		assert_in_range(chunk * nshards * rounds, bytes, bytes + 64 * nshards * rounds);
	}
}

/* What a server offers is the limit, even below the least that we would choose. */
static void small_servers_get_small_chunks(void **state)
{
	const struct smd_deal_shard shard = {1, 0, 1};
	struct smd_deal deal;

	(void)state;
	assert_int_equal(smd_deal_create(&deal, &shard, 1, 64), 0);
	assert_int_equal(smd_deal_chunk_elements(&deal, 1 << 20, 8), 8);
	assert_int_equal(smd_deal_chunk_elements(&deal, 1 << 20, 1), 64);
	smd_deal_destroy(&deal);
}

static unsigned window_of(const uint32_t *weights, unsigned nshards, unsigned nranks, size_t chunk)
{
	struct smd_deal deal;
	unsigned window;

	deal_of(&deal, weights, nshards);
	window = smd_deal_window(&deal, nranks, chunk);
	smd_deal_destroy(&deal);
	return window;
}

/* An operation in one chunk for each shard, where that is not more than four times what it would be alone: what it is on
 * its way with others. Small ones stay as they are, and the scale counts from there. */
static void chunks_of_many_operations_at_once_are_larger(void **state)
{
	static const uint32_t eight[] = {2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500};
	struct smd_deal deal;

	(void)state;
	deal_of(&deal, eight, 8); /* 10000 bytes in what a chunk costs, and 16 KiB at least */
	assert_in_range(smd_deal_chunk_elements(&deal, 1 << 20, 1), 31 << 10, 33 << 10);
	deal.pipelined = true;
	assert_int_equal(smd_deal_chunk_elements(&deal, 1 << 20, 1), 128 << 10);
	assert_int_equal(smd_deal_chunk_elements(&deal, 192 << 10, 1), 24 << 10);
	assert_int_equal(smd_deal_chunk_elements(&deal, 64 << 10, 1), 16 << 10);
	deal.scale = -1;
	assert_in_range(smd_deal_chunk_elements(&deal, 1 << 20, 1), 40 << 10, 66 << 10);
	smd_deal_destroy(&deal);
}

static void assert_scales(
	const struct smd_deal *deal, uint64_t bytes, bool spread, int least, int most)
{
	int first = -3;
	int last = 3;

	smd_deal_bound_scales(deal, bytes, spread, &first, &last);
	assert_int_equal(first, least);
	assert_int_equal(last, most);
}

/* The smallest chunk there may be, 16 KiB, an operation in one chunk, and the largest there may be end the search for
 * other sizes. */
static void other_scales_make_other_chunks(void **state)
{
	static const uint32_t two[] = {10000, 10000};
	struct smd_deal deal;

	(void)state;
	deal_of(&deal, two, 2); /* 40 KB at least, 256 KiB at most */
	assert_scales(&deal, 64 << 10, false, -2, 1);
	assert_scales(&deal, 1 << 20, false, -3, 1);
	assert_scales(&deal, 64 << 20, false, -3, 0);
	assert_scales(&deal, 1, false, -2, -2);
	smd_deal_destroy(&deal);
}

/* Two chunks for four servers leave two links idle, whatever is saved otherwise. */
static void where_links_decide_each_shard_keeps_a_chunk(void **state)
{
	static const uint32_t four[] = {10000, 10000, 10000, 10000};
	struct smd_deal deal;

	(void)state;
	deal_of(&deal, four, 4); /* 40 KB at least, 256 KiB at most */
	assert_scales(&deal, 256 << 10, false, -2, 2);
	assert_scales(&deal, 256 << 10, true, -2, 0);
	assert_scales(&deal, 512 << 10, false, -3, 2);
	assert_scales(&deal, 512 << 10, true, -3, 0);
	assert_scales(&deal, 1 << 20, true, -3, 2);
	assert_scales(&deal, 64 << 20, true, -3, 0);
	smd_deal_destroy(&deal);
}

/* Half a millisecond of the shard's link, which all ranks share. */
static void windows_keep_the_wire_busy_and_no_more(void **state)
{
	const uint32_t fast[] = {10000, 10000};
	const uint32_t slow[] = {1000, 1000};
	const uint32_t about[] = {10000, 7000};
	const uint32_t unlike[] = {10000, 6000};

	(void)state;
	assert_int_equal(window_of(fast, 2, 4, 72 << 10), 3);
	assert_int_equal(window_of(fast, 2, 4, 512 << 10), 2);
	assert_int_equal(window_of(fast, 2, 2, 40 << 10), 8);
	assert_int_equal(window_of(slow, 2, 4, 64 << 10), 2);
	assert_int_equal(window_of(slow, 2, 4096, 64 << 10), 2);
	assert_int_equal(window_of(about, 2, 4, 512 << 10), 2);
	assert_int_equal(window_of(unlike, 2, 4, 512 << 10), 2);
	assert_int_equal(window_of(fast, 2, 4, 64), SMD_WINDOW_MAX);
	assert_int_equal(window_of(fast, 2, 4, 0), SMD_WINDOW_MAX); /* a barrier */
}

/* Every place of the pattern in which the largest share has the window, and one more. */
static void leads_follow_the_largest_share(void **state)
{
	const uint32_t even[] = {1000, 1000, 1000, 1000};
	const uint32_t unlike[] = {400, 400, 100, 100}; /* a pattern of 4 + 4 + 1 + 1 places */
	struct smd_deal deal;

	(void)state;
	deal_of(&deal, even, 4);
	assert_int_equal(smd_deal_lead(&deal, 2), 3 * 4);
	smd_deal_destroy(&deal);
	deal_of(&deal, unlike, 4);
	assert_int_equal(smd_deal_lead(&deal, 2), 8); /* 7.5 */
	assert_int_equal(smd_deal_lead(&deal, 7), 20);
	smd_deal_destroy(&deal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunk_and_ordinal_are_inverse),
		cmocka_unit_test(chunk_and_ordinal_are_inverse_for_any_weights),
		cmocka_unit_test(large_pools_are_dealt_too),
		cmocka_unit_test(shares_are_in_proportion_to_weights),
		cmocka_unit_test(shares_are_exact_to_the_chunk),
		cmocka_unit_test(reducers_on_workers_hosts_get_their_shares),
		cmocka_unit_test(turns_are_spread_evenly),
		cmocka_unit_test(equal_weights_take_turns),
		cmocka_unit_test(the_hash_tells_tables_apart),
		cmocka_unit_test(chunks_have_bounds),
		cmocka_unit_test(faster_servers_get_larger_chunks),
		cmocka_unit_test(larger_operations_get_larger_chunks),
		cmocka_unit_test(few_chunks_are_equal),
		cmocka_unit_test(a_shard_with_little_gets_it_in_one),
		cmocka_unit_test(large_operations_are_cut_into_whole_rounds),
		cmocka_unit_test(small_servers_get_small_chunks),
		cmocka_unit_test(chunks_of_many_operations_at_once_are_larger),
		cmocka_unit_test(other_scales_make_other_chunks),
		cmocka_unit_test(where_links_decide_each_shard_keeps_a_chunk),
		cmocka_unit_test(windows_keep_the_wire_busy_and_no_more),
		cmocka_unit_test(leads_follow_the_largest_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
