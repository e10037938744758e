/* Covariances, their Cholesky decomposition, and the likelihood that the lengths are chosen by. */
#include "orchestrator/tuning/search/gaussian.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/tuning/search/space.h"

#define JITTER      1e-10 /* keeps the decomposition from zero */
#define WORK        4e8   /* multiplications of a fit, about a second at most */
#define TRIES_MIN   30    /* of lengths */
#define TRIES_MAX   400
#define FIRST_TRIES 10 /* random ones, before the best is improved */
#define STEP        0.5
#define STEP_MIN    0.02
#define GROWTH      1.5

/* Lengths are expected to grow with the root of the number of parameters, because distances do. */
#define LENGTH_MEAN      1.41421356
#define LENGTH_DEVIATION 1.73205081
#define LENGTH_MIN       -6.0
#define LENGTH_MAX       8.0

int smd_gaussian_open(struct smd_gaussian *gaussian, const struct smd_study *study, size_t room)
{
	size_t width = study->nparameters;

	*gaussian = (struct smd_gaussian){.study = study, .room = room, .variance = 1};
	gaussian->places = calloc(room * width, sizeof(double));
	gaussian->values = calloc(room, sizeof(double));
	gaussian->cholesky = calloc(room * room, sizeof(double));
	gaussian->weights = calloc(room, sizeof(double));
	gaussian->row = calloc(room, sizeof(double));
	gaussian->at = calloc(width, sizeof(double));
	gaussian->log_lengths = calloc(width, sizeof(double));
	gaussian->weight_of = calloc(width, sizeof(double));
	if (!gaussian->places || !gaussian->values || !gaussian->cholesky || !gaussian->weights ||
		!gaussian->row || !gaussian->at || !gaussian->log_lengths || !gaussian->weight_of) {
		smd_gaussian_close(gaussian);
		return -ENOMEM;
	}
	return 0;
}

void smd_gaussian_close(struct smd_gaussian *gaussian)
{
	free(gaussian->places);
	free(gaussian->values);
	free(gaussian->cholesky);
	free(gaussian->weights);
	free(gaussian->row);
	free(gaussian->at);
	free(gaussian->log_lengths);
	free(gaussian->weight_of);
}

static void place_point(const struct smd_study *study, const double *point, double *places)
{
	for (size_t i = 0; i < study->nparameters; i++) {
		places[i] = isnan(point[i]) ? NAN
					    : smd_parameter_place(&study->parameters[i], point[i]);
	}
}

void smd_gaussian_add(struct smd_gaussian *gaussian, const double *point, double value)
{
	place_point(gaussian->study, point,
		gaussian->places + gaussian->count * gaussian->study->nparameters);
	gaussian->values[gaussian->count++] = value;
}

static double difference(const struct smd_parameter *parameter, double one, double other)
{
	if (isnan(one) || isnan(other)) {
		return isnan(one) && isnan(other) ? 0 : 1;
	}
	return parameter->kind == SMD_PARAMETER_CATEGORICAL ? one != other : one - other;
}

/* Matern's covariance of two points, by the variance of the process. */
static double covariance(
	const struct smd_gaussian *gaussian, const double *one, const double *other)
{
	double square = 0;
	double distance;

	for (size_t i = 0; i < gaussian->study->nparameters; i++) {
		double by = difference(&gaussian->study->parameters[i], one[i], other[i]);

		square += gaussian->weight_of[i] * by * by;
	}
	distance = sqrt(5 * square);
	return (1 + distance + distance * distance / 3) * exp(-distance);
}

/* The lower triangle of the covariances becomes its Cholesky decomposition. */
static int decompose(struct smd_gaussian *gaussian)
{
	double *matrix = gaussian->cholesky;
	size_t stride = gaussian->room;

	for (size_t i = 0; i < gaussian->count; i++) {
		double *row = matrix + i * stride;

		for (size_t j = 0; j <= i; j++) {
			const double *other = matrix + j * stride;
			double sum = row[j];

			for (size_t k = 0; k < j; k++) {
				sum -= row[k] * other[k];
			}
			if (i == j && !(sum > 0)) {
				return -EDOM;
			}
			row[j] = i == j ? sqrt(sum) : sum / other[j];
		}
	}
	return 0;
}

