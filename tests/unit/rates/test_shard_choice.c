/*
 * Servers use one shard where that is as good, in a network that is simulated: a link that carries
 * so much, and a shard that can carry so much, whatever is there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/random.h"
#include "worker/libsummand/shard_choice.h"

#define BYTES    4e6                  /* of an operation, */
#define FOUND_NS (10 * SMD_SECOND_NS) /* between two looks at rates */
#define TWO      3ull                 /* servers 0 and 1 */

struct network {
	double link_mbps;  /* of a server */
	double shard_mbps; /* what one shard carries */
	double shards;     /* of each server */
	double cost;       /* a shard more makes all slower by this part */
	double noise;      /* a time is so much longer, at most */
	uint64_t random;
};

static double draw(struct network *network)
{
	return (double)(smd_random_next(&network->random) >> 11) / 9007199254740992.0;
}

/* Of each server, with those shards. */
static double rate(const struct network *network, bool single)
{
	return fmin(network->link_mbps, network->shard_mbps * (single ? 1 : network->shards));
}

static double seconds(const struct network *network, bool single)
{
	return 8 * BYTES / 1e6 / rate(network, single) *
	       (single ? 1 : 1 + network->cost * (network->shards - 1));
}

/* Operations for so long; how often other shards were used. */
static unsigned run(
	struct network *network, struct smd_shard_choice *choice, uint64_t *now_ns, double length_s)
{
	uint64_t end_ns = *now_ns + (uint64_t)(length_s * 1e9);
	uint64_t found_ns = *now_ns;
	unsigned changes = 0;

	while (*now_ns < end_ns) {
		bool single = (choice->single & TWO) != 0;
		double s = seconds(network, single) * (1 + network->noise * draw(network));

		*now_ns += (uint64_t)(s * 1e9);
		smd_shard_choice_took(choice, (uint64_t)BYTES, (uint64_t)(s * 1e9));
		if (*now_ns >= found_ns && !smd_shard_choice_is_on_trial(choice)) {
			found_ns = *now_ns + FOUND_NS;
			for (unsigned server = 0; server < 3; server++) {
				smd_shard_choice_found(choice, server, rate(network, single));
			}
		}
		if (smd_shard_choice_want(choice, *now_ns)) {
			assert_true(choice->wanted == 0 || choice->wanted == TWO);
			smd_shard_choice_applied(choice);
			changes++;
		}
	}
	return changes;
}

/* Of three servers the last one has one shard anyway. */
static struct smd_shard_choice start(void)
{
	struct smd_shard_choice choice;

	smd_shard_choice_begin(&choice, TWO, 0, SMD_SECOND_NS);
	return choice;
}

static struct network slow_link(void)
{
	return (struct network){
		.link_mbps = 1000, .shard_mbps = 14000, .shards = 2, .noise = 0.1, .random = 5};
}

static void one_is_kept_where_it_is_as_good(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		struct network network = slow_link();
		struct smd_shard_choice choice = start();
		uint64_t now = SMD_SECOND_NS;

		network.random = i + 1;
		network.cost = 0.02 * (i % 3);
		assert_in_range(run(&network, &choice, &now, 1), 1, 2);
		if (i % 3) {
			assert_true(choice.settled == TWO); /* within the first second */
		}
		assert_true(run(&network, &choice, &now, 600) <= 6);
		assert_true(choice.settled == TWO);
		assert_int_equal(run(&network, &choice, &now, 3600), 0);
	}
}

static void all_are_given_back_where_one_is_slower(void **state)
{
	struct network network = slow_link();
	struct smd_shard_choice choice = start();
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	network.shard_mbps = 800;
	assert_int_equal(run(&network, &choice, &now, 2), 2);
	assert_true(choice.settled == 0 && choice.single == 0);
	assert_true(run(&network, &choice, &now, 3600) <= 24); /* a pause doubles, to ten minutes */
	assert_true(choice.settled == 0);
}

static void a_trial_that_is_far_slower_ends_with_its_fourth_operation(void **state)
{
	struct network network = slow_link();
	struct smd_shard_choice choice = start();
	uint64_t now = SMD_SECOND_NS;
	unsigned suffered = 0;

	(void)state;
	network.shard_mbps = 500;
	smd_shard_choice_found(&choice, 0, 1000);
	smd_shard_choice_found(&choice, 1, 1000);
	for (unsigned i = 0; i < 100; i++) {
		double s = seconds(&network, choice.single != 0);

		suffered += choice.single != 0;
		now += (uint64_t)(s * 1e9);
		smd_shard_choice_took(&choice, (uint64_t)BYTES, (uint64_t)(s * 1e9));
		if (smd_shard_choice_want(&choice, now)) {
			smd_shard_choice_applied(&choice);
		}
	}
	assert_int_equal(suffered, 6); /* the first two do not count */
}

static void what_is_faster_than_one_can_be_has_all(void **state)
{
	struct network network = slow_link();
	struct smd_shard_choice choice = start();
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	network.link_mbps = 20000;
	assert_int_equal(run(&network, &choice, &now, 60), 0);
}

/* And those of a slow processor, which one alone never carries 10 Gbit/s with. */
static void a_link_that_becomes_faster_has_all_again(void **state)
{
	static const double shard_mbps[] = {14000, 6000};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct network network = slow_link();
		struct smd_shard_choice choice = start();
		uint64_t now = SMD_SECOND_NS;

		run(&network, &choice, &now, 100);
		assert_true(choice.settled == TWO);
		network.link_mbps = 25000;
		network.shard_mbps = shard_mbps[i];
		run(&network, &choice, &now, 60);
		assert_true(choice.settled == 0);
		assert_int_equal(run(&network, &choice, &now, 3600), 0);
		network.link_mbps = 1000;
		run(&network, &choice, &now, 60);
		assert_true(choice.settled == TWO);
	}
}

/* One shard carries all of what the link has now: then all are tried once, and not again. */
static void what_is_as_good_with_one_stays(void **state)
{
	struct network network = slow_link();
	struct smd_shard_choice choice = start();
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	run(&network, &choice, &now, 100);
	network.link_mbps = 2000;
	assert_int_equal(run(&network, &choice, &now, 600), 0);
	network.link_mbps = 9000;
	network.noise = 0.3;
	assert_true(run(&network, &choice, &now, 3600) <= 24);
	assert_true(choice.settled == TWO);
}

static void nothing_is_tried_before_rates_are_known(void **state)
{
	struct smd_shard_choice choice = start();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		smd_shard_choice_took(&choice, (uint64_t)BYTES, SMD_SECOND_NS / 50);
		assert_false(smd_shard_choice_want(&choice, (i + 1) * SMD_SECOND_NS));
	}
}

static void what_was_settled_in_a_table_before_stays(void **state)
{
	struct network network = slow_link();
	struct smd_shard_choice choice;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_shard_choice_begin(&choice, TWO, TWO, now);
	assert_int_equal(run(&network, &choice, &now, 600), 0);
	assert_true(choice.settled == TWO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_kept_where_it_is_as_good),
		cmocka_unit_test(all_are_given_back_where_one_is_slower),
		cmocka_unit_test(a_trial_that_is_far_slower_ends_with_its_fourth_operation),
		cmocka_unit_test(what_is_faster_than_one_can_be_has_all),
		cmocka_unit_test(a_link_that_becomes_faster_has_all_again),
		cmocka_unit_test(what_is_as_good_with_one_stays),
		cmocka_unit_test(nothing_is_tried_before_rates_are_known),
		cmocka_unit_test(what_was_settled_in_a_table_before_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
