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
#include "tests/unit/rates/exchange_setup.h"

static void what_is_faster_is_kept_for_good(void **state)
{
	(void)state;
	network_start(true, false);
	assert_int_equal(network_run_until_changed(&network_faster, SMALL), 2 + FIRST);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(choice.limit, SMALL);
	assert_int_equal(choice.settled, 0);
	assert_int_equal(network_run(&network_faster, SMALL, 2 + SMD_EXCHANGE_TIMES), 0);
	assert_false(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(choice.settled, SMALL);
	assert_int_equal(network_run(&network_faster, SMALL, 100000), 0);
}

static void what_is_as_fast_goes_back(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_same, SMALL);
	assert_int_equal(network_run_until_changed(&network_same, SMALL), 2 + SMD_EXCHANGE_TIMES);
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
	network_start(true, false);
	network_run_until_changed(&little, SMALL);
	network_run_until_changed(&little, SMALL);
	assert_int_equal(choice.settled, 0);
	network_start(true, false);
	network_run_until_changed(&enough, SMALL);
	assert_int_equal(network_run(&enough, SMALL, 20), 0);
	assert_int_equal(choice.settled, SMALL);
}

static void what_is_much_slower_goes_back_with_the_third_time(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_slower, SMALL);
	assert_int_equal(network_run_until_changed(&network_slower, SMALL), 2 + 3);
	assert_int_equal(choice.limit, 0);
}

/* One time that is not so long, and all are waited for. */
static void not_all_of_the_first_times_were_long(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_slower, SMALL);
	assert_int_equal(network_run(&network_slower, SMALL, 4), 0);
	assert_int_equal(network_run(&network_faster, SMALL, 1), 0);
	assert_int_equal(network_run_until_changed(&network_slower, SMALL), 3);
}

/* By the clock, between the end of one trial and the next. */
static uint64_t pause_ns(void)
{
	uint64_t lost_ns = now_ns;

	assert_false(smd_exchange_choice_is_on_trial(&choice));
	network_run_until_changed(&network_slower, SMALL);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	return now_ns - lost_ns;
}

static void what_was_lost_is_tried_after_longer_each_time(void **state)
{
	uint64_t seconds = 10;

	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_slower, SMALL);
	network_run_until_changed(&network_slower, SMALL);
	assert_in_range(pause_ns(), 2 * SMD_SECOND_NS, 3 * SMD_SECOND_NS);
	for (unsigned i = 0; i < 9; i++) {
		network_run_until_changed(&network_slower, SMALL);
		assert_in_range(pause_ns(), seconds * SMD_SECOND_NS, (seconds + 1) * SMD_SECOND_NS);
		seconds = seconds < 300 ? 2 * seconds : 600;
	}
}

/* What few times have refused more of them may allow. */
static void another_trial_has_more_times(void **state)
{
	(void)state;
	network_start(true, false);
	assert_int_equal(network_run_until_changed(&network_slower, SMALL), 2 + FIRST);
	network_run_until_changed(&network_slower, SMALL);
	now_ns += 2 * SMD_SECOND_NS;
	assert_int_equal(network_run_until_changed(&network_slower, SMALL), 2 + SMD_EXCHANGE_TIMES);
}

/* A table that is refused does not make the pause longer. */
static void a_trial_is_lost_once(void **state)
{
	uint64_t next_ns;

	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_slower, SMALL);
	network_run_until_changed(&network_slower, SMALL);
	pause_ns();
	while (!smd_exchange_choice_want(&choice, now_ns)) {
		now_ns += 3 * MS;
		network_took(SMALL, true, 3 * MS, now_ns);
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
	network_start(true, false);
	network_run_until_changed(&network_slower, SMALL);
	network_run_until_changed(&network_slower, SMALL);
	network_run_until_changed(&network_slower, SMALL);
	assert_int_equal(network_run(&network_faster, SMALL, 20), 0);
	assert_int_equal(choice.settled, SMALL);
}

static void a_larger_size_is_tried_when_a_smaller_one_has_won(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_faster, SMALL);
	assert_int_equal(network_run(&network_faster, SMALL, 20), 0);
	assert_int_equal(network_run_until_changed(&network_faster, LARGE), 2 + FIRST);
	assert_int_equal(choice.limit, LARGE);
	assert_int_equal(choice.settled, SMALL);
	/* Small ones stay exchanges, and say nothing of the trial. */
	assert_int_equal(network_run(&network_slower, SMALL, 100), 0);
	assert_int_equal(network_run_until_changed(&network_slower, LARGE), 2 + 3);
	assert_int_equal(choice.limit, SMALL);
	assert_int_equal(choice.settled, SMALL);
}

/* A size of its own is not tried where a larger one has won. */
static void what_has_won_holds_for_smaller_ones(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_faster, LARGE);
	assert_int_equal(network_run(&network_faster, LARGE, 20), 0);
	assert_int_equal(choice.settled, LARGE);
	assert_int_equal(network_run(&network_slower, SMALL, 1000), 0);
	assert_int_equal(choice.settled, LARGE);
}

