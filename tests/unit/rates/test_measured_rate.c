/* Rates that were declared wrongly by a large factor are found soon, others are left as they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/measured_rate.h"

enum { RANKS = 4, SHARDS = 2, MS = 1000000 };

static struct smd_measured_rate start(void)
{
	struct smd_measured_rate rate;

	assert_int_equal(smd_measured_rate_create(&rate, RANKS, SHARDS, SMD_SECOND_NS), 0);
	return rate;
}

/* Slices of so long of both shards, at so many Mbit/s of each one's link. */
static void feed(struct smd_measured_rate *rate, unsigned slices, unsigned chunks, unsigned ms,
	unsigned mbps)
{
	for (unsigned i = 0; i < slices; i++) {
		for (unsigned s = 0; s < SHARDS; s++) {
			smd_measured_rate_slice(rate, s, chunks, (uint64_t)mbps * 125 * ms / RANKS,
				(uint64_t)ms * MS);
		}
	}
}

static double factor(struct smd_measured_rate *rate, unsigned mbps, unsigned seconds)
{
	return smd_measured_rate_factor(rate, mbps, (1 + seconds) * SMD_SECOND_NS);
}

static void a_wrong_rate_is_found_in_a_tenth_of_a_second(void **state)
{
	static const unsigned real[] = {1000, 100000};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct smd_measured_rate rate = start();

		feed(&rate, 4, 8, 20, real[i]);
		assert_true(factor(&rate, 10000, 0) == 1); /* not yet */
		feed(&rate, 1, 8, 20, real[i]);
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

		feed(&rate, 20, 8, 20, real[i]);
		assert_true(factor(&rate, 10000, 0) == 1);
		feed(&rate, 20, 8, 20, 1000); /* which is looked at ten seconds later */
		assert_true(factor(&rate, 10000, 9) == 1);
		assert_float_equal(factor(&rate, 10000, 10), 0.1, 1e-6);
		smd_measured_rate_destroy(&rate);
	}
}

static void latencies_do_not_count(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	feed(&rate, 1000, 1, 1, 100); /* a chunk in each millisecond */
	assert_true(factor(&rate, 10000, 0) == 1);
	feed(&rate, 20, 1, 10, 1000); /* one that takes long is not latency */
	assert_float_equal(factor(&rate, 10000, 0), 0.1, 1e-6);
	smd_measured_rate_destroy(&rate);
}

static void it_is_said_anew_after_a_while(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	feed(&rate, 5, 8, 20, 1000);
	assert_float_equal(factor(&rate, 10000, 0), 0.1, 1e-6);
	smd_measured_rate_applied(&rate, SMD_SECOND_NS);
	feed(&rate, 5, 8, 20, 10000); /* ranks were late, and are no more */
	assert_true(factor(&rate, 1000, 9) == 1);
	assert_float_equal(factor(&rate, 1000, 10), 10, 1e-6);
	smd_measured_rate_destroy(&rate);
}

static void one_that_rests_is_waited_for(void **state)
{
	struct smd_measured_rate rate = start();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		smd_measured_rate_slice(&rate, 0, 8, 1000, 20 * MS);
	}
	assert_true(factor(&rate, 10000, 0) == 1);
	smd_measured_rate_destroy(&rate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_rate_is_found_in_a_tenth_of_a_second),
		cmocka_unit_test(what_is_about_right_stays),
		cmocka_unit_test(latencies_do_not_count),
		cmocka_unit_test(it_is_said_anew_after_a_while),
		cmocka_unit_test(one_that_rests_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
