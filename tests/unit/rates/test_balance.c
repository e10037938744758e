/*
 * Weights follow what servers can, in a pool that is simulated: operations of one size follow each
 * other, each lane gets its fair part of its rank's link and of its server's, and what is seen is
 * disturbed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/random.h"
#include "worker/libsummand/balance.h"

enum { SHARDS_MAX = 8 };
#define MBIT  125000.0 /* bytes per second */
#define BYTES 16e6     /* of an operation */

struct network {
	unsigned nshards;
	double rank_mbps;
	double shard_mbps[SHARDS_MAX]; /* for one rank */
	double noise;  /* a slice takes so much longer or shorter, at most: a factor less 1 */
	bool saves;    /* a link carries at once what it could have while it had nothing to carry */
	double late_s; /* a slow rank delays all shards by as much */
	uint64_t random;
};

/* What one operation has been like. */
struct operation {
	double seconds[SHARDS_MAX];
	double last;
	double first;
};

static double draw(struct network *network)
{
	return (double)(smd_random_next(&network->random) >> 11) / 9007199254740992.0;
}

/* Max-min fair: the link's rest is divided evenly among those that could use more. */
static void share_link(const struct network *network, const bool *busy, double *rate)
{
	double left = network->rank_mbps;
	bool served[SHARDS_MAX] = {false};

	for (;;) {
		unsigned waiting = 0;
		bool any = false;

		for (unsigned s = 0; s < network->nshards; s++) {
			waiting += busy[s] && !served[s];
		}
		if (waiting == 0) {
			return;
		}
		for (unsigned s = 0; s < network->nshards; s++) {
			if (busy[s] && !served[s] && network->shard_mbps[s] <= left / waiting) {
				rate[s] = network->shard_mbps[s];
				served[s] = true;
				left -= rate[s];
				any = true;
				break;
			}
		}
		if (any) {
			continue;
		}
		for (unsigned s = 0; s < network->nshards; s++) {
			if (busy[s] && !served[s]) {
				rate[s] = left / waiting;
				served[s] = true;
			}
		}
	}
}

static void run_operation(
	struct network *network, const struct smd_balance *balance, struct operation *out)
{
	double left[SHARDS_MAX];
	double rate[SHARDS_MAX];
	bool busy[SHARDS_MAX];
	double sum = 0;
	double now = 0;
	unsigned nbusy = network->nshards;

	for (unsigned s = 0; s < network->nshards; s++) {
		sum += balance->shards[s].weight;
	}
	for (unsigned s = 0; s < network->nshards; s++) {
		left[s] = BYTES * balance->shards[s].weight / sum;
		busy[s] = true;
	}
	out->first = INFINITY;
	while (nbusy) {
		double step = INFINITY;

		share_link(network, busy, rate);
		for (unsigned s = 0; s < network->nshards; s++) {
			if (busy[s]) {
				step = fmin(step, left[s] / (rate[s] * MBIT));
			}
		}
		now += step;
		for (unsigned s = 0; s < network->nshards; s++) {
			if (busy[s]) {
				left[s] -= step * rate[s] * MBIT;
				if (left[s] < 1) {
					busy[s] = false;
					nbusy--;
					out->seconds[s] = now;
					out->first = fmin(out->first, now);
				}
			}
		}
	}
	out->last = now;
}

/* What a shard is seen to take: one that rests until the last is done seems faster than it is, by
 * as much as its link has saved meanwhile. */
static double seen_seconds(
	const struct network *network, const struct operation *operation, unsigned shard)
{
	double seconds = operation->seconds[shard];
	double saved = network->saves ? operation->last - seconds : 0;

	return fmax(seconds - saved, seconds / 4);
}

/* Runs operations for so many seconds. Says the changes, and how the last operation was. */
struct outcome {
	unsigned changes;
	double unequal; /* last to mean, */
	double last;
	double usual; /* and on average, of all */
};

static struct outcome run(
	struct network *network, struct smd_balance *balance, uint64_t *now_ns, double seconds)
{
	uint64_t end_ns = *now_ns + (uint64_t)(seconds * 1e9);
	struct outcome outcome = {.changes = 0};
	double all = 0;
	unsigned operations = 0;

