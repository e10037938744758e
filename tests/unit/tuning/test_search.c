/* Scales and grids hold what they promise; a search is repeatable, and the Bayesian one finds
 * better values than random search on functions whose minimum is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/tuning/search/search.h"
#include "orchestrator/tuning/search/space.h"

#ifdef __SANITIZE_ADDRESS__
#define SEEDS 1 /* how good a search is, other trees see */
#else
#define SEEDS 11
#endif
#define TRIALS_MAX 40
#define WIDTH_MAX  8

static char id[] = "x";
static char *colours[] = {(char[]){"red"}, (char[]){"green"}, (char[]){"blue"}};
static char *batches[] = {(char[]){"16"}, (char[]){"64"}, (char[]){"256"}};
static double batch_numbers[] = {16, 64, 256};

static struct smd_parameter real(double min, double max, enum smd_scale scale)
{
	return (struct smd_parameter){.id = id,
		.kind = SMD_PARAMETER_DOUBLE,
		.scale = scale,
		.min = min,
		.max = max,
		.initial = NAN,
		.parent = -1};
}

static struct smd_parameter integer(double min, double max, enum smd_scale scale)
{
	struct smd_parameter parameter = real(min, max, scale);

	parameter.kind = SMD_PARAMETER_INTEGER;
	return parameter;
}

static struct smd_parameter colour(void)
{
	return (struct smd_parameter){.id = id,
		.kind = SMD_PARAMETER_CATEGORICAL,
		.values = colours,
		.nvalues = 3,
		.initial = NAN,
		.parent = -1};
}

static struct smd_parameter batch(void)
{
	return (struct smd_parameter){.id = id,
		.kind = SMD_PARAMETER_DISCRETE,
		.values = batches,
		.numbers = batch_numbers,
		.nvalues = 3,
		.initial = NAN,
		.parent = -1};
}

static struct smd_study study_of(struct smd_parameter *parameters, size_t count)
{
	static struct smd_metric metric = {.id = id, .is_minimised = 1};

	return (struct smd_study){
		.metrics = &metric, .nmetrics = 1, .parameters = parameters, .nparameters = count};
}

static void scales(void **state)
{
	const struct smd_parameter linear = real(-10, 30, SMD_SCALE_LINEAR);
	const struct smd_parameter logarithm = real(1e-4, 1, SMD_SCALE_LOG);
	const struct smd_parameter reverse = real(1e-4, 1, SMD_SCALE_REVERSE_LOG);
	const struct smd_parameter wide = real(-1e308, 1e308, SMD_SCALE_LINEAR);
	const struct smd_parameter fixed = real(3, 3, SMD_SCALE_LOG);
	const struct smd_parameter *const all[] = {&linear, &logarithm, &reverse, &wide, &fixed};

	(void)state;
	assert_float_equal(smd_parameter_at(&linear, 0.25), 0, 1e-9);
	assert_float_equal(smd_parameter_at(&logarithm, 0.5), 1e-2, 1e-9);
	assert_float_equal(smd_parameter_at(&reverse, 0.5), 1.0001 - 1e-2, 1e-9);
	assert_float_equal(smd_parameter_at(&wide, 0.5), 0, 1e292);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_float_equal(smd_parameter_at(all[i], 0), all[i]->min, 1e-9);
		assert_float_equal(smd_parameter_at(all[i], 1), all[i]->max, 1e-9);
		for (double place = 0; place <= 1 && i < 4; place += 0.125) {
			double value = smd_parameter_at(all[i], place);

			assert_true(value >= all[i]->min && value <= all[i]->max);
			assert_float_equal(smd_parameter_place(all[i], value), place, 1e-6);
		}
	}
}

