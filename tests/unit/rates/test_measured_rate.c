/* Rates that were declared wrongly by a large factor are found soon, others are left as they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/measured_rate.h"
#include "worker/libsummand/pressure.h"

enum { RANKS = 4, SHARDS = 2, MS = 1000000 };

static struct smd_measured_rate start(void)
{
	struct smd_measured_rate rate;

	assert_int_equal(smd_measured_rate_create(&rate, RANKS, SHARDS, SMD_SECOND_NS, 0), 0);
	return rate;
}

/* Slices of so long of both shards, at so many Mbit/s of each one's link. */
static void feed(struct smd_measured_rate *rate, unsigned slices, unsigned ms, unsigned mbps)
{
	for (unsigned i = 0; i < slices; i++) {
		for (unsigned s = 0; s < SHARDS; s++) {
			smd_measured_rate_slice(
				rate, s, (uint64_t)mbps * 125 * ms / RANKS, (uint64_t)ms * MS);
		}
	}
}

/* With what is believed of both: so many Mbit/s. */
static double factor_at(
	struct smd_measured_rate *rate, uint32_t mbps, uint64_t now_ns, uint64_t waited_ns)
{
	const uint32_t weights[SHARDS] = {mbps, mbps};

	return smd_measured_rate_is_due(rate, weights, now_ns)
		       ? smd_measured_rate_factor(rate, weights, now_ns, waited_ns)
		       : 1;
}

static double factor(struct smd_measured_rate *rate, unsigned mbps, unsigned seconds)
{
	return factor_at(rate, mbps, (1 + seconds) * SMD_SECOND_NS + SMD_SECOND_NS / 5, 0);
}

static void a_wrong_rate_is_found_in_a_tenth_of_a_second(void **state)
{
	static const unsigned real[] = {1000, 100000};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct smd_measured_rate rate = start();

		feed(&rate, 4, 20, real[i]);
		assert_true(factor(&rate, 10000, 0) == 1); /* not yet */
		feed(&rate, 1, 20, real[i]);
		assert_float_equal(factor(&rate, 10000, 0), real[i] / 1e4, 1e-6);
		smd_measured_rate_destroy(&rate);
	}
}

static void what_is_about_right_stays(void **state)
{
	static const unsigned real[] = {2600, 10000, 39000};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct smd_measured_rate rate = start();

		feed(&rate, 20, 20, real[i]);
		assert_true(factor(&rate, 10000, 0) == 1);
		feed(&rate, 20, 20, 1000); /* which is looked at ten seconds later */
		assert_true(factor(&rate, 10000, 9) == 1);
		assert_float_equal(factor(&rate, 10000, 10), 0.1, 1e-6);
		smd_measured_rate_destroy(&rate);
	}
}

static void latencies_and_bursts_do_not_count(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	feed(&rate, 1000, 1, 100);
	assert_true(factor(&rate, 10000, 0) == 1);
	feed(&rate, 1000, 4, 10000);
	feed(&rate, 20, 10, 1000);
	assert_float_equal(factor(&rate, 10000, 0), 0.1, 1e-6);
	smd_measured_rate_destroy(&rate);
}

/* Operations of 4 KiB on a host with so much else to do that each takes 10 ms: 3 Mbit/s, as it
 * seems, by which later ones of 100 KiB were cut into the smallest chunks. */
static void what_is_short_waits_for_processors(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned s = 0; s < SHARDS; s++) {
			smd_measured_rate_slice(&rate, s, 2048, 10 * MS);
		}
	}
	assert_true(factor(&rate, 10000, 0) == 1);
	smd_measured_rate_destroy(&rate);
}

/* Some task of this host has waited for more than half of the time. */
static void nothing_is_said_where_processors_decide(void **state)
{
	const uint64_t later = 2 * SMD_SECOND_NS;
	struct smd_measured_rate rate = start();

	(void)state;
	for (unsigned i = 1; i <= 20; i++) { /* now all of a processor, now a tenth */
		feed(&rate, 1, 20, i % 5 ? 100 : 1000);
	}
	assert_true(factor_at(&rate, 10000, later, 600 * (uint64_t)MS) == 1);
	assert_false(rate.links_decide);
	feed(&rate, 20, 20, 1000);
	assert_true(factor_at(&rate, 10000, later, 600 * (uint64_t)MS) == 1); /* so soon */
	assert_float_equal(factor_at(&rate, 10000, 6 * later, 900 * (uint64_t)MS), 0.1, 1e-6);
	smd_measured_rate_destroy(&rate);
}

