/*
 * The point at which the best value so far is improved most, by expectation.
 *
 * Values worse than the median are pressed together, so that a few very bad ones do not hide what
 * sets the good ones apart. A trial that is infeasible counts as the worst measured one; one that
 * has not ended as what is expected of it, so that trials at once do not all go to one place.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/tuning/search/gaussian.h"
#include "orchestrator/tuning/search/search.h"
#include "orchestrator/tuning/search/space.h"

#define POINTS_MAX  250 /* of the process: the best ones, and those without a value */
#define CANDIDATES  700
#define NEAR        300 /* of them, around the best points */
#define CENTRES     5
#define CLIMBERS    4
#define CLIMBS      60
#define WIDTH_FIRST 0.2
#define GAIN_MIN    3e-2 /* of a deviation of the measurements: less is not worth a trial */
#define CONFIDENCE  1.0

struct scored {
	double gain;
	double *point;
};

struct bayesian {
	const struct smd_study *study;
	const struct smd_past_trial *past;
	size_t count;
	uint64_t *random;
	struct smd_gaussian gaussian;
	size_t *order;  /* of the measured trials, the best first */
	double *values; /* of these, lower is better, mean 0 and deviation 1 */
	size_t nmeasured;
	double best;
	int explores;    /* rather than expects: candidates are judged by what they may be */
	double *scratch; /* a point for each candidate */
	struct scored *candidates;
	size_t ncandidates;
};

static const struct bayesian *sorted; /* qsort has no argument */

static double cost_of(const struct bayesian *search, size_t trial)
{
	double value = search->past[trial].value;

	return search->study->metrics[0].is_minimised ? value : -value;
}

static int compare_trials(const void *one, const void *other)
{
	double a = cost_of(sorted, *(const size_t *)one);
	double b = cost_of(sorted, *(const size_t *)other);

	return a < b ? -1 : a > b;
}

static int compare_candidates(const void *one, const void *other)
{
	double a = ((const struct scored *)one)->gain;
	double b = ((const struct scored *)other)->gain;

	return a > b ? -1 : a < b;
}

/* What is worse than the median counts by its logarithm. */
static void press(struct bayesian *search)
{
	size_t count = search->nmeasured;
	double median = cost_of(search, search->order[count / 2]);
	double span = median - cost_of(search, search->order[0]);

	for (size_t i = 0; i < count; i++) {
		double cost = cost_of(search, search->order[i]) - median;

		if (!(span > 0) || isinf(span)) {
			search->values[i] = cost > 0; /* all but a few are the same */
		} else {
			cost /= span;
			search->values[i] = cost > 0 ? log1p(fmin(cost, 1e6)) : cost;
		}
	}
}

static void normalise(struct bayesian *search)
{
	double sum = 0;
	double squares = 0;
	double deviation;

	for (size_t i = 0; i < search->nmeasured; i++) {
		sum += search->values[i];
	}
	sum /= (double)search->nmeasured;
	for (size_t i = 0; i < search->nmeasured; i++) {
		search->values[i] -= sum;
		squares += search->values[i] * search->values[i];
	}
	deviation = sqrt(squares / (double)search->nmeasured);
	for (size_t i = 0; i < search->nmeasured && deviation > 0; i++) {
		search->values[i] /= deviation;
	}
	search->best = search->values[0];
}

static void sort_measured(struct bayesian *search)
{
	for (size_t i = 0; i < search->count; i++) {
		if (search->past[i].state == SMD_PAST_MEASURED) {
			search->order[search->nmeasured++] = i;
		}
	}
	sorted = search;
	qsort(search->order, search->nmeasured, sizeof(*search->order), compare_trials);
	press(search);
	normalise(search);
}

