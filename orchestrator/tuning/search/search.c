/* Chooses the algorithm, and the points that a Bayesian search begins with. */
#include "orchestrator/tuning/search/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/tuning/search/space.h"
#include "reduction_server/base/hash.h"

#define FIRST_MIN 3 /* trials before the first that is computed */
#define FIRST_MAX 12

int smd_metric_is_better(const struct smd_metric *metric, double one, double other)
{
	return metric->is_minimised ? one < other : one > other;
}

/* Numbers that differ from trial to trial, and for seeds side by side. */
static uint64_t random_of(uint64_t seed, uint64_t trial)
{
	return smd_hash_add(smd_hash_add(SMD_HASH_SEED, seed * 0x9e3779b97f4a7c15u), trial + 1);
}

static int next_of_grid(const struct smd_study *study, const struct smd_past_trial *past,
	size_t count, double *point)
{
	if (count == 0) {
		smd_space_grid_first(study, point);
		return 0;
	}
	memcpy(point, past[count - 1].point, study->nparameters * sizeof(*point));
	return smd_space_grid_next(study, point);
}

static size_t count_varied(const struct smd_study *study)
{
	size_t count = 0;

	for (size_t i = 0; i < study->nparameters; i++) {
		count += !smd_parameter_is_fixed(&study->parameters[i]);
	}
	return count;
}

static size_t count_first(const struct smd_study *study, size_t max_trials)
{
	size_t count = 2 * count_varied(study);
	size_t third = max_trials / 3;

	count = count > FIRST_MAX ? FIRST_MAX : count;
	count = count > third ? third : count;
	return count < FIRST_MIN ? FIRST_MIN : count;
}

/* Where the spec says to begin, and the middle of everything else. */
static void begin(const struct smd_study *study, double *point)
{
	for (size_t i = 0; i < study->nparameters; i++) {
		const struct smd_parameter *parameter = &study->parameters[i];

		if (!smd_parameter_is_active(study, i, point)) {
			point[i] = NAN;
		} else if (!isnan(parameter->initial)) {
			point[i] = parameter->initial;
		} else {
			point[i] = smd_parameter_at(
				parameter, parameter->kind == SMD_PARAMETER_CATEGORICAL ? 0 : 0.5);
		}
	}
}

/* The root of x^(d+1) = x + 1: its powers spread points evenly in d dimensions (Roberts' R_d). */
static double spread_of(size_t dimensions)
{
	double root = 2;

	for (int i = 0; i < 60; i++) {
		root = pow(1 + root, 1 / ((double)dimensions + 1));
	}
	return root;
}

/* The trials after the first one cover the space evenly, from a random place on. */
static void cover(const struct smd_study *study, uint64_t seed, size_t trial, double *point)
{
	uint64_t random = random_of(seed, 0);
	double spread = spread_of(study->nparameters);
	double step = 1;

	for (size_t i = 0; i < study->nparameters; i++) {
		double place;

		step /= spread;
		place = smd_space_uniform(&random) + step * (double)trial;
		point[i] = smd_parameter_is_active(study, i, point)
				   ? smd_parameter_at(&study->parameters[i], place - floor(place))
				   : NAN;
	}
}

static int any_measured(const struct smd_past_trial *past, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (past[i].state == SMD_PAST_MEASURED) {
			return 1;
		}
	}
	return 0;
}

int smd_search_next(const struct smd_study *study, uint64_t seed, size_t max_trials,
	const struct smd_past_trial *past, size_t count, double *point)
{
	uint64_t random = random_of(seed, count);

	if (study->algorithm == SMD_ALGORITHM_GRID) {
		return next_of_grid(study, past, count, point);
	}
	if (study->algorithm == SMD_ALGORITHM_RANDOM) {
		smd_space_random(study, &random, point);
		return 0;
	}
	if (count == 0) {
		begin(study, point);
	} else if (count < count_first(study, max_trials)) {
		cover(study, seed, count, point);
	} else if (!any_measured(past, count)) {
		smd_space_random(study, &random, point);
	} else {
		return smd_bayesian_next(study, &random, past, count, point);
	}
	return 0;
}