/* Solves with the decomposition: L x = b. */
static void solve_lower(const struct smd_gaussian *gaussian, double *x)
{
	for (size_t i = 0; i < gaussian->count; i++) {
		const double *row = gaussian->cholesky + i * gaussian->room;

		for (size_t k = 0; k < i; k++) {
			x[i] -= row[k] * x[k];
		}
		x[i] /= row[i];
	}
}

static void solve_upper(const struct smd_gaussian *gaussian, double *x)
{
	for (size_t i = gaussian->count; i-- > 0;) {
		x[i] /= gaussian->cholesky[i * gaussian->room + i];
		for (size_t k = 0; k < i; k++) {
			x[k] -= gaussian->cholesky[i * gaussian->room + k] * x[i];
		}
	}
}

static void fill_covariances(struct smd_gaussian *gaussian)
{
	size_t width = gaussian->study->nparameters;
	double noise = exp(gaussian->log_noise) + JITTER;

	for (size_t i = 0; i < width; i++) {
		gaussian->weight_of[i] = exp(-2 * gaussian->log_lengths[i]);
	}
	for (size_t i = 0; i < gaussian->count; i++) {
		for (size_t j = 0; j < i; j++) {
			gaussian->cholesky[i * gaussian->room + j] = covariance(gaussian,
				gaussian->places + i * width, gaussian->places + j * width);
		}
		gaussian->cholesky[i * gaussian->room + i] = 1 + noise;
	}
}

/* The variance follows from the measurements once the lengths are known. The logarithm of their
 * likelihood, but for what is the same for all lengths. */
static double likelihood(struct smd_gaussian *gaussian)
{
	double squares = 0;
	double logs = 0;
	size_t count = gaussian->count;

	fill_covariances(gaussian);
	if (decompose(gaussian)) {
		return -INFINITY;
	}
	memcpy(gaussian->row, gaussian->values, count * sizeof(double));
	solve_lower(gaussian, gaussian->row);
	for (size_t i = 0; i < count; i++) {
		squares += gaussian->row[i] * gaussian->row[i];
		logs += log(gaussian->cholesky[i * gaussian->room + i]);
	}
	return -0.5 * (double)count * log(squares / (double)count + JITTER) - logs;
}

static double prior_noise(const struct smd_study *study)
{
	return study->noise == SMD_NOISE_LOW    ? log(1e-6)
	       : study->noise == SMD_NOISE_HIGH ? log(1e-1)
						: log(1e-4);
}

static double prior_length(const struct smd_study *study)
{
	return LENGTH_MEAN + 0.5 * log((double)study->nparameters);
}

static double square(double value)
{
	return value * value;
}

/* How likely measurements and lengths are together. */
static double merit(struct smd_gaussian *gaussian)
{
	const struct smd_study *study = gaussian->study;
	double sum = -0.5 * square((gaussian->log_noise - prior_noise(study)) / 2);

	for (size_t i = 0; i < study->nparameters; i++) {
		if (!smd_parameter_is_fixed(&study->parameters[i])) {
			sum -= 0.5 * square((gaussian->log_lengths[i] - prior_length(study)) /
					     LENGTH_DEVIATION);
		}
	}
	return sum + likelihood(gaussian);
}

/* Lengths and noise as one list, the noise last. */
static void set_lengths(struct smd_gaussian *gaussian, const double *list)
{
	size_t width = gaussian->study->nparameters;

	for (size_t i = 0; i < width; i++) {
		gaussian->log_lengths[i] = fmin(fmax(list[i], LENGTH_MIN), LENGTH_MAX);
	}
	gaussian->log_noise = fmin(fmax(list[width], log(1e-8)), log(10));
}

