/*
 * Exchanges are tried beside all else that rank 0 tunes: no trial waits for another for ever, or is
 * judged by times of what is no more, and servers get what they need meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/rates/tuning_setup.h"
#include "worker/libsummand/tuning.h"
#include "worker/libsummand/tuning_exchanges.h"

static void start(struct smd_tuning *tuning)
{
	tuning_start(tuning, 10000, 10000, 0);
	smd_exchange_choice_begin(&tuning->exchange, true, false, 0);
}

/* One operation, which is alone, as an exchange or by servers. */
static void operate(
	struct smd_tuning *tuning, uint64_t *now, uint64_t bytes, uint64_t ns, bool exchanged)
{
	smd_tuning_begin(tuning, bytes, *now);
	*now += ns;
	if (exchanged) {
		smd_tuning_exchanged(tuning);
	}
	smd_tuning_end(tuning, bytes, *now);
}

/* Some operations of 2 ms by servers and 1 ms as exchanges, so many at a time: whether another
 * limit of exchanges is wanted after one. */
static bool exchange_is_wanted(struct smd_tuning *tuning, uint64_t *now, unsigned together)
{
	for (unsigned i = 0; i < 5000; i++) {
		bool exchanged = BYTES <= tuning->exchange.limit;

		for (unsigned k = 0; k < together; k++) {
			smd_tuning_begin(tuning, BYTES, *now);
		}
		*now += exchanged ? MS : 2 * MS;
		for (unsigned k = 0; k < together; k++) {
			if (exchanged) {
				smd_tuning_exchanged(tuning);
			}
			smd_tuning_end(tuning, BYTES, *now);
		}
		if (smd_tuning_want(tuning, *now)) {
			if (tuning->cause == SMD_TUNING_EXCHANGES) {
				return true;
			}
			smd_tuning_refused(tuning, *now);
		}
	}
	return false;
}

static void operations_alone_say_who_should_do_them(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	uint64_t usual;

	(void)state;
	start(&tuning);
	tuning.exchange.doubt_pause_ns = 1000000 * SMD_SECOND_NS;
	assert_false(exchange_is_wanted(&tuning, &now, 1)); /* ranks have not met */
	assert_true(smd_exchange_choice_is_due(&tuning.exchange, now));
	tuning.met = true;
	assert_true(exchange_is_wanted(&tuning, &now, 1));
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), BYTES);
	smd_tuning_applied(&tuning, now);
	usual = tuning.usual;
	assert_false(exchange_is_wanted(&tuning, &now, 1));
	assert_int_equal(tuning.exchange.settled, BYTES);
	assert_int_equal(tuning.usual, usual); /* these say nothing of servers */
	/* Tables for another reason have the same. */
	tuning.cause = SMD_TUNING_WEIGHTS;
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), BYTES);
	smd_tuning_destroy(&tuning);
}

/* A program that awaits all that it has begun: each time is of all of them. */
static void so_do_operations_together(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	start(&tuning);
	tuning.exchange.doubt_pause_ns = 1000000 * SMD_SECOND_NS;
	tuning.met = true;
	assert_true(exchange_is_wanted(&tuning, &now, 16));
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), BYTES);
	smd_tuning_applied(&tuning, now);
	assert_false(exchange_is_wanted(&tuning, &now, 16));
	assert_int_equal(tuning.exchange.settled, BYTES);
	smd_tuning_destroy(&tuning);
}

/* Operations of these sizes in turns, of which each begins when the one four before it has ended, 2
 * ms by servers and 1 ms as exchanges, which all are or two of three: what is settled after many.
 */
static uint32_t settled_after_rolling(const uint64_t sizes[2], bool all)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool exchanged[4];
	uint32_t settled;

	start(&tuning);
	tuning.exchange.doubt_pause_ns = 1000000 * SMD_SECOND_NS;
	tuning.met = true;
	for (unsigned i = 0; i < 10000; i++) {
		if (i >= 4) {
			now += exchanged[i % 4] ? MS : 2 * MS;
			if (exchanged[i % 4]) {
				smd_tuning_exchanged(&tuning);
			}
			smd_tuning_end(&tuning, sizes[i % 2], now);
		}
		if (smd_tuning_want(&tuning, now) && tuning.cause == SMD_TUNING_EXCHANGES) {
			smd_tuning_applied(&tuning, now);
		}
		exchanged[i % 4] = sizes[i % 2] <= tuning.exchange.limit && (all || i % 3);
		smd_tuning_begin(&tuning, sizes[i % 2], now);
	}
	settled = tuning.exchange.settled;
	smd_tuning_destroy(&tuning);
	return settled;
}

