/* Rates that were found are on trial: they stay, go back, and are doubted (rate_trial.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/rates/tuning_setup.h"
#include "worker/libsummand/tuning.h"

/* Operations of so many ms, in each of which both shards' slices say 1 Gbit/s; whether a table is wanted within `most`. */
static bool wants_within(struct smd_tuning *tuning, uint64_t *now_ns, unsigned ms_each, unsigned most)
{
	const unsigned ms[] = {33, 33}; /* 4 MiB in so long */

	for (unsigned i = 0; i < most; i++) {
		smd_tuning_begin(tuning, BYTES, *now_ns);
		tuning_slices(tuning, 16, ms);
		*now_ns += (uint64_t)ms_each * MS;
		smd_tuning_end(tuning, BYTES, *now_ns);
		if (smd_tuning_want(tuning, *now_ns)) {
			return true;
		}
	}
	return false;
}

/* Operations of so many ms, until other rates are wanted; what else is wanted is done. The seconds
 * until then. */
static double await_rates(struct smd_tuning *tuning, uint64_t *now_ns, unsigned ms_each)
{
	uint64_t began_ns = *now_ns;

	do {
		assert_true(wants_within(tuning, now_ns, ms_each, 10000));
		if (tuning->cause != SMD_TUNING_RATES) {
			smd_tuning_applied(tuning, *now_ns);
		}
	} while (tuning->cause != SMD_TUNING_RATES);
	return (double)(*now_ns - began_ns) / SMD_SECOND_NS;
}

/* Rates of a tenth, which operations seem to gain by because the program's first ones were slow. */
static void find_rates(struct smd_tuning *tuning, uint64_t *now_ns, unsigned ms_each)
{
	tuning_start(tuning, 10000, 10000, 1);
	assert_true(wants_within(tuning, now_ns, ms_each, 5));
	assert_int_equal(tuning->cause, SMD_TUNING_RATES);
	smd_tuning_applied(tuning, *now_ns);
}

static void rates_that_seemed_better_at_first_are_taken_back(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	double waited;

	(void)state;
	find_rates(&tuning, &now, 60);
	waited = await_rates(&tuning, &now, 60);
	assert_true(waited >= 2 && waited < 4);
	assert_in_range(tuning.weights[0], 9800, 10200); /* those of before, */
	assert_int_equal(tuning.scale, 1);               /* with their chunks */
	smd_tuning_applied(&tuning, now);
	waited = await_rates(&tuning, &now, 40); /* and they stay, until the next trial */
	assert_true(waited >= 10 && waited < 12);
	assert_in_range(tuning.weights[0], 900, 1100);
	smd_tuning_destroy(&tuning);
}

/* A trial forgives a quarter and a doubt asks for a tenth, so what lies between wins, and is
 * undone. */
static void what_is_undone_again_and_again_is_tried_ever_later(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	find_rates(&tuning, &now, 50);
	for (unsigned pause = 10; pause <= 80; pause *= 2) {
		double waited;

		await_rates(&tuning, &now, 60); /* it has won, and is doubted */
		assert_in_range(tuning.weights[0], 9700, 10300);
		smd_tuning_applied(&tuning, now);
		waited = await_rates(&tuning, &now, 50);
		assert_true(waited >= pause && waited < pause + 2);
		assert_in_range(tuning.weights[0], 900, 1100);
		smd_tuning_applied(&tuning, now);
	}
	smd_tuning_destroy(&tuning);
}

/* Such as one that a server's drain wants, when the doubt's is in use already. */
static void another_table_that_is_refused_is_not_the_doubts(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	find_rates(&tuning, &now, 60);
	await_rates(&tuning, &now, 60);
	smd_tuning_applied(&tuning, now);
	assert_true(tuning.trial.doubts);
	smd_tuning_refused(&tuning, now);
	assert_true(tuning.trial.doubts);
	smd_tuning_destroy(&tuning);
}

/* It is not needed, and keeps nothing else from having a table. */
static void a_doubt_that_is_refused_waits(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	find_rates(&tuning, &now, 60);
	await_rates(&tuning, &now, 60);
	smd_tuning_refused(&tuning, now);
	assert_true(await_rates(&tuning, &now, 60) >= 4);
	smd_tuning_destroy(&tuning);
}