static int count_tries(const struct smd_gaussian *gaussian)
{
	double count = (double)gaussian->count;
	double width = (double)gaussian->study->nparameters;
	double tries = WORK / (count * count * count / 3 + count * count * (width + 20) + 1);

	return (int)fmin(fmax(tries, TRIES_MIN), TRIES_MAX);
}

static void propose(const struct smd_gaussian *gaussian, const double *best, double step,
	int is_first, uint64_t *random, double *list)
{
	size_t width = gaussian->study->nparameters;
	size_t only = (size_t)(smd_space_uniform(random) * (double)(width + 1));
	int moves_one = smd_space_uniform(random) < 0.5;

	for (size_t i = 0; i <= width; i++) {
		double by = smd_space_normal(random);

		if (is_first) {
			double mean = i < width ? prior_length(gaussian->study) - 2
						: prior_noise(gaussian->study);

			list[i] = mean + by;
		} else {
			list[i] = best[i] + (moves_one && i != only ? 0 : step * by);
		}
	}
}

/* Climbs: steps grow with each that leads up, and shrink with the others. */
static void climb(struct smd_gaussian *gaussian, double *best, double *list, uint64_t *random)
{
	size_t width = gaussian->study->nparameters;
	int tries = count_tries(gaussian);
	double highest = -INFINITY;
	double step = STEP;

	for (int i = 0; i < tries; i++) {
		double height;

		propose(gaussian, best, step, i > 0 && i < FIRST_TRIES, random, list);
		set_lengths(gaussian, i == 0 ? best : list);
		height = merit(gaussian);
		if (height > highest) {
			highest = height;
			memcpy(best, gaussian->log_lengths, width * sizeof(double));
			best[width] = gaussian->log_noise;
			step = i < FIRST_TRIES ? step : step * GROWTH;
		} else if (i >= FIRST_TRIES) {
			step = fmax(step * 0.9, STEP_MIN);
		}
	}
}

int smd_gaussian_settle(struct smd_gaussian *gaussian)
{
	double squares = 0;

	fill_covariances(gaussian);
	if (gaussian->count == 0 || decompose(gaussian)) {
		return -EDOM;
	}
	memcpy(gaussian->weights, gaussian->values, gaussian->count * sizeof(double));
	solve_lower(gaussian, gaussian->weights);
	for (size_t i = 0; i < gaussian->count; i++) {
		squares += gaussian->weights[i] * gaussian->weights[i];
	}
	gaussian->variance = squares / (double)gaussian->count + JITTER;
	solve_upper(gaussian, gaussian->weights);
	return 0;
}

int smd_gaussian_fit(struct smd_gaussian *gaussian, uint64_t *random)
{
	size_t width = gaussian->study->nparameters;
	double *lists = calloc(2 * (width + 1), sizeof(*lists));

	if (!lists) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < width; i++) {
		lists[i] = prior_length(gaussian->study) - LENGTH_DEVIATION * LENGTH_DEVIATION;
	}
	lists[width] = prior_noise(gaussian->study);
	climb(gaussian, lists, lists + width + 1, random);
	set_lengths(gaussian, lists);
	free(lists);
	return smd_gaussian_settle(gaussian);
}

void smd_gaussian_predict(
	const struct smd_gaussian *gaussian, const double *point, double *mean, double *deviation)
{
	size_t width = gaussian->study->nparameters;
	double *places = gaussian->at;
	double left = 1;

	place_point(gaussian->study, point, places);
	*mean = 0;
	for (size_t i = 0; i < gaussian->count; i++) {
		gaussian->row[i] = covariance(gaussian, places, gaussian->places + i * width);
		*mean += gaussian->row[i] * gaussian->weights[i];
	}
	solve_lower(gaussian, gaussian->row);
	for (size_t i = 0; i < gaussian->count; i++) {
		left -= gaussian->row[i] * gaussian->row[i];
	}
	*deviation = sqrt(gaussian->variance * fmax(left, 0));
}
