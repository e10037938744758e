/* Trials of several metrics are compared in all of them; and a search for several metrics finds
 * better compromises than random search does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "orchestrator/tuning/objective.h"
#include "orchestrator/tuning/search/search.h"

#define TRIALS 24
#define SEEDS  9

static char id[] = "x";
static struct smd_metric metrics[] = {{.id = id, .is_minimised = 1}, {.id = id, .is_minimised = 0}};

static void dominance(void **state)
{
	const struct smd_study study = {.metrics = metrics, .nmetrics = 2};
	const double a[] = {1, 5}, better[] = {1, 6}, other[] = {0, 4};

	(void)state;
	assert_true(smd_objective_dominates(&study, better, a));
	assert_false(smd_objective_dominates(&study, a, better));
	assert_false(smd_objective_dominates(&study, a, a));
	assert_false(smd_objective_dominates(&study, a, other));
	assert_false(smd_objective_dominates(&study, other, a));
}

/* One metric is itself; of several, what is better in all is better joined, in the direction of the
 * first metric and whatever the weights. */
static void joined(void **state)
{
	static const double values[] = {0, 9, 1, 8, 2, 7, 1e308, -1e308};
	struct smd_metric turned[] = {metrics[1], metrics[0]};
	struct smd_study study = {.metrics = metrics, .nmetrics = 1};
	double one[8], two[4], last[4] = {0};
	int differ = 0;

	(void)state;
	smd_objective_join(&study, 1, 0, values, 8, one);
	assert_memory_equal(one, values, sizeof(values));
	study.nmetrics = 2;
	for (size_t turn = 0; turn < 20; turn++) {
		smd_objective_join(&study, 1, turn, values, 4, two);
		assert_true(two[0] < two[1] && two[1] < two[2] && two[2] < two[3]);
		assert_true(isfinite(two[0]) && isfinite(two[3]));
		differ |= turn && two[1] != last[1];
		for (int i = 0; i < 4; i++) {
			last[i] = two[i];
		}
	}
	assert_true(differ);
	study.metrics = turned;
	smd_objective_join(&study, 1, 0, (const double[]){9, 0, 8, 1}, 2, two);
	assert_true(two[0] > two[1]);
	smd_objective_join(&study, 1, 0, (const double[]){9, 0, 9, 0}, 2, two);
	assert_true(two[0] == two[1] && isfinite(two[0]));
}

/* To be minimised: near one corner of a long valley. */
static double first_of(const double *x)
{
	return (x[0] - 0.2) * (x[0] - 0.2) + 4 * (x[1] - 0.3) * (x[1] - 0.3);
}

/* To be maximised: the other one. */
static double second_of(const double *x)
{
	return -(x[0] - 0.7) * (x[0] - 0.7) - 4 * (x[1] - 0.4) * (x[1] - 0.4);
}

static int compare_rows(const void *one, const void *other)
{
	double a = *(const double *)one;
	double b = *(const double *)other;

	return a < b ? -1 : a > b;
}

/* The area of all that some trial is better than, up to 0.5 and -0.5. */
static double area_of(double values[TRIALS][2])
{
	double area = 0;
	double level = -0.5;

	qsort(values, TRIALS, sizeof(values[0]), compare_rows);
	for (size_t i = 0; i < TRIALS; i++) {
		if (values[i][0] < 0.5 && values[i][1] > level) {
			area += (0.5 - values[i][0]) * (values[i][1] - level);
			level = values[i][1];
		}
	}
	return area;
}

static double search_area(const struct smd_study *study, uint64_t seed)
{
	struct smd_past_trial past[TRIALS];
	double points[TRIALS][2], values[TRIALS][2], one[TRIALS];

	for (size_t i = 0; i < TRIALS; i++) {
		smd_objective_join(study, seed, i, values[0], i, one);
		for (size_t n = 0; n < i; n++) {
			past[n].value = one[n];
		}
		assert_int_equal(smd_search_next(study, seed, TRIALS, past, i, points[i]), 0);
		past[i] = (struct smd_past_trial){.point = points[i], .state = SMD_PAST_MEASURED};
		values[i][0] = first_of(points[i]);
		values[i][1] = second_of(points[i]);
	}
	return area_of(values);
}

static void finds_compromises(void **state)
{
	struct smd_parameter parameters[2];
	struct smd_study study = {
		.metrics = metrics, .nmetrics = 2, .parameters = parameters, .nparameters = 2};
	double areas[2] = {0};
	int wins = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		parameters[i] = (struct smd_parameter){.id = id,
			.kind = SMD_PARAMETER_DOUBLE,
			.min = 0,
			.max = 1,
			.initial = NAN,
			.parent = -1};
	}
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		double random, bayesian;

		study.algorithm = SMD_ALGORITHM_RANDOM;
		random = search_area(&study, seed);
		study.algorithm = SMD_ALGORITHM_BAYESIAN;
		bayesian = search_area(&study, seed);
		wins += bayesian > random;
		areas[0] += random / SEEDS;
		areas[1] += bayesian / SEEDS;
	}
	print_message("area: random %g, Bayesian %g, better %d of %d times\n", areas[0], areas[1],
		wins, SEEDS);
	assert_true(areas[1] > areas[0]);
	assert_true(wins > SEEDS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dominance),
		cmocka_unit_test(joined),
		cmocka_unit_test(finds_compromises),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