static void rates_that_are_better_stay_and_are_doubted_ever_later(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	int scale;

	(void)state;
	find_rates(&tuning, &now, 60);
	for (unsigned pause = 2; pause <= 32; pause *= 2) {
		double waited = await_rates(&tuning, &now, 40);

		assert_true(waited >= pause && waited < pause + 3);
		scale = tuning.search.scale;
		smd_tuning_applied(&tuning, now);
		assert_true(wants_within(&tuning, &now, 38, 8)); /* no tenth faster: */
		assert_int_equal(tuning.cause, SMD_TUNING_RATES);
		assert_in_range(tuning.weights[0], 900, 1100);
		smd_tuning_applied(&tuning, now);
		assert_int_equal(tuning.search.scale, scale); /* with what was found for them */
		assert_true(tuning.rate.links_decide);
	}
	smd_tuning_destroy(&tuning);
}

/* Eight of them would take too long. */
static void long_operations_do_not_doubt_rates(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	find_rates(&tuning, &now, 260);
	for (unsigned i = 0; i < 200; i++) {
		if (wants_within(&tuning, &now, 260, 1)) {
			assert_int_not_equal(tuning.cause, SMD_TUNING_RATES);
			smd_tuning_applied(&tuning, now);
		}
	}
	smd_tuning_destroy(&tuning);
}

/* Where messages cost more than bytes, a link that seems slow is no reason for small chunks. */
static void rates_that_make_operations_slower_are_taken_back(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	uint64_t back;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 1);
	assert_true(wants_within(&tuning, &now, 40, 5));
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_in_range(tuning.weights[0], 950, 1050);
	smd_tuning_applied(&tuning, now);
	assert_false(wants_within(&tuning, &now, 70, 7));
	assert_true(wants_within(&tuning, &now, 70, 1));
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_in_range(tuning.weights[0], 9900, 10100);
	assert_int_equal(tuning.scale, 1); /* of chunks, as it was */
	smd_tuning_applied(&tuning, now);
	for (unsigned seconds = 10; seconds <= 20; seconds += 10) { /* the next time it is tried later */
		back = now;
		do {
			assert_true(wants_within(&tuning, &now, 40, 1000));
			if (tuning.cause != SMD_TUNING_RATES) {
				smd_tuning_applied(&tuning, now);
			}
		} while (tuning.cause != SMD_TUNING_RATES);
		assert_in_range((now - back) / SMD_SECOND_NS, seconds, seconds + 1);
		smd_tuning_applied(&tuning, now);
		assert_true(wants_within(&tuning, &now, 70, 8));
		assert_int_equal(tuning.cause, SMD_TUNING_RATES);
		smd_tuning_applied(&tuning, now);
	}
	smd_tuning_destroy(&tuning);
}

/* Long operations are few, and time alone is no verdict. */
static void a_trial_waits_for_operations_that_count(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	assert_true(wants_within(&tuning, &now, 4000, 5));
	smd_tuning_applied(&tuning, now);
	assert_false(wants_within(&tuning, &now, 7000, 2));
	assert_true(wants_within(&tuning, &now, 7000, 1));
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_in_range(tuning.weights[0], 10000, 10000);
	smd_tuning_destroy(&tuning);
}

/* Where they make none slower they stay. */
static void rates_that_cost_nothing_stay(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	assert_true(wants_within(&tuning, &now, 40, 5));
	smd_tuning_applied(&tuning, now);
	assert_true(wants_within(&tuning, &now, 45, 1000)); /* within what times scatter by */
	assert_int_equal(tuning.cause, SMD_TUNING_CHUNKS);
	smd_tuning_destroy(&tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_that_seemed_better_at_first_are_taken_back),
		cmocka_unit_test(what_is_undone_again_and_again_is_tried_ever_later),
		cmocka_unit_test(another_table_that_is_refused_is_not_the_doubts),
		cmocka_unit_test(a_doubt_that_is_refused_waits),
		cmocka_unit_test(rates_that_are_better_stay_and_are_doubted_ever_later),
		cmocka_unit_test(long_operations_do_not_doubt_rates),
		cmocka_unit_test(rates_that_make_operations_slower_are_taken_back),
		cmocka_unit_test(a_trial_waits_for_operations_that_count),
		cmocka_unit_test(rates_that_cost_nothing_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
