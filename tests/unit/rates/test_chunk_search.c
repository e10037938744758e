/*
 * The size of chunks follows what makes operations fast, in a network that is simulated by the
 * formula of specs/design/performance.md: M / B, the last chunk's way, and what each chunk costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/random.h"
#include "worker/libsummand/chunk_search.h"

struct network {
	double bytes_per_us; /* of a shard, as it is, */
	double declared;     /* and as it was said */
	double chunk_us;     /* what a chunk costs beyond its bytes */
	double noise;
	double late_us; /* a slow rank, at most */
	double mode;    /* other work makes all slower by so much, for stretches of operations */
	unsigned stretch;
	double slowed;
	uint64_t random;
};

static double draw(struct network *network)
{
	return (double)(smd_random_next(&network->random) >> 11) / 9007199254740992.0;
}

/* What chunks are cut to, as worker/libsummand/deal.c does it. */
static double chunk_bytes(const struct network *network, double bytes, int scale)
{
	double chunk = sqrt(bytes * network->declared * 16) * pow(2, scale);

	return fmin(fmax(chunk, 4096), fmin(bytes, 524288));
}

static double time_us(const struct network *network, double bytes, int scale)
{
	double chunk = chunk_bytes(network, bytes, scale);

	return 60 + bytes / network->bytes_per_us + chunk / network->bytes_per_us +
	       bytes / chunk * network->chunk_us;
}

static int best_scale(const struct network *network, double bytes)
{
	int best = SMD_CHUNK_SCALE_LEAST;

	for (int scale = SMD_CHUNK_SCALE_LEAST; scale <= SMD_CHUNK_SCALE_MOST; scale++) {
		if (time_us(network, bytes, scale) < time_us(network, bytes, best)) {
			best = scale;
		}
	}
	return best;
}

/* Operations of these sizes in turn, for so many seconds; how many changes there were. */
static unsigned run(struct network *network, struct smd_chunk_search *search, uint64_t *now_ns,
	const double *sizes, unsigned nsizes, double seconds)
{
	uint64_t end_ns = *now_ns + (uint64_t)(seconds * 1e9);
	unsigned changes = 0;

	for (unsigned i = 0; *now_ns < end_ns; i++) {
		double bytes = sizes[i % nsizes];
		double us = time_us(network, bytes, search->scale) *
				    (1 + network->noise * draw(network)) +
			    network->late_us * draw(network);

		if (network->stretch && i % network->stretch == 0) {
			network->slowed = network->mode * draw(network);
		}
		us *= 1 + network->slowed;
		*now_ns += (uint64_t)(us * 1e3);
		smd_chunk_search_took(search, (uint64_t)bytes, (uint64_t)(us * 1e3));
		if (smd_chunk_search_want(search, *now_ns)) {
			assert_true(search->wanted >= SMD_CHUNK_SCALE_LEAST);
			assert_true(search->wanted <= SMD_CHUNK_SCALE_MOST);
			assert_int_not_equal(search->wanted, search->scale);
			smd_chunk_search_applied(search);
			changes++;
		}
	}
	return changes;
}

/* The interface says 10 Gbit/s, the link carries 1. */
static const struct network liar = {
	.bytes_per_us = 125, .declared = 1250, .chunk_us = 16, .random = 3};
static const double one[] = {4e6};
static const double several[] = {1e6, 25e6, 4e6, 300};

static void an_interface_that_lies_is_found_out_within_a_second(void **state)
{
	struct network network = liar;
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	run(&network, &search, &now, one, 1, 1);
	assert_true(time_us(&network, one[0], search.settled) <
		    1.01 * time_us(&network, one[0], best_scale(&network, one[0])));
}

static void where_processors_decide_chunks_grow(void **state)
{
	struct network network = {
		.bytes_per_us = 1250, .declared = 1250, .chunk_us = 120, .noise = 0.1, .random = 5};
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	run(&network, &search, &now, one, 1, 1);
	assert_true(search.settled > 0);
}

/* Below, chunks are all of the smallest size: a trial there says nothing, and noise could keep it. */
static void sizes_that_would_not_differ_are_not_tried(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		struct network network = {.bytes_per_us = 1250,
			.declared = 1250,
			.chunk_us = 60,
			.noise = 0.3,
			.random = i + 1};
		struct smd_chunk_search search;
		uint64_t now = SMD_SECOND_NS;

		smd_chunk_search_begin(&search, 0, now);
		search.least = 0;
		search.most = 1;
		for (unsigned k = 0; k < 20; k++) {
			run(&network, &search, &now, one, 1, 0.1);
			assert_in_range(search.scale, 0, 1);
		}
	}
}