/* Imports and first touches of memory keep all processors busy while the first slices come. */
static void it_is_looked_at_again_soon_where_a_program_begins(void **state)
{
	struct smd_measured_rate rate = start();
	uint64_t now = 2 * SMD_SECOND_NS;
	uint64_t pause = 0;

	(void)state;
	for (unsigned i = 1; i <= 20; i++) {
		feed(&rate, 1, 20, i % 5 ? 100 : 1000);
	}
	assert_true(factor_at(&rate, 10000, now, 900 * (uint64_t)MS) == 1);
	feed(&rate, 20, 20, 1000);
	assert_float_equal(
		factor_at(&rate, 10000, now + 110 * (uint64_t)MS, 910 * (uint64_t)MS), 0.1, 1e-6);
	smd_measured_rate_destroy(&rate);

	rate = start(); /* also where other shards are in use meanwhile, */
	for (unsigned i = 1; i <= 20; i++) {
		feed(&rate, 1, 20, i % 5 ? 100 : 1000);
	}
	assert_true(factor_at(&rate, 10000, now, 900 * (uint64_t)MS) == 1);
	smd_measured_rate_use(&rate, SHARDS, now + 50 * (uint64_t)MS, 905 * (uint64_t)MS);
	feed(&rate, 20, 20, 1000);
	assert_float_equal(
		factor_at(&rate, 10000, now + 110 * (uint64_t)MS, 910 * (uint64_t)MS), 0.1, 1e-6);
	smd_measured_rate_destroy(&rate);

	rate = start(); /* and later and later, where they stay busy */
	for (unsigned look = 0; look < 8; look++) {
		for (unsigned i = 1; i <= 20; i++) {
			feed(&rate, 1, 20, i % 5 ? 100 : 1000);
		}
		now = rate.next_ns + SMD_SECOND_NS;
		assert_true(factor_at(&rate, 10000, now, now) == 1);
		assert_true(rate.next_ns - now >= pause);
		pause = rate.next_ns - now;
	}
	assert_int_equal(pause, 10 * SMD_SECOND_NS);
	smd_measured_rate_destroy(&rate);
}

/* A program's first result waits for the rank that begins last: slices as one lab saw them, of 64
 * MiB on 1 Gbit/s, by shard. */
static void the_first_result_says_nothing_of_the_link(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	for (unsigned s = 0; s < SHARDS; s++) {
		smd_measured_rate_slice(&rate, s, 258112, 98 * MS);
	}
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned s = 0; s < SHARDS; s++) {
			smd_measured_rate_slice(&rate, s, 774336, 25 * MS);
		}
	}
	assert_float_equal(
		factor_at(&rate, 10000, 2 * SMD_SECOND_NS, 900 * (uint64_t)MS), 0.099, 1e-3);
	assert_true(rate.links_decide);
	smd_measured_rate_destroy(&rate);
}

/* Many processes wait on a host with few processors, and links that are slow for them decide all
 * the same: what these carry is steady. */
static void steady_links_are_believed_beside_them(void **state)
{
	const uint64_t later = 2 * SMD_SECOND_NS;
	const uint64_t waited = 700 * (uint64_t)MS;
	struct smd_measured_rate rate = start();

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		feed(&rate, 1, 20, i % 2 ? 400 : 280);
	}
	assert_float_equal(factor_at(&rate, 10000, later, waited), 0.04, 1e-6);
	assert_true(rate.links_decide);
	smd_measured_rate_applied(&rate, later, waited);
	feed(&rate, 20, 20, 420);
	assert_true(factor_at(&rate, 400, 20 * later, waited) == 1);
	assert_true(rate.links_decide);
	feed(&rate, 20, 20, 4200);
	assert_float_equal(factor_at(&rate, 400, 40 * later, waited), 10.5, 1e-6);
	assert_false(rate.links_decide);
	smd_measured_rate_destroy(&rate);
}

