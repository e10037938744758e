/*
 * What rank 0 sees becomes a table: one that is refused, where a shard has no memory for other
 * streams, is not asked for with every operation; rates come before weights; and what a shard does
 * in little pieces says something in all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "tests/unit/rates/tuning_setup.h"
#include "worker/libsummand/tuning.h"

/* Operations of 1 ms for so long; how often another table was wanted, and each time refused. */
static unsigned run_skipping(
	struct smd_tuning *tuning, uint64_t *now_ns, unsigned operations, uint64_t skipped)
{
	unsigned wanted = 0;

	for (unsigned i = 0; i < operations; i++) {
		smd_tuning_begin(tuning, BYTES, *now_ns);
		*now_ns += MS;
		smd_tuning_skipped(tuning, skipped);
		smd_tuning_end(tuning, BYTES, *now_ns);
		if (smd_tuning_want(tuning, *now_ns)) {
			wanted++;
			smd_tuning_refused(tuning, *now_ns);
		}
	}
	return wanted;
}

static unsigned run(struct smd_tuning *tuning, uint64_t *now_ns, unsigned operations)
{
	return run_skipping(tuning, now_ns, operations, 0);
}

/* How long an operation took of which zeros did not cross is not what its links took. */
static void operations_of_zeros_say_nothing(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	assert_int_equal(run_skipping(&tuning, &now, 900, BYTES / 8 + 1), 0);
	assert_int_equal(run_skipping(&tuning, &now, 900, BYTES / 8), 1);
	smd_tuning_destroy(&tuning);
}

static void what_is_refused_rests(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	assert_int_equal(run(&tuning, &now, 900), 1);
	assert_int_equal(run(&tuning, &now, 1000), 1); /* after a second, */
	assert_int_equal(run(&tuning, &now, 1000), 0); /* and then after two */
	smd_tuning_destroy(&tuning);
}

static void it_is_asked_for_again_while_windows_give_way(void **state)
{
	static const unsigned waits_s[] = {1, 2, 4, 1, 2, 8, 1, 2, 16, 1, 2, 32, 1, 2, 60, 1, 2, 60};
	struct smd_refusals refusals = {0};

	(void)state;
	for (unsigned i = 0; i < sizeof(waits_s) / sizeof(*waits_s); i++) {
		smd_refusals_add(&refusals, 100 * SMD_SECOND_NS);
		assert_int_equal(refusals.next_ns, (100 + waits_s[i]) * SMD_SECOND_NS);
	}
	smd_refusals_end(&refusals);
	smd_refusals_add(&refusals, 100 * SMD_SECOND_NS);
	assert_int_equal(refusals.next_ns, 101 * SMD_SECOND_NS);
}

static void rates_come_first_and_keep_proportions(void **state)
{
	const unsigned ms[] = {20, 40}; /* 4 MiB in so long: 1.7 and 0.8 Gbit/s */
	struct smd_tuning tuning;

	(void)state;
	tuning_start(&tuning, 40000, 20000, 1);
	for (unsigned i = 0; i < 5; i++) {
		tuning_slices(&tuning, 16, ms);
	}
	assert_true(smd_tuning_want(&tuning, SMD_SECOND_NS));
	assert_in_range(tuning.weights[0], 1600, 1700);
	assert_in_range(tuning.weights[1], 800, 850);
	assert_int_equal(tuning.scale, 0);
	smd_tuning_applied(&tuning, SMD_SECOND_NS);
	for (unsigned i = 0; i < 5; i++) {
		tuning_slices(&tuning, 16, ms);
	}
	assert_false(smd_tuning_want(&tuning, SMD_SECOND_NS)); /* they are right now */
	smd_tuning_destroy(&tuning);
}

/* Which chunks would differ is asked of what the program does, and not of the little that came last. */
static void a_small_operation_is_not_what_the_program_does(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	run(&tuning, &now, 10);
	assert_int_equal(tuning.usual, BYTES);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(i > 5 || tuning.usual > BYTES / 2);
		smd_tuning_begin(&tuning, 4096, now);
		smd_tuning_end(&tuning, 4096, now += MS);
	}
	assert_in_range(tuning.usual, 4096, BYTES / 100);
	smd_tuning_destroy(&tuning);
}