/* Of the measured ones half the room is for the best, and half for an even choice of the others. */
static void add_measured(struct bayesian *search, size_t room)
{
	size_t best = search->nmeasured < room ? search->nmeasured : room / 2;
	size_t others = search->nmeasured - best;
	size_t left = room - best < others ? room - best : others;

	for (size_t i = 0; i < best + left; i++) {
		size_t place = i < best ? i : best + (i - best) * others / left;

		smd_gaussian_add(&search->gaussian, search->past[search->order[place]].point,
			search->values[place]);
	}
}

static void add_infeasible(struct bayesian *search)
{
	double worst = search->values[search->nmeasured - 1];

	for (size_t i = search->count; i-- > 0 && search->gaussian.count < POINTS_MAX;) {
		if (search->past[i].state == SMD_PAST_INFEASIBLE) {
			smd_gaussian_add(&search->gaussian, search->past[i].point, worst);
		}
	}
}

static int add_pending(struct bayesian *search)
{
	size_t known = search->gaussian.count;
	double deviation;
	double mean;

	for (size_t i = search->count; i-- > 0;) {
		if (search->past[i].state == SMD_PAST_PENDING &&
			search->gaussian.count < search->gaussian.room) {
			size_t count = search->gaussian.count;

			search->gaussian.count = known; /* the others are not known yet */
			smd_gaussian_predict(
				&search->gaussian, search->past[i].point, &mean, &deviation);
			search->gaussian.count = count;
			smd_gaussian_add(&search->gaussian, search->past[i].point, mean);
		}
	}
	return search->gaussian.count > known ? smd_gaussian_settle(&search->gaussian) : 0;
}

/* By how much a point is expected to be better than the best one; or how good it may still be. */
static double gain_of(const struct bayesian *search, const double *point)
{
	double mean, deviation, by;

	smd_gaussian_predict(&search->gaussian, point, &mean, &deviation);
	if (search->explores) {
		return CONFIDENCE * deviation - mean;
	}
	if (!(deviation > 0)) {
		return 0;
	}
	by = (search->best - mean) / deviation;
	return deviation * (by * 0.5 * erfc(-by * M_SQRT1_2) +
				   exp(-0.5 * by * by) * (M_2_SQRTPI * M_SQRT1_2 * 0.5));
}

static int is_known(const struct bayesian *search, const double *point)
{
	for (size_t i = 0; i < search->count; i++) {
		if (smd_space_is_same(search->study, search->past[i].point, point)) {
			return 1;
		}
	}
	return 0;
}

/* A point near another one: some of its parameters are moved, at least one. */
static void move(const struct bayesian *search, const double *from, double width, double *to)
{
	const struct smd_study *study = search->study;
	double chance = fmax(0.3, 1 / (double)study->nparameters);
	size_t always = (size_t)(smd_space_uniform(search->random) * (double)study->nparameters);

	for (size_t i = 0; i < study->nparameters; i++) {
		const struct smd_parameter *parameter = &study->parameters[i];
		double place = smd_space_uniform(search->random);
		double by = width * smd_space_normal(search->random);
		int moves = i == always || smd_space_uniform(search->random) < chance;

		if (!smd_parameter_is_active(study, i, to)) {
			to[i] = NAN;
		} else if (isnan(from[i]) ||
			   (moves && parameter->kind >= SMD_PARAMETER_CATEGORICAL)) {
			to[i] = smd_parameter_at(parameter, place);
		} else if (moves) {
			place = smd_parameter_place(parameter, from[i]) + by;
			to[i] = smd_parameter_at(parameter, fmin(fmax(place, 0), 1));
		} else {
			to[i] = from[i];
		}
	}
}

/* Known points are left out, as long as there are others. */
static void add_candidate(struct bayesian *search, double *point)
{
	if (!is_known(search, point)) {
		search->candidates[search->ncandidates++] =
			(struct scored){gain_of(search, point), point};
	}
}

