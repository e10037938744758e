/*
 * Operations go from rank to rank where that is found to be faster, in a network that is simulated:
 * an operation takes so long by servers, and so long as an exchange.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/exchange_choice.h"

#define NEVER (1000000 * SMD_SECOND_NS)

#define FIRST 3 /* times by servers, for the first trial of a size */

enum { SMALL = 4096, LARGE = 1 << 20, US = 1000, MS = 1000 * US };

struct network {
	uint64_t servers_ns;
	uint64_t exchange_ns;
};

static struct smd_exchange_choice choice;
static uint64_t now_ns;

static void start(bool possible, bool always)
{
	smd_exchange_choice_begin(&choice, possible, always, 0);
	choice.doubt_pause_ns = NEVER; /* but where that is what is tested */
	now_ns = SMD_SECOND_NS;
}

/* One operation; whether the limit has changed after it. */
static bool operate(const struct network *network, uint64_t bytes)
{
	bool exchanged = bytes <= choice.limit;
	uint64_t ns = exchanged ? network->exchange_ns : network->servers_ns;

	now_ns += ns;
	smd_exchange_choice_took(&choice, bytes, exchanged, ns, now_ns);
	if (smd_exchange_choice_want(&choice, now_ns)) {
		smd_exchange_choice_applied(&choice);
		return true;
	}
	return false;
}

/* How often it has changed in so many operations. */
static unsigned run(const struct network *network, uint64_t bytes, unsigned operations)
{
	unsigned changes = 0;

	for (unsigned i = 0; i < operations; i++) {
		changes += operate(network, bytes);
	}
	return changes;
}

/* Operations until it changes. */
static unsigned run_until_changed(const struct network *network, uint64_t bytes)
{
	unsigned operations = 1;

	while (!operate(network, bytes)) {
		operations++;
		assert_in_range(operations, 1, 1000000);
	}
	return operations;
}

static const struct network faster = {2 * MS, 1 * MS};
static const struct network same = {2 * MS, 2 * MS};
static const struct network slower = {2 * MS, 3 * MS};

static void what_is_faster_is_kept_for_good(void **state)
{
	(void)state;
	start(true, false);
	assert_int_equal(run_until_changed(&faster, SMALL), 2 + FIRST);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(choice.limit, SMALL);
	assert_int_equal(choice.settled, 0);
	assert_int_equal(run(&faster, SMALL, 2 + SMD_EXCHANGE_TIMES), 0);
	assert_false(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(choice.settled, SMALL);
	assert_int_equal(run(&faster, SMALL, 100000), 0);
}

static void what_is_as_fast_goes_back(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&same, SMALL);
	assert_int_equal(run_until_changed(&same, SMALL), 2 + SMD_EXCHANGE_TIMES);
	assert_int_equal(choice.limit, 0);
	assert_int_equal(choice.settled, 0);
	assert_false(smd_exchange_choice_is_on_trial(&choice));
}

/* 3 % less are asked for. */
static void a_little_faster_is_not_enough(void **state)
{
	const struct network little = {1000 * MS, 975 * MS};
	const struct network enough = {1000 * MS, 969 * MS};

	(void)state;
	start(true, false);
	run_until_changed(&little, SMALL);
	run_until_changed(&little, SMALL);
	assert_int_equal(choice.settled, 0);
	start(true, false);
	run_until_changed(&enough, SMALL);
	assert_int_equal(run(&enough, SMALL, 20), 0);
	assert_int_equal(choice.settled, SMALL);
}

static void what_is_much_slower_goes_back_with_the_third_time(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&slower, SMALL);
	assert_int_equal(run_until_changed(&slower, SMALL), 2 + 3);
	assert_int_equal(choice.limit, 0);
}

/* One time that is not so long, and all are waited for. */
static void not_all_of_the_first_times_were_long(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&slower, SMALL);
	assert_int_equal(run(&slower, SMALL, 4), 0);
	assert_int_equal(run(&faster, SMALL, 1), 0);
	assert_int_equal(run_until_changed(&slower, SMALL), 3);
}

/* By the clock, between the end of one trial and the next. */
static uint64_t pause_ns(void)
{
	uint64_t lost_ns = now_ns;

	assert_false(smd_exchange_choice_is_on_trial(&choice));
	run_until_changed(&slower, SMALL);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	return now_ns - lost_ns;
}

static void what_was_lost_is_tried_after_longer_each_time(void **state)
{
	uint64_t seconds = 10;

	(void)state;
	start(true, false);
	run_until_changed(&slower, SMALL);
	run_until_changed(&slower, SMALL);
	assert_in_range(pause_ns(), 2 * SMD_SECOND_NS, 3 * SMD_SECOND_NS);
	for (unsigned i = 0; i < 9; i++) {
		run_until_changed(&slower, SMALL);
		assert_in_range(pause_ns(), seconds * SMD_SECOND_NS, (seconds + 1) * SMD_SECOND_NS);
		seconds = seconds < 300 ? 2 * seconds : 600;
	}
}