/* Each whole number and each value of a list is as likely as the others. */
static void equal_parts(void **state)
{
	const struct smd_parameter parameters[] = {
		integer(5, 7, SMD_SCALE_LINEAR), colour(), batch()};
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		double first = i == 0 ? 5 : 0;
		int counts[3] = {0};

		for (int n = 0; n < 3000; n++) {
			double value = smd_parameter_at(&parameters[i], smd_space_uniform(&random));

			assert_true(value >= first && value <= first + 2);
			counts[(int)(value - first)]++;
		}
		for (int n = 0; n < 3; n++) {
			assert_in_range(counts[n], 900, 1100);
		}
	}
}

/* The momentum is there with one of two optimizers, so the grid has 2 * (1 + 3) points. */
static void grid_with_condition(void **state)
{
	static double when[] = {1};
	struct smd_parameter parameters[3] = {integer(1, 2, SMD_SCALE_LINEAR), colour(), batch()};
	struct smd_study study = study_of(parameters, 3);
	struct smd_past_trial past[10];
	double points[10][3];
	int count = 0;

	(void)state;
	parameters[1].nvalues = 2;
	parameters[2].parent = 1;
	parameters[2].when = when;
	parameters[2].nwhen = 1;
	study.algorithm = SMD_ALGORITHM_GRID;
	while (count < 10 &&
		smd_search_next(&study, 0, 10, past, (size_t)count, points[count]) == 0) {
		assert_int_equal(isnan(points[count][2]), points[count][1] == 0);
		for (int i = 0; i < count; i++) {
			assert_false(smd_space_is_same(&study, points[i], points[count]));
		}
		past[count] = (struct smd_past_trial){.point = points[count]};
		count++;
	}
	assert_int_equal(count, 8);
}

typedef double objective(const double *point);

static double branin(const double *x)
{
	double a = x[1] - 5.1 / (4 * M_PI * M_PI) * x[0] * x[0] + 5 / M_PI * x[0] - 6;

	return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x[0]) + 10; /* minimum 0.398 */
}

static double hartmann3(const double *x)
{
	static const double weight[4] = {1.0, 1.2, 3.0, 3.2};
	static const double a[4][3] = {{3, 10, 30}, {0.1, 10, 35}, {3, 10, 30}, {0.1, 10, 35}};
	static const double p[4][3] = {{0.3689, 0.1170, 0.2673}, {0.4699, 0.4387, 0.7470},
		{0.1091, 0.8732, 0.5547}, {0.0381, 0.5743, 0.8828}};
	double sum = 0;

	for (int i = 0; i < 4; i++) {
		double square = 0;

		for (int j = 0; j < 3; j++) {
			square += a[i][j] * (x[j] - p[i][j]) * (x[j] - p[i][j]);
		}
		sum -= weight[i] * exp(-square);
	}
	return sum; /* minimum -3.863 */
}

/* A learning rate and a decay that matter by their orders of magnitude. */
static double rates(const double *x)
{
	double a = log10(x[0]) + 2.7;
	double b = log10(x[1]) + 5.2;

	return a * a + 0.5 * b * b + 0.3 * a * b;
}

/* The best colour is one of three, and each has another best number of layers; momentum is there
 * with the second one alone. */
static double mixed(const double *x)
{
	static const double layers[3] = {3, 6, 8};
	double by = (x[1] - layers[(int)x[0]]) / 4;
	double sum = (x[0] == 1 ? 0 : x[0] == 0 ? 0.6 : 0.9) + by * by + 0.2 * fabs(x[2] - 1);

	return sum + (isnan(x[3]) ? 0.1 : (x[3] - 0.9) * (x[3] - 0.9));
}

/* The best value of so many trials, of which `parallel` run at once. */
static double best_of(const struct smd_study *study, objective *function, uint64_t seed,
	size_t trials, size_t parallel)
{
	static double points[TRIALS_MAX][WIDTH_MAX];
	struct smd_past_trial past[TRIALS_MAX];
	double best = INFINITY;

	for (size_t i = 0; i < trials; i++) {
		assert_int_equal(smd_search_next(study, seed, trials, past, i, points[i]), 0);
		past[i] = (struct smd_past_trial){.point = points[i], .state = SMD_PAST_PENDING};
		if (i + 1 >= parallel) {
			struct smd_past_trial *ended = &past[i + 1 - parallel];

			ended->state = SMD_PAST_MEASURED;
			ended->value = function(ended->point);
		}
	}
	for (size_t i = 0; i < trials; i++) {
		best = fmin(best, function(points[i]));
	}
	return best;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one;
	double b = *(const double *)other;

	return a < b ? -1 : a > b;
}

