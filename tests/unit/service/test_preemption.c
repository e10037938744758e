/* As few jobs make room as will do: of a lower priority, that allow it, the least work first; and none
 * in vain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "orchestrator/service/preemption.h"

#define ROUNDS   2000
#define JOBS_MAX 8

static const struct smd_demand machine = {.cpus = 10, .memory_bytes = 100, .gpus = 4};

static struct smd_at_work running(int64_t cpus, int priority, int64_t began_s)
{
	return (struct smd_at_work){.demand = {.cpus = cpus},
		.priority = priority,
		.began_s = began_s,
		.may_be_preempted = 1};
}

static struct smd_in_line waiting(int64_t cpus, int priority)
{
	return (struct smd_in_line){.demand = {.cpus = cpus}, .priority = priority};
}

static void the_lowest_and_the_youngest_go_first(void **state)
{
	struct smd_at_work jobs[] = {running(3, 2, 10), running(3, 1, 10), running(3, 1, 20)};
	struct smd_in_line next = waiting(4, 5);

	(void)state;
	assert_int_equal(smd_preemption_choose(&machine, jobs, 3, &next), 1);
	assert_true(!jobs[0].is_preempted && !jobs[1].is_preempted && jobs[2].is_preempted);
	next = waiting(6, 5);
	assert_int_equal(smd_preemption_choose(&machine, jobs, 3, &next), 2);
	assert_true(!jobs[0].is_preempted && jobs[1].is_preempted && jobs[2].is_preempted);
	next = waiting(6, 2); /* not higher than that of the first */
	assert_int_equal(smd_preemption_choose(&machine, jobs, 3, &next), 2);
	next = waiting(8, 2);
	assert_int_equal(smd_preemption_choose(&machine, jobs, 3, &next), 0);
	assert_true(!jobs[0].is_preempted && !jobs[1].is_preempted && !jobs[2].is_preempted);
}

static void none_goes_that_need_not(void **state)
{
	struct smd_at_work jobs[] = {running(1, 0, 10), running(8, 1, 10)};
	const struct smd_in_line next = waiting(9, 5);

	(void)state;
	/* The small one would be the first to go, and without the large one it is not enough. */
	assert_int_equal(smd_preemption_choose(&machine, jobs, 2, &next), 1);
	assert_true(!jobs[0].is_preempted && jobs[1].is_preempted);
}

static void who_is_leaving_counts_as_gone(void **state)
{
	struct smd_at_work jobs[] = {running(5, 0, 10), running(5, 0, 20)};
	const struct smd_in_line next = waiting(5, 5);

	(void)state;
	jobs[0].is_leaving = 1;
	assert_int_equal(smd_preemption_choose(&machine, jobs, 2, &next), 0);
	assert_true(!jobs[1].is_preempted);
}

static void who_does_not_allow_it_stays(void **state)
{
	struct smd_at_work jobs[] = {running(9, 0, 10), running(1, 0, 20)};
	const struct smd_in_line next = waiting(5, 5);

	(void)state;
	jobs[0].may_be_preempted = 0;
	assert_int_equal(smd_preemption_choose(&machine, jobs, 2, &next), 0);
	assert_true(!jobs[0].is_preempted && !jobs[1].is_preempted);
}

static int fits_without(const struct smd_at_work *jobs, size_t count, unsigned gone,
	const struct smd_in_line *next)
{
	struct smd_demand room = machine;

	for (size_t i = 0; i < count; i++) {
		if (!(gone >> i & 1)) {
			room.cpus -= jobs[i].demand.cpus;
			room.gpus -= jobs[i].demand.gpus;
		}
	}
	return smd_admission_fits(&room, &next->demand);
}

/* Whatever runs: what is chosen may go, is enough, and is not without any of its own; and where
 * nothing is chosen there is room, or all would not be enough. */
static void it_holds_of_any_jobs(void **state)
{
	unsigned chosen_rounds = 0;

	(void)state;
	srandom(20);
	for (int round = 0; round < ROUNDS; round++) {
		struct smd_at_work jobs[JOBS_MAX];
		struct smd_in_line next = waiting(random() % 11, (int)(random() % 4));
		size_t count = (size_t)random() % JOBS_MAX;
		unsigned leaving = 0, allowed = 0, chosen = 0;
		int n;

		next.demand.gpus = random() % 5;
		for (size_t i = 0; i < count; i++) {
			jobs[i] = running(random() % 4, (int)(random() % 4), random() % 3);
			jobs[i].demand.gpus = random() % 3;
			jobs[i].may_be_preempted = random() % 4 != 0;
			jobs[i].is_leaving = random() % 8 == 0;
			leaving |= (unsigned)jobs[i].is_leaving << i;
			allowed |= (unsigned)(jobs[i].may_be_preempted && !jobs[i].is_leaving &&
					      jobs[i].priority < next.priority)
				   << i;
		}
		n = smd_preemption_choose(&machine, jobs, count, &next);
		for (size_t i = 0; i < count; i++) {
			chosen |= (unsigned)jobs[i].is_preempted << i;
		}
		assert_int_equal(n, __builtin_popcount(chosen));
		assert_int_equal(chosen & ~allowed, 0);
		if (!chosen) {
			assert_true(fits_without(jobs, count, leaving, &next) ||
				    !fits_without(jobs, count, leaving | allowed, &next));
			continue;
		}
		chosen_rounds++;
		assert_true(fits_without(jobs, count, leaving | chosen, &next));
		for (size_t i = 0; i < count; i++) {
			assert_false((chosen >> i & 1) &&
				     fits_without(jobs, count, leaving | (chosen & ~(1u << i)), &next));
		}
	}
	assert_true(chosen_rounds > ROUNDS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_and_the_youngest_go_first),
		cmocka_unit_test(none_goes_that_need_not),
		cmocka_unit_test(who_is_leaving_counts_as_gone),
		cmocka_unit_test(who_does_not_allow_it_stays),
		cmocka_unit_test(it_holds_of_any_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