/* Of so many operations that overlap one ends, and the next begins, each `ms` later; two slices a
 * time say 1 Gbit/s. Whether a table is wanted within `most` of them. */
static bool overlapping_want_within(
	struct smd_tuning *tuning, uint64_t *now_ns, unsigned ms_each, unsigned most)
{
	const unsigned ms[] = {33, 33};

	for (unsigned i = 0; i < most; i++) {
		tuning_slices(tuning, 16, ms);
		*now_ns += (uint64_t)ms_each * MS;
		smd_tuning_end(tuning, BYTES, *now_ns);
		smd_tuning_begin(tuning, BYTES, *now_ns);
		if (smd_tuning_want(tuning, *now_ns)) {
			return true;
		}
	}
	return false;
}

/* Nothing ends together there, and trials are judged all the same. */
static void operations_that_always_overlap_are_judged(void **state)
{
	enum { TOGETHER = 4 };
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 1);
	for (unsigned i = 0; i < TOGETHER; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
	}
	assert_true(overlapping_want_within(&tuning, &now, 40, 3 * TOGETHER));
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_in_range(tuning.weights[0], 950, 1050);
	smd_tuning_applied(&tuning, now);
	assert_false(overlapping_want_within(&tuning, &now, 70, 7 * TOGETHER));
	assert_true(overlapping_want_within(&tuning, &now, 70, 2 * TOGETHER));
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	assert_in_range(tuning.weights[0], 9900, 10100);
	smd_tuning_destroy(&tuning);
}

/* What ends when nothing is in flight any more, soon after a span began amid others, had begun
 * before. */
static void the_rest_of_what_overlapped_says_nothing(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 1);
	smd_tuning_begin(&tuning, BYTES, now);
	smd_tuning_begin(&tuning, BYTES, now);
	smd_tuning_end(&tuning, BYTES, now += 10 * MS);
	smd_tuning_begin(&tuning, BYTES, now);
	smd_tuning_end(&tuning, BYTES, now += 10 * MS);
	smd_tuning_end(&tuning, BYTES, now += 2000);
	for (unsigned i = 0; i < SMD_RATE_TRIAL_SIZES; i++) {
		assert_true(tuning.trial.now[i] == 0 || tuning.trial.now[i] > 1);
	}
	smd_tuning_destroy(&tuning);
}

/* Nothing crosses of it. */
static void a_barrier_is_not_what_the_program_does(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	run(&tuning, &now, 10);
	for (unsigned i = 0; i < 100; i++) {
		smd_tuning_begin(&tuning, 0, now);
		smd_tuning_end(&tuning, 0, now += MS);
	}
	assert_int_equal(tuning.usual, BYTES);
	smd_tuning_destroy(&tuning);
}

/* Of operations that were in flight when all of this began anew nothing is known. */
static void spans_begin_with_what_is_known(void **state)
{
	enum { TOGETHER = 16 };
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 1);
	for (unsigned i = 0; i < TOGETHER; i++) {
		smd_tuning_begin(&tuning, 0, now);
	}
	for (unsigned i = 0; i < 4 * TOGETHER; i++) {
		smd_tuning_end(&tuning, i < TOGETHER ? 0 : BYTES, now += MS);
		smd_tuning_begin(&tuning, BYTES, now);
		assert_true(i < TOGETHER || tuning.usual == BYTES || tuning.usual == 0);
	}
	assert_int_equal(tuning.usual, BYTES);
	assert_int_equal(tuning.open, TOGETHER * BYTES);
	smd_tuning_destroy(&tuning);
}