/* Ranks agree on a table while operations go on. */
static void the_trial_is_of_the_size_that_was_wanted(void **state)
{
	(void)state;
	network_start(true, false);
	for (unsigned i = 0; i < 2 + FIRST; i++) {
		now_ns += 2 * MS;
		network_took(LARGE, false, 2 * MS, now_ns);
	}
	assert_true(smd_exchange_choice_want(&choice, now_ns));
	network_took(SMALL, false, MS, now_ns);
	smd_exchange_choice_applied(&choice, now_ns);
	assert_int_equal(choice.limit, LARGE);
	assert_int_equal(network_run(&network_faster, SMALL, 100), 0);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(network_run(&network_faster, LARGE, 2 + SMD_EXCHANGE_TIMES), 0);
	assert_int_equal(choice.settled, LARGE);
}

static void of_two_sizes_in_turns_each_is_tried(void **state)
{
	unsigned changes = 0;

	(void)state;
	network_start(true, false);
	for (unsigned i = 0; i < 100; i++) {
		changes += network_operate(&network_faster, SMALL);
		changes += network_operate(&network_faster, LARGE);
	}
	assert_int_equal(choice.settled, LARGE);
	assert_in_range(changes, 1, 2);
	network_start(true, false);
	changes = 0;
	for (unsigned i = 0; i < 100; i++) {
		changes += network_operate(&network_faster, SMALL);
		changes += network_operate(&network_slower, LARGE);
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
	network_start(true, false);
	assert_int_equal(network_run_until_changed(&shorter, SMALL), 2 + 10 * FIRST);
	assert_int_equal(network_run(&shorter, SMALL, 2 + 20 * SMD_EXCHANGE_TIMES - 1), 0);
	assert_true(smd_exchange_choice_is_on_trial(&choice));
	assert_int_equal(network_run(&shorter, SMALL, 1), 0);
	assert_int_equal(choice.settled, SMALL);
}

/* 16 together take less time each than one alone, which must not pass for what exchanges gain. */
static void times_together_are_not_compared_with_times_alone(void **state)
{
	const struct network together = {MS, MS};

	(void)state;
	network_start(true, false);
	for (unsigned i = 0; i < 100; i++) {
		network_run(&network_same, SMALL, 8);
		network_run_together(&together, SMALL, 16, 8);
		assert_int_equal(choice.settled, 0);
	}
	assert_true(choice.tried[smd_exchange_kind(SMALL, false)]);
	assert_true(choice.tried[smd_exchange_kind(SMALL, true)]);
}

/* When that comes no more. */
static void what_one_kind_has_lost_another_may_win(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_together(&network_slower, SMALL, 16, 20);
	now_ns += SMD_SECOND_NS;
	network_run(&network_faster, SMALL, 20);
	assert_int_equal(choice.settled, SMALL);
	network_start(true, false);
	network_run(&network_slower, SMALL, 20);
	now_ns += SMD_SECOND_NS;
	network_run_together(&network_faster, SMALL, 16, 20);
	assert_int_equal(choice.settled, SMALL);
}

/* It may be of more operations than a trial waits for in vain. */
/* One limit holds for both: bursts that would gain a tenth do not make all other operations three
 * times as slow. */
static void what_wins_makes_nothing_else_much_slower(void **state)
{
	const struct network alone = {2 * MS, 6 * MS};
	const struct network together = {1000 * US, 900 * US};

	(void)state;
	network_start(true, false);
	for (unsigned step = 0; step < 4000; step++) {
		network_run(&alone, SMALL, 20);
		network_run_together(&together, SMALL, 16, 1);
		assert_int_equal(choice.settled, 0);
	}
	/* Where nothing comes alone any more it is for those together to say. */
	network_run_together(&together, SMALL, 16, 60000);
	assert_int_equal(choice.settled, SMALL);
}

/* So fast as exchanges that the next one finds none in flight. */
static void exchanges_that_overlap_no_more_win_by_their_times_alone(void **state)
{
	const struct network network = {2 * MS, 1 * MS};

	(void)state;
	network_start(true, false);
	for (unsigned i = 0; i < 100 && choice.settled == 0; i++) {
		network_operate_together(&network, SMALL, choice.limit ? 1 : 2);
	}
	assert_int_equal(choice.settled, SMALL);
}

/* Each of 0.3 s: by a pause of 2 s half of the time would be spent so. */
static void what_takes_long_is_tried_less_often(void **state)
{
	const struct network network = {200 * MS, 300 * MS};
	uint64_t began_ns;
	uint64_t lost_ns;

	(void)state;
	network_start(true, false);
	network_run_until_changed(&network, LARGE);
	began_ns = now_ns;
	network_run_until_changed(&network, LARGE);
	lost_ns = now_ns;
	assert_int_equal(choice.settled, 0);
	network_run_until_changed(&network, LARGE);
	assert_true(now_ns - lost_ns >= 10 * (lost_ns - began_ns));
}

static void a_time_together_is_no_miss(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_together(&network_faster, SMALL, 1000, 2 + FIRST + 2 + SMD_EXCHANGE_TIMES);
	assert_int_equal(choice.settled, SMALL);
}

/* Another table: what servers took before it is of no use. */
static void times_are_forgotten(void **state)
{
	(void)state;
	network_start(true, false);
	assert_int_equal(network_run(&network_faster, SMALL, 1 + FIRST), 0);
	smd_exchange_choice_forget(&choice);
	assert_int_equal(network_run_until_changed(&network_faster, SMALL), 2 + FIRST);
}

static void sizes_end_at_16_mib(void **state)
{
	(void)state;
	network_start(true, false);
	assert_int_equal(network_run(&network_faster, (16u << 20) + 1, 1000), 0);
	assert_int_equal(network_run(&network_faster, 0, 1000), 0);
	network_run_until_changed(&network_faster, (8u << 20) + 1);
	assert_int_equal(choice.limit, 16u << 20);
}

static void where_it_is_not_possible_nothing_is_tried(void **state)
{
	(void)state;
	network_start(false, false);
	assert_int_equal(network_run(&network_faster, SMALL, 1000), 0);
	assert_false(smd_exchange_choice_is_due(&choice, now_ns));
}

static void always_is_from_the_first_operation_on(void **state)
{
	(void)state;
	network_start(true, true);
	assert_false(smd_exchange_choice_is_due(&choice, now_ns)); /* nothing has been done */
	assert_true(network_operate(&network_slower, LARGE));
	assert_int_equal(choice.limit, 16u << 20);
	assert_int_equal(choice.settled, 16u << 20);
	assert_int_equal(network_run(&network_slower, LARGE, 1000), 0);
	assert_false(smd_exchange_choice_is_due(&choice, now_ns));
}

/* The ranks' lanes are lost, say. */
static void all_goes_by_servers_again_where_ranks_cannot(void **state)
{
	(void)state;
	network_start(true, false);
	network_run(&network_faster, SMALL, 100);
	assert_int_equal(choice.limit, SMALL);
	smd_exchange_choice_stop(&choice);
	assert_true(network_operate(&network_faster, SMALL));
	assert_int_equal(choice.limit, 0);
	assert_int_equal(network_run(&network_faster, SMALL, 1000), 0);
	network_start(true, true);
	network_run(&network_faster, SMALL, 10);
	smd_exchange_choice_stop(&choice);
	assert_int_equal(network_run(&network_faster, SMALL, 1000), 1);
	assert_int_equal(choice.limit, 0);
}

/* As after a server was drained: the next trial is beside it, and what is lost leaves it. */
static void what_the_table_says_already_is_kept(void **state)
{
	(void)state;
	smd_exchange_choice_begin(&choice, true, false, SMALL);
	choice.doubt_pause_ns = NEVER;
	now_ns = SMD_SECOND_NS;
	assert_int_equal(network_run(&network_slower, SMALL, 1000), 0);
	assert_int_equal(network_run(&network_slower, LARGE, 1000), 2);
	assert_int_equal(choice.limit, SMALL);
}

/* Six times are enough, however long a table has to be waited for. */
static void what_has_won_is_not_lost_by_waiting(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_faster, SMALL);
	for (unsigned i = 0; i < 2 + SMD_EXCHANGE_TIMES; i++) {
		now_ns += 2 * MS;
		network_took(SMALL, true, MS, now_ns);
	}
	for (unsigned i = 0; i < 100; i++) { /* no table may be had yet: large ones go on */
		now_ns += 20 * MS;
		smd_exchange_choice_missed(&choice, 1, now_ns);
	}
	smd_exchange_choice_want(&choice, now_ns);
	assert_int_equal(choice.settled, SMALL);
}

