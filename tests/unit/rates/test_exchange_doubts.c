/*
 * What was won is doubted, later each time, because networks change: then it goes by servers again,
 * and is tried anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/rates/exchange_setup.h"

/* After 2 s, 4 s and so on: six of servers' times, and as many of the trial's, are enough again. */
static void what_was_won_is_doubted_ever_later(void **state)
{
	unsigned changes;

	(void)state;
	network_start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	network_run_until_changed(&network_faster, SMALL);
	changes = network_run(&network_faster, SMALL, 64000); /* 64 s: at 2, 6, 14, 30 and 62 */
	assert_in_range(changes, 8, 10);
	network_run(&network_faster, SMALL, 100);
	assert_int_equal(choice.settled, SMALL);
}

/* Links have become slower, say. */
static void what_is_faster_no_more_goes_back(void **state)
{
	(void)state;
	network_start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	network_run_until_changed(&network_faster, SMALL);
	network_run(&network_faster, SMALL, 100);
	assert_int_equal(choice.settled, SMALL);
	assert_true(network_run_until_changed(&network_slower, SMALL) < 1000); /* 3 ms each */
	network_run(&network_slower, SMALL, 100);
	assert_int_equal(
		choice.settled, SMALL / 2); /* smaller ones will be doubted by themselves */
	assert_int_equal(choice.limit, SMALL / 2);
}

/* Or the larger one would go by servers until both have won a trial. */
static void of_two_sizes_the_larger_is_doubted(void **state)
{
	unsigned large = 0;

	(void)state;
	network_start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	network_run_until_changed(&network_faster, LARGE);
	network_run(&network_faster, LARGE, 20);
	assert_int_equal(choice.settled, LARGE);
	while (choice.limit == LARGE) { /* steps of one large operation and some small ones */
		network_run(&network_faster, SMALL, 7);
		large += network_operate(&network_faster, LARGE);
	}
	assert_int_equal(large, 1);
	assert_int_equal(choice.limit, LARGE / 2); /* small ones are exchanged still */
	for (unsigned i = 0; i < 100; i++) {
		network_run(&network_faster, SMALL, 7);
		network_run(&network_faster, LARGE, 1);
	}
	assert_int_equal(choice.settled, LARGE);
}

/* What comes no more says nothing of what does. */
static void where_the_larger_comes_no_more_the_smaller_is_doubted(void **state)
{
	(void)state;
	network_start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	network_run_until_changed(&network_faster, LARGE);
	network_run(&network_faster, LARGE, 20);
	assert_true(network_run_until_changed(&network_faster, SMALL) < 2100); /* 1 ms each */
	assert_int_equal(choice.limit, SMALL / 2);
}

/* While such come; the others are doubted when none has for a second. */
static void a_doubt_is_of_the_kind_that_has_won(void **state)
{
	(void)state;
	network_start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	network_run(&network_faster, SMALL, 20);
	while (!network_operate(&network_faster, SMALL)) {
		assert_false(network_operate_together(&network_slower, SMALL, 16));
	}
	assert_int_equal(choice.limit, SMALL / 2);
	network_run(&network_faster, SMALL, 20);
	assert_int_equal(choice.settled, SMALL);
	network_run_together(&network_slower, SMALL, 16, 200); /* 48 ms each */
	assert_int_equal(choice.settled, SMALL / 2);
}

/* What the other kind took by servers is from before: it begins again, too. */
static void a_doubt_forgets_the_times_of_both_kinds(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_together(&network_faster, SMALL, 16, 2 + 1);
	network_run_until_changed(&network_faster, SMALL);
	network_run(&network_faster, SMALL, 20);
	assert_int_equal(choice.settled, SMALL);
	assert_true(choice.servers[smd_exchange_kind(SMALL, true)].count > 0);
	choice.doubt_ns = now_ns;
	network_run_until_changed(&network_faster, SMALL);
	assert_int_equal(choice.limit, SMALL / 2);
	assert_int_equal(choice.servers[smd_exchange_kind(SMALL, true)].count, 0);
	assert_int_equal(choice.servers[smd_exchange_kind(SMALL, false)].count, 0);
}

/* A larger size is not won by a doubt about a smaller one that comes meanwhile. */
static void a_doubt_waits_for_a_trial_that_is_wanted(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_faster, SMALL);
	network_run(&network_faster, SMALL, 20);
	for (unsigned i = 0; i < 2 + FIRST; i++) {
		now_ns += 2 * MS;
		network_took(LARGE, false, 2 * MS, now_ns);
	}
	assert_true(smd_exchange_choice_want(&choice, now_ns));
	choice.doubt_ns = now_ns;
	network_took(SMALL, true, MS, now_ns);
	smd_exchange_choice_applied(&choice, now_ns);
	assert_int_equal(choice.limit, LARGE);
	assert_int_equal(choice.settled, SMALL);
}

/* Won alone, and to be doubted by the next operation. */
static void win_and_doubt(uint64_t bytes)
{
	network_start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	network_run(&network_faster, bytes, 20);
	assert_int_equal(choice.settled, bytes);
	now_ns += 3 * SMD_SECOND_NS;
}

/* No table may be had yet, and larger ones go on by servers. */
static void a_doubt_that_waits_stays_one_of_what_has_won(void **state)
{
	(void)state;
	win_and_doubt(SMALL);
	network_took(SMALL, true, MS, now_ns);
	network_took(LARGE, false, 2 * MS, now_ns);
	assert_true(smd_exchange_choice_want(&choice, now_ns));
	assert_int_equal(choice.wanted, SMALL / 2);
}

/* Some were under way when the trial of a larger size was lost. */
static void what_was_lost_is_not_doubted(void **state)
{
	(void)state;
	win_and_doubt(SMALL);
	network_took(LARGE, true, 3 * MS, now_ns);
	assert_false(smd_exchange_choice_want(&choice, now_ns));
	assert_true(network_operate(&network_faster, SMALL));
	assert_int_equal(choice.limit, SMALL / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_won_is_doubted_ever_later),
		cmocka_unit_test(what_is_faster_no_more_goes_back),
		cmocka_unit_test(of_two_sizes_the_larger_is_doubted),
		cmocka_unit_test(where_the_larger_comes_no_more_the_smaller_is_doubted),
		cmocka_unit_test(a_doubt_is_of_the_kind_that_has_won),
		cmocka_unit_test(a_doubt_forgets_the_times_of_both_kinds),
		cmocka_unit_test(a_doubt_waits_for_a_trial_that_is_wanted),
		cmocka_unit_test(a_doubt_that_waits_stays_one_of_what_has_won),
		cmocka_unit_test(what_was_lost_is_not_doubted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