static double median_of(
	const struct smd_study *study, objective *function, size_t trials, size_t parallel)
{
	double values[SEEDS];

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		values[seed] = best_of(study, function, seed, trials, parallel);
	}
	qsort(values, SEEDS, sizeof(values[0]), compare);
	return values[SEEDS / 2];
}

/* Over all seeds the median of what a Bayesian search finds is below that of random search, and not
 * further from the minimum than `near`. */
static void check_better(
	const char *name, struct smd_study *study, objective *function, size_t trials, double near)
{
	double random, alone, together;

	study->algorithm = SMD_ALGORITHM_RANDOM;
	random = median_of(study, function, trials, 1);
	study->algorithm = SMD_ALGORITHM_BAYESIAN;
	alone = median_of(study, function, trials, 1);
	together = median_of(study, function, trials, 4);
	print_message(
		"%s: random %g, Bayesian %g, four at once %g\n", name, random, alone, together);
	if (SEEDS > 1) {
		assert_true(alone < random && alone < near);
		assert_true(together < random);
	}
}

static void finds_branin(void **state)
{
	struct smd_parameter parameters[] = {
		real(-5, 10, SMD_SCALE_LINEAR), real(0, 15, SMD_SCALE_LINEAR)};
	struct smd_study study = study_of(parameters, 2);

	(void)state;
	check_better("branin", &study, branin, 25, 0.5);
}

static void finds_hartmann3(void **state)
{
	struct smd_parameter parameters[] = {real(0, 1, SMD_SCALE_LINEAR),
		real(0, 1, SMD_SCALE_LINEAR), real(0, 1, SMD_SCALE_LINEAR)};
	struct smd_study study = study_of(parameters, 3);

	(void)state;
	check_better("hartmann3", &study, hartmann3, 25, -3.75);
}

static void finds_rates(void **state)
{
	struct smd_parameter parameters[] = {
		real(1e-6, 1, SMD_SCALE_LOG), real(1e-9, 1e-1, SMD_SCALE_LOG)};
	struct smd_study study = study_of(parameters, 2);

	(void)state;
	check_better("rates", &study, rates, 20, 0.05);
}

static void finds_mixed(void **state)
{
	static double when[] = {1};
	struct smd_parameter parameters[] = {
		colour(), integer(1, 10, SMD_SCALE_LINEAR), batch(), real(0, 1, SMD_SCALE_LINEAR)};
	struct smd_study study = study_of(parameters, 4);

	(void)state;
	parameters[3].parent = 0;
	parameters[3].when = when;
	parameters[3].nwhen = 1;
	check_better("mixed", &study, mixed, 30, 0.1);
}

/* Maximising a function is minimising its negative. */
static double negative_branin(const double *x)
{
	return -branin(x);
}

static void maximises(void **state)
{
	static struct smd_metric metric = {.id = id};
	struct smd_parameter parameters[] = {
		real(-5, 10, SMD_SCALE_LINEAR), real(0, 15, SMD_SCALE_LINEAR)};
	struct smd_study study = study_of(parameters, 2);
	struct smd_past_trial past[25];
	double points[25][2];
	double best = -INFINITY;

	(void)state;
	study.metrics = &metric;
	for (size_t i = 0; i < 25; i++) {
		assert_int_equal(smd_search_next(&study, 7, 25, past, i, points[i]), 0);
		past[i] = (struct smd_past_trial){.point = points[i],
			.state = SMD_PAST_MEASURED,
			.value = negative_branin(points[i])};
		best = fmax(best, past[i].value);
	}
	assert_true(best > -0.6);
}