/* What a second's search settles on where processors decide and chunks of these scales differ. */
static int settle_where_processors_decide(
	struct network *network, double bytes, int least, int most)
{
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	smd_chunk_search_begin(&search, 0, now);
	search.processors_decide = true;
	search.least = least;
	search.most = most;
	run(network, &search, &now, &bytes, 1, 1);
	return search.settled;
}

/* An operation in one chunk needs fewer packets, and that is much; the sizes between gain little,
 * and times scatter. */
static void where_processors_decide_the_largest_are_tried_first(void **state)
{
	static const double quarter = 262144;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		struct network network = {.bytes_per_us = 1250,
			.declared = 1250,
			.chunk_us = 120,
			.noise = 0.4,
			.late_us = 60,
			.random = i + 1};
		int settled = settle_where_processors_decide(
			&network, quarter, SMD_CHUNK_SCALE_LEAST, SMD_CHUNK_SCALE_MOST);

		assert_true(chunk_bytes(&network, quarter, settled) >= 131072);
	}
}

/* The largest that differs may be the next one: an operation of 64 KiB in one chunk instead of two. */
static void the_largest_is_found_where_it_is_the_next_one(void **state)
{
	unsigned found = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		struct network network = {.bytes_per_us = 1250,
			.declared = 1250,
			.chunk_us = 90,
			.noise = 0.4,
			.random = i + 1};

		found += settle_where_processors_decide(&network, 65536, -2, 1) == 1;
	}
	assert_in_range(found, 80, 100);
}

/* One that was right for other operations: beside it are the first that differ. */
static void sizes_beside_differ_from_one_beyond_the_bounds(void **state)
{
	struct smd_chunk_search search;

	(void)state;
	smd_chunk_search_begin(&search, 2, 0);
	search.least = -2;
	search.most = 1;
	for (unsigned i = 0; i < 300; i++) {
		smd_chunk_search_took(&search, 65536, 300000);
	}
	assert_true(smd_chunk_search_want(&search, SMD_SECOND_NS));
	assert_int_equal(search.wanted, 0);
}

/* The word of who decides may be wrong. */
static void a_trial_of_the_largest_is_one_of_a_few(void **state)
{
	struct network network = liar;
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	search.processors_decide = true;
	run(&network, &search, &now, one, 1, 2);
	assert_true(time_us(&network, one[0], search.settled) <
		    1.01 * time_us(&network, one[0], best_scale(&network, one[0])));
	assert_true(run(&network, &search, &now, one, 1, 60) <= 12);
}

static void what_is_clearly_slower_ends_soon(void **state)
{
	struct network network = liar;
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;
	unsigned suffered = 0;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	search.processors_decide = true;
	for (unsigned i = 0; i < 200; i++) {
		suffered += search.scale == SMD_CHUNK_SCALE_MOST;
		now += (uint64_t)(time_us(&network, 262144, search.scale) * 1e3);
		smd_chunk_search_took(
			&search, 262144, (uint64_t)(time_us(&network, 262144, search.scale) * 1e3));
		if (smd_chunk_search_want(&search, now)) {
			smd_chunk_search_applied(&search);
		}
	}
	assert_in_range(suffered, 1, 6); /* the first two of a scale do not count */
}

/* Of operations that take long four say it, where a little slower is slower: they scatter little. */
static void long_operations_are_not_tried_for_long(void **state)
{
	struct smd_chunk_search search;
	unsigned trial = 0;

	(void)state;
	smd_chunk_search_begin(&search, 0, 0);
	for (unsigned i = 0; i < 10; i++) {
		smd_chunk_search_took(&search, 16 << 20, 350000000);
	}
	assert_true(smd_chunk_search_want(&search, SMD_SECOND_NS));
	smd_chunk_search_applied(&search);
	while (!smd_chunk_search_want(&search, 2 * SMD_SECOND_NS)) {
		smd_chunk_search_took(&search, 16 << 20, 360000000);
		trial++;
	}
	assert_int_equal(trial, 2 + 4); /* two that are skipped */
	assert_int_equal(search.settled, 0);
}

/* A shaper saves tokens: four of five operations of the settled size are fast, and the fifth pays for
 * all. Of another size all take the same time, and together less. */