/* What few times have refused more of them may allow. */
static void another_trial_has_more_times(void **state)
{
	(void)state;
	start(true, false);
	assert_int_equal(run_until_changed(&slower, SMALL), 2 + FIRST);
	run_until_changed(&slower, SMALL);
	now_ns += 2 * SMD_SECOND_NS;
	assert_int_equal(run_until_changed(&slower, SMALL), 2 + SMD_EXCHANGE_TIMES);
}

/* A table that is refused does not make the pause longer. */
static void a_trial_is_lost_once(void **state)
{
	uint64_t next_ns;

	(void)state;
	start(true, false);
	run_until_changed(&slower, SMALL);
	run_until_changed(&slower, SMALL);
	pause_ns();
	while (!smd_exchange_choice_want(&choice, now_ns)) {
		now_ns += 3 * MS;
		smd_exchange_choice_took(&choice, SMALL, true, 3 * MS, now_ns);
	}
	next_ns = choice.next_ns[12];
	assert_true(next_ns > now_ns);
	assert_true(smd_exchange_choice_want(&choice, now_ns + MS));
	assert_int_equal(choice.next_ns[12], next_ns);
	assert_int_equal(choice.wanted, 0);
}

/* Where it is faster by then it is kept. */
static void another_time_it_may_win(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&slower, SMALL);
	run_until_changed(&slower, SMALL);
	run_until_changed(&slower, SMALL);
	assert_int_equal(run(&faster, SMALL, 20), 0);
	assert_int_equal(choice.settled, SMALL);
}

static void a_larger_size_is_tried_when_a_smaller_one_has_won(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&faster, SMALL);
	assert_int_equal(run(&faster, SMALL, 20), 0);
	assert_int_equal(run_until_changed(&faster, LARGE), 2 + FIRST);
	assert_int_equal(choice.limit, LARGE);
	assert_int_equal(choice.settled, SMALL);
	/* Small ones stay exchanges, and say nothing of the trial. */
	assert_int_equal(run(&slower, SMALL, 100), 0);
	assert_int_equal(run_until_changed(&slower, LARGE), 2 + 3);
	assert_int_equal(choice.limit, SMALL);
	assert_int_equal(choice.settled, SMALL);
}

/* A size of its own is not tried where a larger one has won. */
static void what_has_won_holds_for_smaller_ones(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&faster, LARGE);
	assert_int_equal(run(&faster, LARGE, 20), 0);
	assert_int_equal(choice.settled, LARGE);
	assert_int_equal(run(&slower, SMALL, 1000), 0);
	assert_int_equal(choice.settled, LARGE);
}

/* Ranks agree on a table while operations go on. */
static void the_trial_is_of_the_size_that_was_wanted(void **state)
{
	(void)state;
	start(true, false);
	for (unsigned i = 0; i < 2 + FIRST; i++) {
		now_ns += 2 * MS;
		smd_exchange_choice_took(&choice, LARGE, false, 2 * MS, now_ns);
	}
	assert_true(smd_exchange_choice_want(&choice, now_ns));
	smd_exchange_choice_took(&choice, SMALL, false, MS, now_ns);
	smd_exchange_choice_applied(&choice);
	assert_int_equal(choice.limit, LARGE);
	assert_int_equal(run(&faster, SMALL, 100), 0);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(run(&faster, LARGE, 2 + SMD_EXCHANGE_TIMES), 0);
	assert_int_equal(choice.settled, LARGE);
}

/* Nor is a larger size won by a doubt about a smaller one that comes meanwhile. */
static void a_doubt_waits_for_a_trial_that_is_wanted(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&faster, SMALL);
	run(&faster, SMALL, 20);
	for (unsigned i = 0; i < 2 + FIRST; i++) {
		now_ns += 2 * MS;
		smd_exchange_choice_took(&choice, LARGE, false, 2 * MS, now_ns);
	}
	assert_true(smd_exchange_choice_want(&choice, now_ns));
	choice.doubt_ns = now_ns;
	smd_exchange_choice_took(&choice, SMALL, true, MS, now_ns);
	smd_exchange_choice_applied(&choice);
	assert_int_equal(choice.limit, LARGE);
	assert_int_equal(choice.settled, SMALL);
}