	while (*now_ns < end_ns) {
		struct operation operation;
		double late = network->late_s * draw(network);
		double sum = 0;
		double mean = 0;

		run_operation(network, balance, &operation);
		for (unsigned s = 0; s < network->nshards; s++) {
			sum += balance->shards[s].weight;
			mean += operation.seconds[s] / network->nshards;
		}
		for (unsigned s = 0; s < network->nshards; s++) {
			double disturbed = (seen_seconds(network, &operation, s) + late) *
					   (1 + network->noise * (2 * draw(network) - 1));

			smd_balance_slice(balance, s,
				(uint64_t)(BYTES * balance->shards[s].weight / sum),
				(uint64_t)(disturbed * 1e9));
		}
		*now_ns += (uint64_t)((operation.last + late) * 1e9);
		outcome.unequal = operation.last / mean;
		outcome.last = operation.last;
		all += outcome.unequal;
		operations++;
		if (smd_balance_want(balance, *now_ns)) {
			smd_balance_applied(balance, *now_ns);
			outcome.changes++;
		}
	}
	outcome.usual = all / operations;
	return outcome;
}

static void start(struct smd_balance *balance, const struct network *network, uint32_t declared)
{
	uint32_t weights[SHARDS_MAX];

	for (unsigned s = 0; s < network->nshards; s++) {
		weights[s] = declared;
	}
	assert_int_equal(smd_balance_create(balance, weights, network->nshards, SMD_SECOND_NS), 0);
}

static struct network equal_network(void)
{
	return (struct network){.nshards = 4,
		.rank_mbps = 10000,
		.shard_mbps = {2500, 2500, 2500, 2500},
		.random = 7};
}

static void a_slow_server_gets_less_within_a_second(void **state)
{
	struct network network = equal_network();
	struct smd_balance balance;
	uint64_t now = SMD_SECOND_NS;
	struct outcome outcome;

	(void)state;
	network.shard_mbps[2] = 1250;
	start(&balance, &network, 10000);
	run(&network, &balance, &now, 1);
	outcome = run(&network, &balance, &now, 0.2);
	assert_true(outcome.unequal < 1.06);
	outcome = run(&network, &balance, &now, 60);
	assert_true(outcome.unequal < 1.05);
	assert_true(outcome.changes <= 2);
	smd_balance_destroy(&balance);
}

static void equal_servers_stay_as_they_are(void **state)
{
	static const double noises[] = {0, 0.05};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct network network = equal_network();
		struct smd_balance balance;
		uint64_t now = SMD_SECOND_NS;

		network.noise = noises[i];
		start(&balance, &network, 10000);
		assert_int_equal(run(&network, &balance, &now, 600).changes, 0);
		smd_balance_destroy(&balance);
	}
}

/* Slices scatter by a third: steps are taken for nothing, nearly as many as there may be, and none
 * of them does much harm. */
static void noise_changes_little(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		struct network network = equal_network();
		struct smd_balance balance;
		uint64_t now = SMD_SECOND_NS;
		struct outcome outcome;

		network.noise = 0.3;
		network.random = 1 + i;
		start(&balance, &network, 10000);
		outcome = run(&network, &balance, &now, 600);
		assert_true(outcome.changes <= 8 + 60); /* in ten minutes */
		assert_true(outcome.usual < 1.1);
		smd_balance_destroy(&balance);
	}
}

static void a_rank_that_is_the_pace_changes_nothing(void **state)
{
	struct network network = equal_network();
	struct smd_balance balance;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	network.late_s = 0.05;
	start(&balance, &network, 10000);
	assert_int_equal(run(&network, &balance, &now, 120).changes, 0);
	smd_balance_destroy(&balance);
	network.late_s = 0;
	network.rank_mbps = 1000; /* its link: then all servers wait for it */
	start(&balance, &network, 10000);
	assert_int_equal(run(&network, &balance, &now, 120).changes, 0);
	smd_balance_destroy(&balance);
}

static void a_link_that_is_halved_and_comes_back(void **state)
{
	struct network network = equal_network();
	struct smd_balance balance;
	uint64_t now = SMD_SECOND_NS;
	struct outcome outcome;

	(void)state;
	network.noise = 0.05;
	start(&balance, &network, 10000);
	run(&network, &balance, &now, 100);
	network.shard_mbps[1] = 1250;
	run(&network, &balance, &now, 1.2);
	outcome = run(&network, &balance, &now, 0.3);
	assert_true(outcome.unequal < 1.08);
	run(&network, &balance, &now, 100);
	network.shard_mbps[1] = 2500;
	run(&network, &balance, &now, 1.2);
	outcome = run(&network, &balance, &now, 0.3);
	assert_true(outcome.unequal < 1.08);
	smd_balance_destroy(&balance);
}

/* As a shaper's are: shards that rest seem up to four times faster than they are, so a
 * step goes too far. */