/* Where something is always in flight spans are as good. But what is of several sizes, or goes both
 * ways, says nothing. */
static void all_of_a_span_are_of_one_kind(void **state)
{
	const uint64_t same[] = {BYTES, BYTES};
	const uint64_t nearly[] = {BYTES, BYTES / 2 + 4};
	const uint64_t mixed[] = {BYTES, BYTES / 2};

	(void)state;
	assert_int_equal(settled_after_rolling(same, true), BYTES);
	assert_int_equal(settled_after_rolling(nearly, true), BYTES);
	assert_int_equal(settled_after_rolling(mixed, true), 0);
	assert_int_equal(settled_after_rolling(same, false), 0);
}

/* Broadcasts, or segments of what is larger. */
static void what_is_never_an_exchange_is_not_tried(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	start(&tuning);
	for (unsigned i = 0; i < 100; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
		smd_tuning_serves(&tuning);
		now += 2 * MS;
		smd_tuning_end(&tuning, BYTES, now);
	}
	assert_false(smd_exchange_choice_is_due(&tuning.exchange, now));
	smd_tuning_destroy(&tuning);
}

/* All links bring servers their bytes at once. Who sums for the others is slower, and need not be
 * tried. */
static void where_links_decide_servers_do_what_takes_long(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	start(&tuning);
	tuning.met = true;
	tuning.rate.links_decide = true;
	assert_false(exchange_is_wanted(&tuning, &now, 1));
	assert_false(smd_exchange_choice_is_due(&tuning.exchange, now));
	assert_false(exchange_is_wanted(&tuning, &now, 16));
	tuning.rate.links_decide = false;
	assert_true(exchange_is_wanted(&tuning, &now, 1));
	smd_tuning_destroy(&tuning);
}

/* By servers until a trial is on, which ranks have met for. */
static void begin_exchange_trial(struct smd_tuning *tuning, uint64_t *now)
{
	start(tuning);
	tuning->met = true;
	assert_true(exchange_is_wanted(tuning, now, 1));
	smd_tuning_applied(tuning, *now);
	assert_true(smd_exchange_choice_is_on_trial(&tuning->exchange));
}

/* Small operations take 0.1 ms each where the links would need more for 16 of them. */
static void where_links_decide_so_they_do_for_what_is_together(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	const uint64_t small = 64 << 10; /* 52 us of 20 Gbit/s */

	(void)state;
	for (unsigned together = 1; together <= 16; together += 15) {
		start(&tuning);
		tuning.rate.links_decide = true;
		for (unsigned i = 0; i < 1000; i++) {
			for (unsigned k = 0; k < together; k++) {
				smd_tuning_begin(&tuning, small, now);
			}
			for (unsigned k = 0; k < together; k++) {
				now += MS / 10;
				smd_tuning_end(&tuning, small, now);
			}
		}
		assert_int_equal(smd_exchange_choice_is_due(&tuning.exchange, now), together == 1);
		smd_tuning_destroy(&tuning);
	}
}

/* Five slices of each shard, all of 40 ms: 1.7 Gbit/s together, where 20 are believed. */
static void slices_of_a_slow_link(struct smd_tuning *tuning)
{
	const unsigned ms[] = {40, 40};

	for (unsigned i = 0; i < 5; i++) {
		tuning_slices(tuning, 16, ms);
	}
}

/* What exchanges are compared with were operations in chunks of another rate. On a link of 1 Gbit/s
 * that declared 10 a trial went on beside the rate's, which waited for operations by servers: none
 * came, so for a minute nobody said that exchanges were slower by a half. */