/* What small ones that always overlap follow is forgotten as they end. */
static void a_large_operation_does_not_stay_the_measure(void **state)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 1);
	smd_tuning_begin(&tuning, 1024ull * BYTES, now);
	smd_tuning_begin(&tuning, BYTES, now);
	smd_tuning_end(&tuning, 1024ull * BYTES, now += MS);
	for (unsigned i = 0; i < 3000; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
		smd_tuning_end(&tuning, BYTES, now += MS);
	}
	assert_in_range(tuning.span, 0, 2 * BYTES);
	assert_int_equal(tuning.usual, BYTES);
	smd_tuning_destroy(&tuning);
}

/* Operations of so many ms, in each of which the shards in use say 1 Gbit/s of each of two servers; the first after which a table is wanted, or `most`. */
static unsigned operations_of_pairs(struct smd_tuning *tuning, uint64_t *now_ns, unsigned ms_each, unsigned most)
{
	unsigned places = tuning->balance.nshards;

	for (unsigned i = 0; i < most; i++) {
		smd_tuning_begin(tuning, BYTES, *now_ns);
		for (unsigned s = 0; s < places; s++) {
			smd_tuning_slice(tuning, s, 16, BYTES, 33 * MS * (places / 2));
		}
		*now_ns += (uint64_t)ms_each * MS;
		smd_tuning_end(tuning, BYTES, *now_ns);
		if (smd_tuning_want(tuning, *now_ns)) {
			return i;
		}
	}
	return most;
}

/* Where a link is found that any processor keeps up with, other shards only cut messages: they leave with the first table, without a
 * trial of their own; and if operations take longer then, all come back and are not taken away so again. */
static void one_shard_serves_as_soon_as_a_slow_link_is_found(void **state)
{
	const struct smd_tuning_shard shards[] = {{0, 5000, true, 0, false},
		{0, 5000, true, 0, false}, {1, 5000, true, 0, false}, {1, 5000, true, 0, false}};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, 4, shards, 4, 0, now), 0);
	assert_in_range(operations_of_pairs(&tuning, &now, 70, 10), 3, 5);
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	for (unsigned server = 0; server < 2; server++) {
		assert_in_range(tuning.weights[2 * server], 950, 1050);
		assert_int_equal(tuning.weights[2 * server + 1], 0);
	}
	smd_tuning_applied(&tuning, now);
	assert_int_equal(tuning.choice.single, 3);
	assert_int_equal(operations_of_pairs(&tuning, &now, 140, 9), 7);
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	for (unsigned s = 0; s < 4; s++) {
		assert_int_equal(tuning.weights[s], 5000);
	}
	smd_tuning_applied(&tuning, now);
	assert_int_equal(tuning.choice.single, 0);
	tuning.choice.next_ns = UINT64_MAX; /* no trial of that alone, */
	tuning.search.next_ns = UINT64_MAX; /* or of other chunks */
	assert_in_range(operations_of_pairs(&tuning, &now, 70, 1000), 100, 200);
	assert_int_equal(tuning.cause, SMD_TUNING_RATES);
	for (unsigned s = 0; s < 4; s++) {
		assert_in_range(tuning.weights[s], 475, 525);
	}
	smd_tuning_destroy(&tuning);
}

static void little_pieces_are_put_together(void **state)
{
	const unsigned ms[] = {3, 9}; /* too short, and the other is done soon */
	struct smd_tuning tuning;
	unsigned operations = 0;

	(void)state;
	tuning_start(&tuning, 10000, 10000, 0);
	while (!smd_tuning_want(&tuning, SMD_SECOND_NS) && operations < 100) {
		tuning_slices(&tuning, 3, ms);
		operations++;
	}
	assert_in_range(operations, 15, 25); /* five times 20 ms of the slower one */
	assert_int_equal(tuning.cause, SMD_TUNING_WEIGHTS);
	assert_true(tuning.weights[0] > 10000 && tuning.weights[1] < 10000);
	smd_tuning_destroy(&tuning);
}

/* The scale that a search tries first, where processors are waited for during so many hundredths.
 */