static void of_two_sizes_in_turns_each_is_tried(void **state)
{
	unsigned changes = 0;

	(void)state;
	start(true, false);
	for (unsigned i = 0; i < 100; i++) {
		changes += operate(&faster, SMALL);
		changes += operate(&faster, LARGE);
	}
	assert_int_equal(choice.settled, LARGE);
	assert_in_range(changes, 1, 2);
	start(true, false);
	changes = 0;
	for (unsigned i = 0; i < 100; i++) {
		changes += operate(&faster, SMALL);
		changes += operate(&slower, LARGE);
	}
	assert_int_equal(choice.settled, SMALL);
	assert_int_equal(choice.limit, SMALL);
	assert_in_range(changes, 3, 3); /* the larger one's trial, its end, and the smaller one's */
}

/* Short operations are taken together until they have taken 1 ms. */
static void short_operations_make_one_time_together(void **state)
{
	const struct network shorter = {100 * US, 50 * US};

	(void)state;
	start(true, false);
	assert_int_equal(run_until_changed(&shorter, SMALL), 2 + 10 * FIRST);
	assert_int_equal(run(&shorter, SMALL, 2 + 20 * SMD_EXCHANGE_TIMES - 1), 0);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(run(&shorter, SMALL, 1), 0);
	assert_int_equal(choice.settled, SMALL);
}

/* Another table: what servers took before it is of no use. */
static void times_are_forgotten(void **state)
{
	(void)state;
	start(true, false);
	assert_int_equal(run(&faster, SMALL, 1 + FIRST), 0);
	smd_exchange_choice_forget(&choice);
	assert_int_equal(run_until_changed(&faster, SMALL), 2 + FIRST);
}

static void sizes_end_at_16_mib(void **state)
{
	(void)state;
	start(true, false);
	assert_int_equal(run(&faster, (16u << 20) + 1, 1000), 0);
	assert_int_equal(run(&faster, 0, 1000), 0);
	run_until_changed(&faster, (8u << 20) + 1);
	assert_int_equal(choice.limit, 16u << 20);
}

static void where_it_is_not_possible_nothing_is_tried(void **state)
{
	(void)state;
	start(false, false);
	assert_int_equal(run(&faster, SMALL, 1000), 0);
	assert_false(smd_exchange_choice_is_due(&choice, now_ns));
}

static void always_is_from_the_first_operation_on(void **state)
{
	(void)state;
	start(true, true);
	assert_false(smd_exchange_choice_is_due(&choice, now_ns)); /* nothing has been done */
	assert_true(operate(&slower, LARGE));
	assert_int_equal(choice.limit, 16u << 20);
	assert_int_equal(choice.settled, 16u << 20);
	assert_int_equal(run(&slower, LARGE, 1000), 0);
	assert_false(smd_exchange_choice_is_due(&choice, now_ns));
}

/* The ranks' lanes are lost, say. */
static void all_goes_by_servers_again_where_ranks_cannot(void **state)
{
	(void)state;
	start(true, false);
	run(&faster, SMALL, 100);
	assert_int_equal(choice.limit, SMALL);
	smd_exchange_choice_stop(&choice);
	assert_true(operate(&faster, SMALL));
	assert_int_equal(choice.limit, 0);
	assert_int_equal(run(&faster, SMALL, 1000), 0);
	start(true, true);
	run(&faster, SMALL, 10);
	smd_exchange_choice_stop(&choice);
	assert_int_equal(run(&faster, SMALL, 1000), 1);
	assert_int_equal(choice.limit, 0);
}

/* As after a server was drained: the next trial is beside it, and what is lost leaves it. */
static void what_the_table_says_already_is_kept(void **state)
{
	(void)state;
	smd_exchange_choice_begin(&choice, true, false, SMALL);
	choice.doubt_pause_ns = NEVER;
	now_ns = SMD_SECOND_NS;
	assert_int_equal(run(&slower, SMALL, 1000), 0);
	assert_int_equal(run(&slower, LARGE, 1000), 2);
	assert_int_equal(choice.limit, SMALL);
}

/* After 2 s, 4 s and so on: six of servers' times, and as many of the trial's, are enough again. */
static void what_was_won_is_doubted_ever_later(void **state)
{
	unsigned changes;

	(void)state;
	start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	run_until_changed(&faster, SMALL);
	changes = run(&faster, SMALL, 64000); /* 64 s: at 2, 6, 14, 30 and 62 */
	assert_in_range(changes, 8, 10);
	run(&faster, SMALL, 100);
	assert_int_equal(choice.settled, SMALL);
}