static void rates_end_exchanges_that_are_slower(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool wanted = false;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	smd_exchange_choice_settle(&tuning.exchange, BYTES);
	slices_of_a_slow_link(&tuning);
	for (unsigned i = 0; i < 20 && !wanted; i++) {
		operate(&tuning, &now, BYTES, MS, true);
		wanted = smd_tuning_want(&tuning, now);
	}
	assert_true(wanted);
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), 8 << 10); /* 0.25 ms of 1.7 Gbit/s */
	smd_tuning_applied(&tuning, now);
	assert_int_equal(tuning.exchange.limit, 8 << 10);
	assert_false(smd_exchange_choice_is_on_trial(&tuning.exchange));
	smd_tuning_destroy(&tuning);
}

/* Whether operations of 12 ms by servers that declare so much lead to rates or to exchanges. */
static enum smd_tuning_cause first_cause(uint32_t mbps)
{
	const unsigned ms[] = {12, 12};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool wanted = false;

	tuning_start(&tuning, mbps, mbps, 0);
	smd_exchange_choice_begin(&tuning.exchange, true, false, 0);
	tuning.met = true;
	for (unsigned i = 0; i < 30 && !wanted; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
		now += (uint64_t)ms[0] * MS;
		tuning_slices(&tuning, 1, ms);
		smd_tuning_end(&tuning, BYTES, now);
		wanted = smd_tuning_want(&tuning, now);
	}
	assert_true(wanted);
	smd_tuning_destroy(&tuning);
	return tuning.cause;
}

/* Operations that take far longer than links that carry what they declare show that these do not,
 * before a trial could say something right. Others do not wait. */
static void exchanges_wait_for_rates_that_are_coming(void **state)
{
	(void)state;
	assert_int_equal(first_cause(30000), SMD_TUNING_RATES);
	assert_int_equal(first_cause(3000), SMD_TUNING_EXCHANGES);
}

/* A program that does something else leaves nothing on trial, and nothing waits for that. */
static void a_trial_without_operations_ends(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	assert_true(exchange_is_wanted(&tuning, &now, 2));
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), 0);
	smd_tuning_applied(&tuning, now);
	assert_false(smd_exchange_choice_is_on_trial(&tuning.exchange));
	smd_tuning_destroy(&tuning);
}

/* Or else the trial of chunks would wait for operations by servers, and these for it. */
static void what_was_won_is_doubted_beside_other_trials(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	tuning.exchange.settled = tuning.exchange.limit;
	tuning.exchange.doubt_ns = now + 1;
	tuning.search.wanted = 1;
	smd_chunk_search_applied(&tuning.search);
	assert_true(smd_chunk_search_is_on_trial(&tuning.search));
	assert_true(exchange_is_wanted(&tuning, &now, 1));
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), BYTES / 2);
	smd_tuning_destroy(&tuning);
}

/* Words go round while operations begin, and each asks whether ranks should meet. */
static void what_is_asked_for_stays_while_ranks_agree(void **state)
{
	const struct smd_tuning_shard shards[] = {
		{0, 30000, true, 0, false}, {1, 0, true, 0, false}, {2, 30000, true, 0, false}};
	const unsigned ms[] = {12, 12};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool wanted = false;
	uint32_t asked[3];

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, 4, shards, 3, 0, now), 0);
	smd_exchange_choice_begin(&tuning.exchange, true, false, 0);
	for (unsigned i = 0; i < 30 && !wanted; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
		now += (uint64_t)ms[0] * MS;
		tuning_slices(&tuning, 1, ms);
		smd_tuning_end(&tuning, BYTES, now);
		(void)smd_tuning_should_meet(&tuning, now);
		wanted = smd_tuning_want(&tuning, now);
	}
	assert_true(wanted);
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	memcpy(asked, tuning.weights, sizeof(asked));
	(void)smd_tuning_should_meet(&tuning, now); /* the next operation begins */
	smd_tuning_applied(&tuning, now);
	for (unsigned s = 0; s < 3; s++) {
		assert_int_equal(tuning.shards[s].weight, asked[s]);
	}
	assert_int_equal(tuning.balance.nshards, 2);
	smd_tuning_destroy(&tuning);
}

/* Whether ranks should meet when so many operations of so long have ended. */
static bool should_meet_after(unsigned operations, uint64_t each_ns)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool should;

	start(&tuning);
	for (unsigned i = 0; i < operations; i++) {
		operate(&tuning, &now, BYTES, each_ns, false);
	}
	should = smd_tuning_should_meet(&tuning, now);
	smd_tuning_destroy(&tuning);
	return should;
}