static void links_that_save_what_they_did_not_carry(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct network network = {.nshards = 3,
			.rank_mbps = 10000,
			.shard_mbps = {250, 500, 500},
			.saves = true,
			.noise = 0.03,
			.random = 1 + i};
		struct smd_balance balance;
		uint64_t now = SMD_SECOND_NS;
		struct outcome outcome;

		start(&balance, &network, 10000);
		run(&network, &balance, &now, 4);
		outcome = run(&network, &balance, &now, 4);
		assert_true(outcome.unequal < 1.06);
		assert_true(outcome.changes <= 1);
		network.shard_mbps[0] = 500;
		run(&network, &balance, &now, 4);
		outcome = run(&network, &balance, &now, 4);
		assert_true(outcome.unequal < 1.06);
		assert_true(outcome.changes <= 1);
		smd_balance_destroy(&balance);
	}
}

/* After steps that were taken back in vain the next one may be a minute away, but not where
 * something has changed. */
static void a_change_after_noise_is_followed_soon(void **state)
{
	unsigned soon = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct network network = equal_network();
		struct smd_balance balance;
		uint64_t now = SMD_SECOND_NS;

		network.noise = 0.3;
		network.random = 1 + i;
		start(&balance, &network, 10000);
		run(&network, &balance, &now, 600);
		network.noise = 0.05;
		network.shard_mbps[1] = 1000;
		run(&network, &balance, &now, 1.2);
		soon += run(&network, &balance, &now, 0.3).unequal < 1.3;
		smd_balance_destroy(&balance);
	}
	assert_true(soon >= 13); /* 8, if pauses were waited for */
}

/* The others are the last one in turn. */
static void one_that_is_early_gets_more_soon(void **state)
{
	unsigned soon = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct network network = equal_network();
		struct smd_balance balance;
		uint64_t now = SMD_SECOND_NS;

		network.noise = 0.08;
		network.random = 1 + i;
		network.rank_mbps = 20000;
		network.shard_mbps[1] = 5000;
		start(&balance, &network, 10000);
		run(&network, &balance, &now, 0.4);
		soon += run(&network, &balance, &now, 0.1).unequal < 1.13;
		smd_balance_destroy(&balance);
	}
	assert_true(soon >= 18);
}

/* A server that shares its host with a job that comes and goes each second. */
static void changes_are_bounded(void **state)
{
	struct network network = equal_network();
	struct smd_balance balance;
	uint64_t now = SMD_SECOND_NS;
	unsigned changes = 0;

	(void)state;
	start(&balance, &network, 10000);
	for (unsigned i = 0; i < 120; i++) {
		network.shard_mbps[3] = i % 2 ? 1000 : 2500;
		changes += run(&network, &balance, &now, 1).changes;
	}
	assert_true(changes <= 8 + 12);
	smd_balance_destroy(&balance);
}

static void any_pool_comes_to_an_end_together(void **state)
{
	uint64_t random = 11;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		struct network network = {.noise = 0.03, .random = i + 1};
		struct smd_balance balance;
		uint64_t now = SMD_SECOND_NS;
		struct outcome outcome;
		unsigned changes;

		network.nshards = 2 + (unsigned)(smd_random_next(&random) % (SHARDS_MAX - 1));
		network.rank_mbps = 500 + (double)(smd_random_next(&random) % 20000);
		for (unsigned s = 0; s < network.nshards; s++) {
			network.shard_mbps[s] = 400 + (double)(smd_random_next(&random) % 4000);
		}
		start(&balance, &network, 1 + (uint32_t)(smd_random_next(&random) % 100000));
		run(&network, &balance, &now, 200);
		outcome = run(&network, &balance, &now, 60);
		changes = outcome.changes;
		if (outcome.unequal > 1.07 || changes > 3) {
			print_message("pool %u: %u shards, %.3f, %u changes\n", i, network.nshards,
				outcome.unequal, changes);
		}
		assert_true(outcome.unequal < 1.07);
		assert_true(changes <= 3);
		smd_balance_destroy(&balance);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_server_gets_less_within_a_second),
		cmocka_unit_test(equal_servers_stay_as_they_are),
		cmocka_unit_test(noise_changes_little),
		cmocka_unit_test(a_rank_that_is_the_pace_changes_nothing),
		cmocka_unit_test(a_link_that_is_halved_and_comes_back),
		cmocka_unit_test(links_that_save_what_they_did_not_carry),
		cmocka_unit_test(a_change_after_noise_is_followed_soon),
		cmocka_unit_test(one_that_is_early_gets_more_soon),
		cmocka_unit_test(changes_are_bounded),
		cmocka_unit_test(any_pool_comes_to_an_end_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
