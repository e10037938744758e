/*
 * Servers are left out and taken back, in a network that is simulated: some servers are late by a
 * part of an operation whatever they get, and what they carry makes operations shorter.
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
#include "worker/libsummand/server_choice.h"

#define BYTES   4e6  /* of an operation, */
#define TIME_MS 40.0 /* which takes so long where each of SERVERS has its share */
#define STEP_NS (2 * SMD_SECOND_NS) /* as often less weight is tried */

enum { SERVERS = 4, ALL = (1 << SERVERS) - 1 };

struct network {
	double carries[SERVERS]; /* of its share of an operation, */
	double late_ms[SERVERS]; /* and so much later than the others, with any share */
	double noise;
	uint64_t random;
	uint64_t step_ns;
};

static double draw(struct network *network)
{
	return (double)(smd_random_next(&network->random) >> 11) / 9007199254740992.0;
}

static double time_ms(const struct network *network, uint64_t without)
{
	double carried = 0;
	double late = 0;

	for (unsigned t = 0; t < SERVERS; t++) {
		if (!(without >> t & 1)) {
			carried += network->carries[t];
			late = fmax(late, network->late_ms[t]);
		}
	}
	return TIME_MS * SERVERS / carried + late;
}

/* What the last of those in use takes, to the mean, and which one that is. */
static double last_of(const struct network *network, uint64_t without, unsigned *last)
{
	double time = time_ms(network, without);
	double late = -1;
	double sum = 0;
	unsigned n = 0;

	for (unsigned t = 0; t < SERVERS; t++) {
		if (!(without >> t & 1) && network->late_ms[t] > late) {
			late = network->late_ms[t];
			*last = t;
		}
	}
	for (unsigned t = 0; t < SERVERS; t++) {
		if (!(without >> t & 1)) {
			sum += time - late + network->late_ms[t];
			n++;
		}
	}
	return time * n / sum;
}

/* Operations for so long; how often others were left out. */
static unsigned run(struct network *network, struct smd_server_choice *choice, uint64_t *now_ns,
	double seconds)
{
	uint64_t end_ns = *now_ns + (uint64_t)(seconds * 1e9);
	unsigned changes = 0;

	while (*now_ns < end_ns) {
		double ms = time_ms(network, choice->without) *
			    (1 + network->noise * draw(network));
		unsigned server = 0;
		double last = last_of(network, choice->without, &server);

		*now_ns += (uint64_t)(ms * 1e6);
		smd_server_choice_took(choice, (uint64_t)BYTES, (uint64_t)(ms * 1e6));
		if (last > 1.05 && *now_ns >= network->step_ns + STEP_NS) {
			smd_server_choice_saw(choice, server, last, *now_ns);
			network->step_ns = *now_ns;
		}
		if (smd_server_choice_want(choice, ALL, *now_ns)) {
			assert_int_not_equal(choice->wanted, ALL);
			smd_server_choice_applied(choice, *now_ns);
			changes++;
		}
	}
	return changes;
}

static struct network equal_network(void)
{
	return (struct network){
		.carries = {1, 1, 1, 1}, .noise = 0.1, .random = SMD_SECOND_NS};
}

static struct smd_server_choice start(uint64_t *now_ns)
{
	struct smd_server_choice choice;

	*now_ns = SMD_SECOND_NS;
	smd_server_choice_begin(&choice, ALL, 0, 0, *now_ns);
	return choice;
}

static void equal_servers_all_stay(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	assert_int_equal(run(&network, &choice, &now, 600), 0);
}

static void one_that_is_late_with_any_share_is_left_out_within_six_seconds(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	network.carries[2] = 0.2;
	network.late_ms[2] = 20;
	run(&network, &choice, &now, 6);
	assert_int_equal(choice.settled, 1 << 2);
}

/* Late by a little, with much that it carries: operations would take longer without it. */
static void one_that_is_worth_its_time_stays(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	network.late_ms[2] = 9;
	assert_in_range(run(&network, &choice, &now, 600), 2, 2 * 7);
	assert_int_equal(choice.settled, 0);
}

static void one_that_is_good_again_is_taken_back(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	network.carries[2] = 0.2;
	network.late_ms[2] = 20;
	run(&network, &choice, &now, 8);
	assert_int_equal(choice.settled, 1 << 2);
	network.late_ms[2] = 0;
	run(&network, &choice, &now, 20);
	assert_int_equal(choice.settled, 0);
	assert_int_equal(run(&network, &choice, &now, 600), 0);
}

/* What stays bad costs a few operations in ten minutes. */
static void trials_become_rare(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	network.carries[2] = 0.2;
	network.late_ms[2] = 20;
	run(&network, &choice, &now, 1200);
	assert_in_range(run(&network, &choice, &now, 3000), 2, 2 * 6);
	assert_int_equal(choice.settled, 1 << 2);
}

static void two_of_them_are_left_out_one_after_the_other(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	network.carries[1] = network.carries[3] = 0.2;
	network.late_ms[1] = 40;
	network.late_ms[3] = 25;
	run(&network, &choice, &now, 9.5);
	assert_int_equal(choice.settled, 1 << 1 | 1 << 3);
	network.late_ms[1] = network.late_ms[3] = 0;
	run(&network, &choice, &now, 60);
	assert_int_equal(choice.settled, 0);
}

static void the_last_one_stays(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	for (unsigned t = 0; t < SERVERS; t++) {
		network.late_ms[t] = 1000 * (t + 1);
	}
	run(&network, &choice, &now, 3000);
	assert_int_not_equal(choice.settled, ALL);
}