/* Or the larger one would go by servers until both have won a trial. */
static void of_two_sizes_the_larger_is_doubted(void **state)
{
	unsigned large = 0;

	(void)state;
	start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	run_until_changed(&faster, LARGE);
	run(&faster, LARGE, 20);
	assert_int_equal(choice.settled, LARGE);
	while (choice.limit == LARGE) { /* steps of one large operation and some small ones */
		run(&faster, SMALL, 7);
		large += operate(&faster, LARGE);
	}
	assert_int_equal(large, 1);
	assert_int_equal(choice.limit, LARGE / 2); /* small ones are exchanged still */
	for (unsigned i = 0; i < 100; i++) {
		run(&faster, SMALL, 7);
		run(&faster, LARGE, 1);
	}
	assert_int_equal(choice.settled, LARGE);
}

/* What comes no more says nothing of what does. */
static void where_the_larger_comes_no_more_the_smaller_is_doubted(void **state)
{
	(void)state;
	start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	run_until_changed(&faster, LARGE);
	run(&faster, LARGE, 20);
	assert_true(run_until_changed(&faster, SMALL) < 2100); /* 1 ms each */
	assert_int_equal(choice.limit, SMALL / 2);
}

/* Links have become slower, say. */
static void what_is_faster_no_more_goes_back(void **state)
{
	(void)state;
	start(true, false);
	choice.doubt_pause_ns = 2 * SMD_SECOND_NS;
	run_until_changed(&faster, SMALL);
	run(&faster, SMALL, 100);
	assert_int_equal(choice.settled, SMALL);
	assert_true(run_until_changed(&slower, SMALL) < 1000); /* 3 ms each */
	run(&slower, SMALL, 100);
	assert_int_equal(
		choice.settled, SMALL / 2); /* smaller ones will be doubted by themselves */
	assert_int_equal(choice.limit, SMALL / 2);
}

/* Six times are enough, however long a table has to be waited for. */
static void what_has_won_is_not_lost_by_waiting(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&faster, SMALL);
	for (unsigned i = 0; i < 2 + SMD_EXCHANGE_TIMES; i++) {
		now_ns += 2 * MS;
		smd_exchange_choice_took(&choice, SMALL, true, MS, now_ns);
	}
	for (unsigned i = 0; i < 100; i++) { /* no table may be had yet: large ones go on */
		now_ns += 20 * MS;
		smd_exchange_choice_missed(&choice, now_ns);
	}
	smd_exchange_choice_want(&choice, now_ns);
	assert_int_equal(choice.settled, SMALL);
}

/* Operations that count keep a trial, and what comes between does not end it. */
static void operations_that_count_keep_a_trial(void **state)
{
	(void)state;
	start(true, false);
	run_until_changed(&faster, SMALL);
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned k = 0; k < 40; k++) {
			now_ns += 100 * MS;
			assert_false(smd_exchange_choice_missed(&choice, now_ns));
		}
		now_ns += 2 * MS;
		smd_exchange_choice_took(&choice, SMALL, true, MS, now_ns);
		assert_false(smd_exchange_choice_want(&choice, now_ns));
	}
	assert_true(smd_exchange_choice_is_on_trial(&choice));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_faster_is_kept_for_good),
		cmocka_unit_test(what_is_as_fast_goes_back),
		cmocka_unit_test(a_little_faster_is_not_enough),
		cmocka_unit_test(what_is_much_slower_goes_back_with_the_third_time),
		cmocka_unit_test(not_all_of_the_first_times_were_long),
		cmocka_unit_test(what_was_lost_is_tried_after_longer_each_time),
		cmocka_unit_test(another_trial_has_more_times),
		cmocka_unit_test(a_trial_is_lost_once),
		cmocka_unit_test(another_time_it_may_win),
		cmocka_unit_test(a_larger_size_is_tried_when_a_smaller_one_has_won),
		cmocka_unit_test(what_has_won_holds_for_smaller_ones),
		cmocka_unit_test(the_trial_is_of_the_size_that_was_wanted),
		cmocka_unit_test(a_doubt_waits_for_a_trial_that_is_wanted),
		cmocka_unit_test(of_two_sizes_in_turns_each_is_tried),
		cmocka_unit_test(short_operations_make_one_time_together),
		cmocka_unit_test(times_are_forgotten),
		cmocka_unit_test(what_has_won_is_not_lost_by_waiting),
		cmocka_unit_test(operations_that_count_keep_a_trial),
		cmocka_unit_test(sizes_end_at_16_mib),
		cmocka_unit_test(where_it_is_not_possible_nothing_is_tried),
		cmocka_unit_test(always_is_from_the_first_operation_on),
		cmocka_unit_test(all_goes_by_servers_again_where_ranks_cannot),
		cmocka_unit_test(what_the_table_says_already_is_kept),
		cmocka_unit_test(what_was_won_is_doubted_ever_later),
		cmocka_unit_test(of_two_sizes_the_larger_is_doubted),
		cmocka_unit_test(where_the_larger_comes_no_more_the_smaller_is_doubted),
		cmocka_unit_test(what_is_faster_no_more_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
