/* Jobs begin as they came where they fit; one behind begins before only where it moves nobody
 * ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/admission.h"

#define NOW      1000
#define ROUNDS   300
#define JOBS_MAX 12

static const struct smd_demand machine = {.cpus = 10, .memory_bytes = 100, .gpus = 4};

static struct smd_in_line job(int64_t cpus, int64_t lasts_s)
{
	return (struct smd_in_line){.demand = {.cpus = cpus}, .lasts_s = lasts_s};
}

static struct smd_at_work running(int64_t cpus, int64_t ends_s)
{
	return (struct smd_at_work){.demand = {.cpus = cpus}, .ends_s = ends_s};
}

static void first_come_first_served(void **state)
{
	struct smd_in_line line[] = {job(6, 10), job(4, 10), job(1, 10)};

	(void)state;
	assert_int_equal(smd_admission_choose(&machine, NULL, 0, line, 3, NOW), 0);
	assert_true(line[0].begins && line[1].begins && !line[2].begins);
}

static void a_short_one_fills_a_hole(void **state)
{
	const struct smd_at_work at_work[] = {running(6, NOW + 100)};
	struct smd_in_line line[] = {job(8, 50), job(4, 100), job(4, 100)};

	(void)state;
	assert_int_equal(smd_admission_choose(&machine, at_work, 1, line, 3, NOW), 0);
	assert_true(!line[0].begins && line[1].begins && !line[2].begins);
}

static void a_long_one_delays_nobody(void **state)
{
	const struct smd_at_work at_work[] = {running(6, NOW + 100)};
	struct smd_in_line line[] = {job(8, 50), job(4, 101), job(2, 1000)};

	(void)state;
	assert_int_equal(smd_admission_choose(&machine, at_work, 1, line, 3, NOW), 0);
	/* The second would be in the first one's way, and the third is in nobody's. */
	assert_true(!line[0].begins && !line[1].begins && line[2].begins);
}

static void each_kind_of_room_counts(void **state)
{
	struct smd_in_line line[] = {{.demand = {.cpus = 1, .memory_bytes = 90}, .lasts_s = 9},
		{.demand = {.cpus = 1, .memory_bytes = 11}, .lasts_s = 9},
		{.demand = {.cpus = 1, .gpus = 3}, .lasts_s = 9},
		{.demand = {.cpus = 1, .gpus = 2}, .lasts_s = 9}};

	(void)state;
	assert_int_equal(smd_admission_choose(&machine, NULL, 0, line, 4, NOW), 0);
	assert_true(line[0].begins && !line[1].begins && line[2].begins && !line[3].begins);
}

static void what_never_fits_keeps_nobody(void **state)
{
	struct smd_in_line line[] = {job(11, 10), job(10, 10)};

	(void)state;
	assert_false(smd_admission_fits(&machine, &line[0].demand));
	assert_int_equal(smd_admission_choose(&machine, NULL, 0, line, 2, NOW), 0);
	assert_true(!line[0].begins && line[1].begins);
}

static void a_late_end_takes_room_still(void **state)
{
	const struct smd_at_work at_work[] = {running(10, NOW - 50)};
	struct smd_in_line line[] = {job(1, 10)};

	(void)state;
	assert_int_equal(smd_admission_choose(&machine, at_work, 1, line, 1, NOW), 0);
	assert_false(line[0].begins);
}

/* By a slow and plain way: second by second, each job at the first second from which it fits. */
static void choose_plainly(const struct smd_at_work *at_work, size_t nrunning,
	struct smd_in_line *line, size_t count, int begins[JOBS_MAX])
{
	static int64_t room[4096];

	for (size_t t = 0; t < 4096; t++) {
		room[t] = machine.cpus;
		for (size_t i = 0; i < nrunning; i++) {
			room[t] -=
				(int64_t)t < at_work[i].ends_s - NOW ? at_work[i].demand.cpus : 0;
		}
	}
	for (size_t i = 0; i < count; i++) {
		int64_t first = 0;
		int64_t t = 0;

		begins[i] = 0;
		if (line[i].demand.cpus > machine.cpus) {
			continue;
		}
		for (; t < first + line[i].lasts_s; t++) {
			if (room[t] < line[i].demand.cpus) {
				first = t + 1;
			}
		}
		for (t = first; t < first + line[i].lasts_s; t++) {
			room[t] -= line[i].demand.cpus;
		}
		begins[i] = first == 0;
	}
}

static void as_the_plain_way_has_it(void **state)
{
	(void)state;
	srandom(7);
	for (int round = 0; round < ROUNDS; round++) {
		struct smd_at_work at_work[4];
		struct smd_in_line line[JOBS_MAX];
		int begins[JOBS_MAX];
		size_t nrunning = (size_t)random() % 4;
		size_t count = 1 + (size_t)random() % JOBS_MAX;

		for (size_t i = 0; i < nrunning; i++) {
			at_work[i] = running(1 + random() % 3, NOW + 1 + random() % 100);
		}
		for (size_t i = 0; i < count; i++) {
			line[i] = job(1 + random() % 11, 1 + random() % 100);
		}
		choose_plainly(at_work, nrunning, line, count, begins);
		assert_int_equal(
			smd_admission_choose(&machine, at_work, nrunning, line, count, NOW), 0);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(line[i].begins, begins[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_come_first_served),
		cmocka_unit_test(a_short_one_fills_a_hole),
		cmocka_unit_test(a_long_one_delays_nobody),
		cmocka_unit_test(each_kind_of_room_counts),
		cmocka_unit_test(what_never_fits_keeps_nobody),
		cmocka_unit_test(a_late_end_takes_room_still),
		cmocka_unit_test(as_the_plain_way_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