/* Two say nothing; then one of 1 ms at least is a time, and three are enough for a trial. */
static void ranks_meet_while_operations_are_timed(void **state)
{
	(void)state;
	assert_false(should_meet_after(2, MS));
	assert_true(should_meet_after(3, MS));
	assert_false(should_meet_after(2 + 29, MS / 10)); /* short ones leave time enough */
	assert_true(should_meet_after(2 + 30, MS / 10));
	assert_false(should_meet_after(4, 6 * MS)); /* of long ones rates may be found */
	assert_true(should_meet_after(5, 6 * MS));
}

/* Trials of exchanges leave tables for what servers need. */
static void tables_are_left_for_servers(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	start(&tuning);
	tuning.met = true;
	tuning.search.next_ns = UINT64_MAX;
	tuning.tables = 7;
	for (unsigned i = 0; i < 100; i++) {
		tuning.tables_ns = now;
		operate(&tuning, &now, BYTES, 2 * MS, false);
		assert_false(smd_tuning_want(&tuning, now));
	}
	tuning.tables = 8;
	tuning.fresh = true;
	assert_true(smd_tuning_want(&tuning, now));
	assert_int_equal(tuning.cause, SMD_TUNING_EXCHANGES);
	smd_tuning_destroy(&tuning);
}

/* One small operation and five large ones in turns: the trial of the small size goes on, and rates
 * that are ten times off are found all the same. */
static void rates_are_found_between_operations_of_a_trial(void **state)
{
	const unsigned ms[] = {280, 280};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	unsigned operations = 0;
	bool wanted = false;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	while (operations < 100 && !wanted) {
		bool small = operations++ % 6 == 0;
		uint64_t bytes = small ? BYTES : 16 * BYTES;

		smd_tuning_begin(&tuning, bytes, now);
		now += small ? MS / 10 : (uint64_t)ms[0] * MS;
		if (small) {
			smd_tuning_exchanged(&tuning);
		} else {
			tuning_slices(&tuning, 16, ms);
		}
		smd_tuning_end(&tuning, bytes, now);
		wanted = smd_tuning_want(&tuning, now);
	}
	assert_true(wanted);
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_in_range(operations, 1, 20);
	smd_tuning_destroy(&tuning);
}

/* What servers get ends a trial that gets no operations: it would compare with times of before. */
static void a_table_of_servers_ends_a_trial(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	tuning.cause = SMD_TUNING_WEIGHTS;
	tuning.exchange.wanted = smd_tuning_settle_exchanges(&tuning);
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), 0);
	smd_tuning_applied(&tuning, now);
	assert_int_equal(tuning.exchange.limit, 0);
	assert_false(smd_exchange_choice_is_on_trial(&tuning.exchange));
	smd_tuning_destroy(&tuning);
}

/* Five long slices, and then operations that are long for another reason and have none. */
static void exchanges_do_not_wait_for_rates_that_never_come(void **state)
{
	const unsigned ms[] = {12, 12};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool wanted = false;

	(void)state;
	start(&tuning);
	tuning.met = true;
	for (unsigned i = 0; i < 5; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
		now += (uint64_t)ms[0] * MS;
		tuning_slices(&tuning, 1, ms);
		smd_tuning_end(&tuning, BYTES, now);
	}
	smd_exchange_choice_forget(&tuning.exchange);
	for (unsigned i = 0; i < 100000 && !wanted; i++) {
		operate(&tuning, &now, 4096, 6 * MS, false);
		wanted = smd_tuning_want(&tuning, now);
	}
	assert_true(wanted);
	smd_tuning_destroy(&tuning);
}