/* The same seed and the same trials give the same points; another seed gives others. */
static void is_repeatable(void **state)
{
	struct smd_parameter parameters[] = {
		real(-5, 10, SMD_SCALE_LINEAR), real(0, 15, SMD_SCALE_LINEAR)};
	struct smd_study study = study_of(parameters, 2);

	(void)state;
	for (int algorithm = 0; algorithm < 2; algorithm++) {
		study.algorithm = algorithm ? SMD_ALGORITHM_RANDOM : SMD_ALGORITHM_BAYESIAN;
		assert_true(best_of(&study, branin, 3, 15, 2) == best_of(&study, branin, 3, 15, 2));
		assert_true(best_of(&study, branin, 3, 15, 2) != best_of(&study, branin, 4, 15, 2));
	}
}

/* The first trial begins where the spec says. */
static void begins_where_told(void **state)
{
	struct smd_parameter parameters[] = {real(0.5, 8, SMD_SCALE_LOG), batch()};
	struct smd_study study = study_of(parameters, 2);
	double point[2];

	(void)state;
	parameters[1].initial = 2;
	assert_int_equal(smd_search_next(&study, 0, 10, NULL, 0, point), 0);
	assert_float_equal(point[0], 2, 1e-9);
	assert_true(point[1] == 2);
}

/* Values that say nothing, and more trials than points. */
static void survives(void **state)
{
	static const double values[] = {0, 1e308, -1e308, 5};
	struct smd_parameter parameters[] = {batch(), colour(), integer(2, 2, SMD_SCALE_LOG)};
	struct smd_study study = study_of(parameters, 3);
	struct smd_past_trial past[TRIALS_MAX];
	double points[TRIALS_MAX][3];

	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		for (size_t i = 0; i < TRIALS_MAX; i++) {
			assert_int_equal(
				smd_search_next(&study, 1, TRIALS_MAX, past, i, points[i]), 0);
			past[i].point = points[i];
			past[i].state = kind == 1 && i % 2   ? SMD_PAST_INFEASIBLE
					: kind == 2          ? SMD_PAST_INFEASIBLE
					: kind == 3 && i % 3 ? SMD_PAST_PENDING
							     : SMD_PAST_MEASURED;
			past[i].value = kind ? values[i % 4] : 1;
			assert_true(points[i][0] >= 0 && points[i][0] <= 2 && points[i][2] == 2);
		}
		for (size_t i = 0; i < 9 && kind == 0;
			i++) { /* none is tried twice before all are */
			for (size_t n = 3; n < i; n++) {
				assert_false(
					smd_space_is_same(&study, points[i], points[n]) && i > 3);
			}
		}
	}
}

/* More trials than the process has room for. */
static void takes_many(void **state)
{
	struct smd_parameter parameters[] = {
		real(-5, 10, SMD_SCALE_LINEAR), real(0, 15, SMD_SCALE_LINEAR)};
	struct smd_study study = study_of(parameters, 2);
	static struct smd_past_trial past[2000];
	static double points[2000][2];
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < 2000; i++) {
		smd_space_random(&study, &random, points[i]);
		past[i] = (struct smd_past_trial){.point = points[i],
			.state = i % 5 == 0   ? SMD_PAST_PENDING
				 : i % 7 == 0 ? SMD_PAST_INFEASIBLE
					      : SMD_PAST_MEASURED,
			.value = branin(points[i])};
	}
	assert_int_equal(smd_search_next(&study, 0, 3000, past, 2000, points[0]), 0);
	assert_true(branin(points[0]) < 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scales),
		cmocka_unit_test(equal_parts),
		cmocka_unit_test(grid_with_condition),
		cmocka_unit_test(finds_branin),
		cmocka_unit_test(finds_hartmann3),
		cmocka_unit_test(finds_rates),
		cmocka_unit_test(finds_mixed),
		cmocka_unit_test(maximises),
		cmocka_unit_test(is_repeatable),
		cmocka_unit_test(begins_where_told),
		cmocka_unit_test(survives),
		cmocka_unit_test(takes_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