/* Of a table that was made anew, after a loss: one that has nothing may get something. */
static void one_that_a_table_before_has_left_out_is_tried_again(void **state)
{
	struct network network = equal_network();
	struct smd_server_choice choice;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_server_choice_begin(&choice, ALL, 1 << 3, 0, now);
	run(&network, &choice, &now, 9);
	assert_int_equal(choice.settled, 1 << 3);
	run(&network, &choice, &now, 4);
	assert_int_equal(choice.settled, 0);
}

static struct smd_server_choice start_with_spare(uint64_t *now_ns)
{
	struct smd_server_choice choice;

	*now_ns = SMD_SECOND_NS;
	smd_server_choice_begin(&choice, ALL, 1 << 2 | 1 << 3, 1 << 2 | 1 << 3, *now_ns);
	return choice;
}

/* Reducers on workers' hosts, beside servers that carry less than their interfaces claim. */
static void spare_ones_serve_together_within_two_seconds_where_operations_gain(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start_with_spare(&now);

	(void)state;
	network.carries[2] = network.carries[3] = 0.2; /* one alone would bring 9 % */
	assert_int_equal(run(&network, &choice, &now, 2), 1);
	assert_int_equal(choice.settled, 0);
	assert_int_equal(choice.spare, 0);
}

/* Beside servers that are enough: they would cost their hosts something. */
static void spare_ones_without_gain_serve_for_trials_alone(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start_with_spare(&now);

	(void)state;
	network.carries[2] = network.carries[3] = 0;
	assert_in_range(run(&network, &choice, &now, 1200), 2, 2 * 8);
	assert_in_range(run(&network, &choice, &now, 3000), 2, 2 * 6);
	assert_int_equal(choice.settled, 1 << 2 | 1 << 3);
}

/* In a table that follows another, after a loss: they may have been tried in vain before. */
static void spare_ones_are_not_tried_again_at_once(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start_with_spare(&now);

	(void)state;
	smd_server_choice_go_on(&choice, now);
	assert_int_equal(run(&network, &choice, &now, 9), 0);
	run(&network, &choice, &now, 4);
	assert_int_equal(choice.settled, 0);
}

/* They take turns with one that was left out. */
static void spare_ones_keep_no_other_out(void **state)
{
	struct network network = equal_network();
	struct smd_server_choice choice;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	network.carries[1] = network.carries[3] = 0;
	smd_server_choice_begin(&choice, ALL, 0xe, 1 << 1 | 1 << 3, now);
	run(&network, &choice, &now, 60);
	assert_int_equal(choice.settled, 1 << 1 | 1 << 3);
}

/* What ranks agree on could not be said to it any more. */
static void one_that_may_not_leave_stays(void **state)
{
	struct network network = equal_network();
	struct smd_server_choice choice;
	uint64_t now = SMD_SECOND_NS;

	(void)state;
	smd_server_choice_begin(&choice, ALL & ~(1u << 2), 0, 0, now);
	network.carries[2] = 0.2;
	network.late_ms[2] = 20;
	assert_int_equal(run(&network, &choice, &now, 600), 0);
}

/* Operations of another size come in the middle of it, for ever: it is lost after a minute. */
static void a_trial_without_an_end_is_lost(void **state)
{
	struct network network = equal_network();
	uint64_t now;
	struct smd_server_choice choice = start(&now);

	(void)state;
	network.carries[2] = 0.2;
	network.late_ms[2] = 20;
	while (!smd_server_choice_is_on_trial(&choice)) {
		run(&network, &choice, &now, 0.1);
	}
	for (unsigned second = 0; second < 61; second++) {
		now += SMD_SECOND_NS;
		for (unsigned k = 0; k < 10; k++) {
			smd_server_choice_took(&choice, 100 << 20, SMD_SECOND_NS / 10);
		}
		if (smd_server_choice_want(&choice, ALL, now)) {
			smd_server_choice_applied(&choice, now);
			break;
		}
		assert_true(second < 60);
	}
	assert_false(smd_server_choice_is_on_trial(&choice));
	assert_int_equal(choice.settled, 0);
}

/* One that had too much comes back with what it should have had; one that was out for a trial with all. */
static void one_returns_with_its_share(void **state)
{
	struct smd_server_choice choice;

	(void)state;
	smd_server_choice_begin(&choice, ALL, 0, 0, SMD_SECOND_NS);
	smd_server_choice_saw(&choice, 2, 1.6, SMD_SECOND_NS);
	assert_true(smd_server_choice_part(&choice, 2) == 1);
	choice.settled = 1 << 2;
	assert_true(smd_server_choice_part(&choice, 2) == 1 / 1.6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_servers_all_stay),
		cmocka_unit_test(one_that_is_late_with_any_share_is_left_out_within_six_seconds),
		cmocka_unit_test(one_that_is_worth_its_time_stays),
		cmocka_unit_test(one_that_is_good_again_is_taken_back),
		cmocka_unit_test(trials_become_rare),
		cmocka_unit_test(two_of_them_are_left_out_one_after_the_other),
		cmocka_unit_test(the_last_one_stays),
		cmocka_unit_test(one_that_may_not_leave_stays),
		cmocka_unit_test(spare_ones_serve_together_within_two_seconds_where_operations_gain),
		cmocka_unit_test(spare_ones_without_gain_serve_for_trials_alone),
		cmocka_unit_test(spare_ones_are_not_tried_again_at_once),
		cmocka_unit_test(spare_ones_keep_no_other_out),
		cmocka_unit_test(a_trial_without_an_end_is_lost),
		cmocka_unit_test(one_returns_with_its_share),
		cmocka_unit_test(one_that_a_table_before_has_left_out_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