/* Operations that count keep a trial, and what comes between does not end it. */
static void operations_that_count_keep_a_trial(void **state)
{
	(void)state;
	network_start(true, false);
	network_run_until_changed(&network_faster, SMALL);
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned k = 0; k < 40; k++) {
			now_ns += 100 * MS;
			assert_false(smd_exchange_choice_missed(&choice, 1, now_ns));
		}
		now_ns += 2 * MS;
		network_took(SMALL, true, MS, now_ns);
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
		cmocka_unit_test(of_two_sizes_in_turns_each_is_tried),
		cmocka_unit_test(short_operations_make_one_time_together),
		cmocka_unit_test(times_together_are_not_compared_with_times_alone),
		cmocka_unit_test(what_one_kind_has_lost_another_may_win),
		cmocka_unit_test(what_wins_makes_nothing_else_much_slower),
		cmocka_unit_test(exchanges_that_overlap_no_more_win_by_their_times_alone),
		cmocka_unit_test(what_takes_long_is_tried_less_often),
		cmocka_unit_test(a_time_together_is_no_miss),
		cmocka_unit_test(times_are_forgotten),
		cmocka_unit_test(what_has_won_is_not_lost_by_waiting),
		cmocka_unit_test(operations_that_count_keep_a_trial),
		cmocka_unit_test(sizes_end_at_16_mib),
		cmocka_unit_test(where_it_is_not_possible_nothing_is_tried),
		cmocka_unit_test(always_is_from_the_first_operation_on),
		cmocka_unit_test(all_goes_by_servers_again_where_ranks_cannot),
		cmocka_unit_test(what_the_table_says_already_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