static void scatter(struct bayesian *search)
{
	size_t width = search->study->nparameters;
	size_t centres = search->nmeasured < CENTRES ? search->nmeasured : CENTRES;

	for (size_t i = 0; i < CANDIDATES; i++) {
		double *point = search->scratch + i * width;

		if (i < NEAR) {
			size_t centre = search->order[i % centres];
			double reach = WIDTH_FIRST * pow(0.1, 2.5 * (double)i / NEAR);

			move(search, search->past[centre].point, reach, point);
		} else {
			smd_space_random(search->study, search->random, point);
		}
		add_candidate(search, point);
	}
	qsort(search->candidates, search->ncandidates, sizeof(*search->candidates),
		compare_candidates);
}

/* The best candidates go uphill in ever smaller steps. */
static void climb(struct bayesian *search)
{
	size_t size = search->study->nparameters * sizeof(double);
	double *trial = search->scratch + CANDIDATES * search->study->nparameters;
	size_t count = search->ncandidates < CLIMBERS ? search->ncandidates : CLIMBERS;

	for (size_t i = 0; i < count; i++) {
		struct scored *climber = &search->candidates[i];
		double reach = WIDTH_FIRST / 2;

		for (int n = 0; n < CLIMBS; n++) {
			double gain;

			move(search, climber->point, reach, trial);
			gain = is_known(search, trial) ? -INFINITY : gain_of(search, trial);
			if (gain > climber->gain) {
				climber->gain = gain;
				memcpy(climber->point, trial, size);
			} else {
				reach *= 0.92;
			}
		}
	}
	qsort(search->candidates, count, sizeof(*search->candidates), compare_candidates);
}

static double best_gain(const struct bayesian *search)
{
	return search->ncandidates > 0 ? search->candidates[0].gain : 0;
}

/* Where the best point can hardly be improved any more, others are looked for. */
static void choose(struct bayesian *search, double *point)
{
	scatter(search);
	climb(search);
	if (best_gain(search) < GAIN_MIN) {
		search->explores = 1;
		search->ncandidates = 0;
		scatter(search);
		climb(search);
	}
	if (search->ncandidates > 0) {
		memcpy(point, search->candidates[0].point,
			search->study->nparameters * sizeof(*point));
	} else {
		smd_space_random(search->study, search->random, point); /* all have been tried */
	}
}

static size_t count_pending(const struct bayesian *search)
{
	size_t count = 0;

	for (size_t i = 0; i < search->count; i++) {
		count += search->past[i].state == SMD_PAST_PENDING;
	}
	return count < POINTS_MAX ? count : POINTS_MAX;
}

static int search_next(struct bayesian *search, double *point)
{
	int ret;

	sort_measured(search);
	add_measured(search, POINTS_MAX * 4 / 5);
	add_infeasible(search);
	ret = smd_gaussian_fit(&search->gaussian, search->random);
	ret = ret ? ret : add_pending(search);
	if (ret == -EDOM) {
		smd_space_random(search->study, search->random, point);
		return 0;
	}
	if (!ret) {
		choose(search, point);
	}
	return ret;
}

int smd_bayesian_next(const struct smd_study *study, uint64_t *random,
	const struct smd_past_trial *past, size_t count, double *point)
{
	struct bayesian search = {.study = study, .past = past, .count = count, .random = random};
	int ret = smd_gaussian_open(&search.gaussian, study, POINTS_MAX + count_pending(&search));

	if (ret) {
		return ret;
	}
	search.order = calloc(count, sizeof(*search.order));
	search.values = calloc(count, sizeof(*search.values));
	search.scratch = calloc((CANDIDATES + 1) * study->nparameters, sizeof(*search.scratch));
	search.candidates = calloc(CANDIDATES, sizeof(*search.candidates));
	ret = search.order && search.values && search.scratch && search.candidates
		      ? search_next(&search, point)
		      : -ENOMEM;
	free(search.order);
	free(search.values);
	free(search.scratch);
	free(search.candidates);
	smd_gaussian_close(&search.gaussian);
	return ret;
}