static void pressure_is_read(void **state)
{
	(void)state;
	assert_int_equal(
		smd_pressure_parse("some avg10=99.66 avg60=1.00 avg300=0.17 total=2748598\n"
				   "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
		2748598000);
	assert_int_equal(smd_pressure_parse("full avg10=0.00 total=7\n"), 0);
	assert_int_equal(smd_pressure_parse(""), 0);
}

/* Where the kernel does not count pressure: what tasks have waited for, of a processor. */
static void so_are_delays_of_processors(void **state)
{
	(void)state;
	assert_int_equal(smd_pressure_parse_delays(
				 "version 15\n"
				 "timestamp 4294893384\n"
				 "cpu0 0 0 0 0 0 0 2550702170 175706895 796\n"
				 "domain0 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
				 "cpu1 0 0 0 0 0 0 1550702170 75706895 596\n"
				 "domain0 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"),
		125706895);
	assert_int_equal(smd_pressure_parse_delays("cpu0 0 0 0 0 0 0 7 11 1"), 11);
	assert_int_equal(smd_pressure_parse_delays("cpu0 0 0 0 0\ncpu"), 0); /* cut off */
	assert_int_equal(smd_pressure_parse_delays("version 15\n"), 0);
	assert_int_equal(smd_pressure_parse_delays(""), 0);
}

/* Late ranks, and processors that others have, are in most of what is seen, but not in all. */
static void the_fastest_count(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	feed(&rate, 50, 20, 400);
	feed(&rate, 1, 20, 90000); /* which one alone says nothing */
	feed(&rate, 1, 20, 8000);
	feed(&rate, 50, 20, 500);
	assert_true(factor(&rate, 10000, 0) == 1);
	smd_measured_rate_destroy(&rate);
}

static void it_is_said_anew_after_a_while(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	feed(&rate, 5, 20, 1000);
	assert_float_equal(factor(&rate, 10000, 0), 0.1, 1e-6);
	smd_measured_rate_applied(&rate, SMD_SECOND_NS + SMD_SECOND_NS / 5, 0);
	feed(&rate, 5, 20, 10000); /* ranks were late, and are no more */
	assert_true(factor(&rate, 1000, 9) == 1);
	assert_float_equal(factor(&rate, 1000, 10), 10, 1e-6);
	smd_measured_rate_destroy(&rate);
}

static void one_that_rests_is_waited_for(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		smd_measured_rate_slice(&rate, 0, 100000, 20 * MS);
	}
	assert_true(factor(&rate, 10000, 0) == 1);
	smd_measured_rate_destroy(&rate);
}

/* A reducer on a worker's host has a chunk in each operation where the server has many: what is
 * believed wrongly would stay for five operations. */
static void one_with_little_to_do_is_not(void **state)
{
	const uint32_t weights[SHARDS] = {10000, 3000};
	const uint64_t now = SMD_SECOND_NS + SMD_SECOND_NS / 5;
	struct smd_measured_rate rate = start();

	(void)state;
	smd_measured_rate_slice(&rate, 1, 100000, 80 * MS);
	for (unsigned i = 0; i < 5; i++) {
		assert_false(smd_measured_rate_is_due(&rate, weights, now));
		smd_measured_rate_slice(&rate, 0, 500000, 20 * MS); /* 800 Mbit/s */
	}
	assert_true(smd_measured_rate_is_due(&rate, weights, now));
	assert_true(smd_measured_rate_of(&rate, 1) == 0);
	assert_float_equal(smd_measured_rate_factor(&rate, weights, now, 0), 0.08, 1e-6);
	smd_measured_rate_destroy(&rate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_rate_is_found_in_a_tenth_of_a_second),
		cmocka_unit_test(what_is_about_right_stays),
		cmocka_unit_test(latencies_and_bursts_do_not_count),
		cmocka_unit_test(what_is_short_waits_for_processors),
		cmocka_unit_test(the_fastest_count),
		cmocka_unit_test(nothing_is_said_where_processors_decide),
		cmocka_unit_test(it_is_looked_at_again_soon_where_a_program_begins),
		cmocka_unit_test(the_first_result_says_nothing_of_the_link),
		cmocka_unit_test(steady_links_are_believed_beside_them),
		cmocka_unit_test(pressure_is_read),
		cmocka_unit_test(so_are_delays_of_processors),
		cmocka_unit_test(it_is_said_anew_after_a_while),
		cmocka_unit_test(one_that_rests_is_waited_for),
		cmocka_unit_test(one_with_little_to_do_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