static void what_counts_is_the_time_of_all_operations(void **state)
{
	static const uint64_t saved_us[] = {100, 100, 100, 100, 2100};
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	search.least = 0;
	search.most = 1;
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t us = search.scale == 0 ? saved_us[i % 5] : 440;

		now += us * 1000;
		smd_chunk_search_took(&search, 65536, us * 1000);
		if (smd_chunk_search_want(&search, now)) {
			smd_chunk_search_applied(&search);
		}
	}
	assert_int_equal(search.settled, 1);
}

static void what_is_right_is_left_alone(void **state)
{
	struct network network = liar;
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	network.declared = network.bytes_per_us;
	network.noise = 0.2;
	network.late_us = 20000;
	smd_chunk_search_begin(&search, 0, now);
	assert_true(run(&network, &search, &now, several, 4, 60) <= 12);
	assert_true(run(&network, &search, &now, several, 4, 600) <= 30);
	assert_true(abs(search.settled) <= 1);
}

/* Times that scatter must not lead away from what is right: what a search costs is bounded. */
static void scatter_leads_nowhere(void **state)
{
	static const double sizes[] = {65536, 262144, 1e6, 4e6};

	unsigned astray = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		struct network network = {.bytes_per_us = 600,
			.declared = 600,
			.chunk_us = 16,
			.noise = 0.4,
			.mode = i % 2 ? 0.5 : 0,
			.stretch = 3 + i % 17,
			.random = i + 1};
		const double *size = &sizes[i / 2 % 4];
		struct smd_chunk_search search;
		uint64_t now = SMD_SECOND_NS;
		double lost;

		smd_chunk_search_begin(&search, 0, now);
		search.processors_decide = i % 8 > 3;
		run(&network, &search, &now, size, 1, 60);
		lost = time_us(&network, *size, search.settled) / time_us(&network, *size, 0) - 1;
		assert_true(lost < 0.12);
		astray += lost > 0.03;
	}
	assert_true(astray <= 10);
}

static void small_operations_ask_for_nothing(void **state)
{
	static const double small[] = {4096, 30000};
	struct network network = liar;
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	assert_int_equal(run(&network, &search, &now, small, 2, 10), 0);
}

static void changes_are_bounded(void **state)
{
	struct network network = liar;
	struct smd_chunk_search search;
	uint64_t now = SMD_SECOND_NS;
	unsigned changes = 0;

	(void)state;
	smd_chunk_search_begin(&search, 0, now);
	for (unsigned i = 0; i < 60; i++) { /* ten minutes of a network that is never the same */
		network.bytes_per_us = i % 2 ? 125 : 1250;
		network.chunk_us = i % 3 ? 16 : 200;
		changes += run(&network, &search, &now, several, 4, 10);
	}
	assert_true(changes <= 120);
}

static void any_network_comes_near_its_best(void **state)
{
	uint64_t random = 17;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		struct network network = {.noise = 0.02, .random = i + 1};
		struct smd_chunk_search search;
		uint64_t now = SMD_SECOND_NS;
		double size[1];
		double best;

		network.bytes_per_us = 20 + (double)(smd_random_next(&random) % 3000);
		network.declared = network.bytes_per_us *
				   (0.1 + (double)(smd_random_next(&random) % 1000) / 100);
		network.chunk_us = 5 + (double)(smd_random_next(&random) % 100);
		size[0] = 65536 * (1 + (double)(smd_random_next(&random) % 1000));
		smd_chunk_search_begin(&search, 0, now);
		run(&network, &search, &now, size, 1, 300);
		best = time_us(&network, size[0], best_scale(&network, size[0]));
		assert_true(time_us(&network, size[0], search.settled) < 1.12 * best);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_interface_that_lies_is_found_out_within_a_second),
		cmocka_unit_test(where_processors_decide_chunks_grow),
		cmocka_unit_test(sizes_that_would_not_differ_are_not_tried),
		cmocka_unit_test(where_processors_decide_the_largest_are_tried_first),
		cmocka_unit_test(the_largest_is_found_where_it_is_the_next_one),
		cmocka_unit_test(sizes_beside_differ_from_one_beyond_the_bounds),
		cmocka_unit_test(a_trial_of_the_largest_is_one_of_a_few),
		cmocka_unit_test(what_is_clearly_slower_ends_soon),
		cmocka_unit_test(long_operations_are_not_tried_for_long),
		cmocka_unit_test(what_counts_is_the_time_of_all_operations),
		cmocka_unit_test(what_is_right_is_left_alone),
		cmocka_unit_test(scatter_leads_nowhere),
		cmocka_unit_test(small_operations_ask_for_nothing),
		cmocka_unit_test(changes_are_bounded),
		cmocka_unit_test(any_network_comes_near_its_best),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