/* Nor are rates that are ten times off left for its sake while 64 operations of 0.3 s end. */
static void a_trial_of_a_small_size_does_not_hold_up_rates(void **state)
{
	const unsigned ms[] = {280, 280};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	unsigned operations = 0;
	bool wanted = false;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	while (operations < 1000 && !(wanted && tuning.cause == SMD_TUNING_RATES)) {
		smd_tuning_begin(&tuning, 16 << 20, now);
		now += (uint64_t)ms[0] * MS;
		for (unsigned s = 0; s < 2; s++) {
			smd_tuning_slice(&tuning, s, 16, 8 << 20, (uint64_t)ms[s] * MS);
		}
		smd_tuning_end(&tuning, 16 << 20, now);
		operations++;
		wanted = smd_tuning_want(&tuning, now);
		if (wanted && tuning.cause != SMD_TUNING_RATES) {
			smd_tuning_applied(&tuning, now);
		}
	}
	assert_in_range(operations, 1, 20);
	smd_tuning_destroy(&tuning);
}

/* Large operations have left a trial of chunks open, and none comes any more. What is doubted then
 * is not left to servers for good. */
static void doubt_beside_open_search(int scale, int candidate)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool exchanged = false;

	begin_exchange_trial(&tuning, &now);
	smd_exchange_choice_settle(&tuning.exchange, 4096);
	tuning.exchange.doubt_ns = now + 1;
	smd_tuning_begin(&tuning, BYTES, now); /* times that a trial of chunks waits for */
	now += 2 * MS;
	smd_tuning_end(&tuning, BYTES, now);
	tuning.search.times.sizes[4].settled = 2;
	tuning.search.times.sizes[4].settled_median = 2;
	tuning.search.wanted = scale;
	smd_chunk_search_applied(&tuning.search);
	tuning.search.candidate = candidate;
	for (unsigned i = 0; i < 1000000; i++) {
		exchanged = tuning.exchange.limit >= 4096;
		operate(&tuning, &now, 4096, exchanged ? MS / 2 : MS, exchanged);
		if (smd_tuning_want(&tuning, now)) {
			smd_tuning_applied(&tuning, now);
		}
	}
	assert_true(exchanged);
	smd_tuning_destroy(&tuning);
}

static void what_is_doubted_is_tried_again(void **state)
{
	(void)state;
	doubt_beside_open_search(1, 0);
	doubt_beside_open_search(0, 1); /* or it has won, and is tried once more */
}

/* Ranks that cannot exchange refuse a table that says so. */
static void old_rates_come_back_without_exchanges_that_cannot_be(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	begin_exchange_trial(&tuning, &now);
	smd_exchange_choice_settle(&tuning.exchange, BYTES);
	tuning.before[0] = tuning.before[1] = 10000;
	tuning.trial.factor = 0.1;
	tuning.trial.since_ns = now;
	tuning.trial.seen = 100;
	tuning.trial.before[160] = 1;
	tuning.trial.now[160] = 2;
	smd_exchange_choice_stop(&tuning.exchange);
	tuning.fresh = true;
	assert_true(smd_tuning_want(&tuning, now));
	assert_int_equal(smd_tuning_exchange_bytes(&tuning), 0);
	smd_tuning_destroy(&tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_alone_say_who_should_do_them),
		cmocka_unit_test(so_do_operations_together),
		cmocka_unit_test(all_of_a_span_are_of_one_kind),
		cmocka_unit_test(what_is_never_an_exchange_is_not_tried),
		cmocka_unit_test(where_links_decide_servers_do_what_takes_long),
		cmocka_unit_test(where_links_decide_so_they_do_for_what_is_together),
		cmocka_unit_test(rates_end_exchanges_that_are_slower),
		cmocka_unit_test(exchanges_wait_for_rates_that_are_coming),
		cmocka_unit_test(a_trial_without_operations_ends),
		cmocka_unit_test(what_was_won_is_doubted_beside_other_trials),
		cmocka_unit_test(old_rates_come_back_without_exchanges_that_cannot_be),
		cmocka_unit_test(what_is_asked_for_stays_while_ranks_agree),
		cmocka_unit_test(ranks_meet_while_operations_are_timed),
		cmocka_unit_test(tables_are_left_for_servers),
		cmocka_unit_test(rates_are_found_between_operations_of_a_trial),
		cmocka_unit_test(a_table_of_servers_ends_a_trial),
		cmocka_unit_test(exchanges_do_not_wait_for_rates_that_never_come),
		cmocka_unit_test(a_trial_of_a_small_size_does_not_hold_up_rates),
		cmocka_unit_test(what_is_doubted_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