static int first_scale(unsigned hundredths)
{
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	unsigned operations = 0;
	int scale;

	tuning_start(&tuning, 10000, 10000, 0);
	do {
		smd_tuning_begin(&tuning, BYTES, now);
		now += MS;
		tuning_waited_ns += hundredths * (MS / 100);
		smd_tuning_end(&tuning, BYTES, now);
	} while (!smd_tuning_want(&tuning, now) && ++operations < 1000);
	assert_in_range(operations, 90, 110); /* a tenth of a second tells */
	assert_int_equal(tuning.cause, SMD_TUNING_CHUNKS);
	scale = tuning.scale;
	smd_tuning_destroy(&tuning);
	return scale;
}

static void where_processors_decide_the_largest_chunks_come_first(void **state)
{
	(void)state;
	assert_int_equal(first_scale(0), -1);
	assert_int_equal(first_scale(40), -1);
	assert_int_equal(first_scale(60), SMD_CHUNK_SCALE_MOST);
}

/* Of a server that uses one shard, and shall be tried with all later, none serves; and it is back with
 * the one that it had. */
static void a_server_leaves_with_all_of_its_shards(void **state)
{
	const struct smd_tuning_shard shards[] = {{0, 10000, true, 0, false},
		{0, 0, true, 0, false}, {1, 10000, true, 0, false}, {1, 0, true, 0, false}};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, 4, shards, 4, 0, now), 0);
	assert_int_equal(tuning.choice.single, 3);
	tuning.choice.wanted = 0; /* as after a trial of one that was lost, */
	tuning.choice.next_ns = UINT64_MAX; /* and that is not due again */
	tuning.search.next_ns = UINT64_MAX;
	smd_server_choice_saw(&tuning.servers, 0, 1.6, now);
	assert_int_equal(run(&tuning, &now, 15), 0);
	for (unsigned trial = 0; trial < 2; trial++) { /* it is slower without it, so it is lost */
		bool wanted = false;

		for (unsigned i = 0; i < 100 && !wanted; i++) {
			smd_tuning_begin(&tuning, BYTES, now);
			now += (trial ? 20 : 1) * MS;
			smd_tuning_end(&tuning, BYTES, now);
			wanted = smd_tuning_want(&tuning, now);
		}
		assert_true(wanted);
		assert_int_equal(tuning.cause, SMD_TUNING_SERVERS);
		assert_int_equal(tuning.weights[0], trial ? 10000 : 0);
		assert_int_equal(tuning.weights[1], 0);
		assert_int_equal(tuning.weights[2], 10000);
		smd_tuning_applied(&tuning, now);
	}
	smd_tuning_destroy(&tuning);
}

/* Reducers on workers' hosts: together, and with what they declare. */
static void spare_servers_are_tried_with_what_they_declare(void **state)
{
	const struct smd_tuning_shard shards[] = {
		{0, 1000, true, 0, false}, {1, 0, true, 300, false}, {2, 0, true, 300, false}};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;
	bool wanted = false;

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, 4, shards, 3, 0, now), 0);
	tuning.search.next_ns = UINT64_MAX;
	for (unsigned i = 0; i < 100 && !wanted; i++) {
		smd_tuning_begin(&tuning, BYTES, now);
		now += 10 * MS;
		smd_tuning_end(&tuning, BYTES, now);
		wanted = smd_tuning_want(&tuning, now);
	}
	assert_true(wanted);
	assert_in_range(now, SMD_SECOND_NS * 3 / 2, SMD_SECOND_NS * 8 / 5);
	assert_int_equal(tuning.cause, SMD_TUNING_SERVERS);
	assert_int_equal(tuning.weights[0], 1000);
	assert_int_equal(tuning.weights[1], 300);
	assert_int_equal(tuning.weights[2], 300);
	smd_tuning_destroy(&tuning);
}

/* Operations that take so long, until another table is wanted, which is had then. */
static void run_until_wanted(struct smd_tuning *tuning, uint64_t *now, unsigned ms)
{
	bool wanted = false;

	for (unsigned i = 0; i < 2000 && !wanted; i++) {
		smd_tuning_begin(tuning, BYTES, *now);
		*now += ms * (uint64_t)MS;
		smd_tuning_end(tuning, BYTES, *now);
		wanted = smd_tuning_want(tuning, *now);
	}
	assert_true(wanted);
	assert_int_equal(tuning->cause, SMD_TUNING_SERVERS);
}

/* As rates have left one shard of two and a tenth of the weights, and after trials that were lost. */
static void what_they_declare_is_to_what_the_others_have(void **state)
{
	const struct smd_tuning_shard shards[] = {{0, 5000, true, 0, false},
		{0, 5000, true, 0, false}, {1, 0, true, 1500, false}, {1, 0, true, 1500, false},
		{2, 0, true, 1500, false}, {2, 0, true, 1500, false}};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, 4, shards, 6, 0, now), 0);
	tuning.shards[0].weight = 1000;
	tuning.shards[1].weight = 0;
	smd_balance_use(&tuning.balance, &(uint32_t){1000}, 1);
	tuning.choice.single |= 7;
	tuning.choice.settled = tuning.choice.wanted = tuning.choice.single;
	tuning.search.next_ns = UINT64_MAX;
	tuning.choice.next_ns = UINT64_MAX;
	for (unsigned trial = 0; trial < 3; trial++) {
		run_until_wanted(&tuning, &now, 10);
		assert_int_equal(tuning.weights[0], 1000);
		for (unsigned server = 1; server <= 2; server++) {
			assert_int_equal(tuning.weights[2 * server], 300);
			assert_int_equal(tuning.weights[2 * server + 1], 0);
		}
		smd_tuning_applied(&tuning, now);
		run_until_wanted(&tuning, &now, 12); /* it is lost */
		assert_int_equal(tuning.weights[2], 0);
		assert_int_equal(tuning.weights[4], 0);
		smd_tuning_applied(&tuning, now);
	}
	smd_tuning_destroy(&tuning);
}

/* Each has a link of its own then, and one alone would do with half of them. */
static void shards_on_several_networks_stay(void **state)
{
	const struct smd_tuning_shard shards[] = {{0, 5000, true, 0, false},
		{0, 5000, true, 0, true}, {1, 5000, true, 0, false}, {1, 5000, true, 0, true}};
	struct smd_tuning tuning;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	assert_int_equal(smd_tuning_create(&tuning, 4, shards, 4, 0, now), 0);
	assert_in_range(operations_of_pairs(&tuning, &now, 70, 10), 3, 5);
	for (unsigned i = 0; i < 20; i++) { /* another table is wanted */
		for (unsigned s = 0; s < 4; s++) {
			assert_int_not_equal(tuning.weights[s], 0);
		}
		smd_tuning_applied(&tuning, now);
		(void)operations_of_pairs(&tuning, &now, 70, 400);
	}
	smd_tuning_destroy(&tuning);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_rests),
		cmocka_unit_test(it_is_asked_for_again_while_windows_give_way),
		cmocka_unit_test(operations_of_zeros_say_nothing),
		cmocka_unit_test(rates_come_first_and_keep_proportions),
		cmocka_unit_test(a_small_operation_is_not_what_the_program_does),
		cmocka_unit_test(operations_that_always_overlap_are_judged),
		cmocka_unit_test(the_rest_of_what_overlapped_says_nothing),
		cmocka_unit_test(a_barrier_is_not_what_the_program_does),
		cmocka_unit_test(spans_begin_with_what_is_known),
		cmocka_unit_test(a_large_operation_does_not_stay_the_measure),
		cmocka_unit_test(one_shard_serves_as_soon_as_a_slow_link_is_found),
		cmocka_unit_test(shards_on_several_networks_stay),
		cmocka_unit_test(little_pieces_are_put_together),
		cmocka_unit_test(a_server_leaves_with_all_of_its_shards),
		cmocka_unit_test(where_processors_decide_the_largest_chunks_come_first),
		cmocka_unit_test(spare_servers_are_tried_with_what_they_declare),
		cmocka_unit_test(what_they_declare_is_to_what_the_others_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
