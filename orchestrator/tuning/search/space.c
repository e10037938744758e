/* Scales, random points and the grid. */
#include "orchestrator/tuning/search/space.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/random.h"

double smd_space_uniform(uint64_t *random)
{
	return (double)(smd_random_next(random) >> 11) * 0x1p-53;
}

double smd_space_normal(uint64_t *random)
{
	double radius = sqrt(-2 * log(1 - smd_space_uniform(random)));

	return radius * cos(2 * M_PI * smd_space_uniform(random));
}

/* Where the scale begins and ends: an integer's range reaches half beyond its first and last one,
 * so that these are as likely as the others. */
static void range_of(const struct smd_parameter *parameter, double *low, double *high)
{
	double margin = parameter->kind == SMD_PARAMETER_INTEGER ? 0.5 : 0;

	if (parameter->kind == SMD_PARAMETER_DISCRETE) {
		*low = parameter->numbers[0];
		*high = parameter->numbers[parameter->nvalues - 1];
	} else {
		*low = parameter->min - margin;
		*high = parameter->max + margin;
	}
}

/* A range may be wider than the greatest number. */
static double scale(enum smd_scale kind, double low, double high, double place)
{
	switch (kind) {
	case SMD_SCALE_LOG:
		return exp(log(low) * (1 - place) + log(high) * place);
	case SMD_SCALE_REVERSE_LOG:
		return low - (exp(log(high) * (1 - place) + log(low) * place) - high);
	default:
		return low * (1 - place) + high * place;
	}
}

static double unscale(enum smd_scale kind, double low, double high, double value)
{
	if (!(high > low)) {
		return 0.5;
	}
	switch (kind) {
	case SMD_SCALE_LOG:
		return (log(value) - log(low)) / (log(high) - log(low));
	case SMD_SCALE_REVERSE_LOG:
		return (log(high) - log(low + (high - value))) / (log(high) - log(low));
	default:
		return (value / 2 - low / 2) / (high / 2 - low / 2);
	}
}

static double clamp(double value, double low, double high)
{
	return fmin(fmax(value, low), high);
}

/* Ten digits are enough to tell values apart, and read better than seventeen. */
static double round_digits(const struct smd_parameter *parameter, double value)
{
	char text[32];
	double rounded;

	snprintf(text, sizeof(text), "%.10g", value);
	rounded = strtod(text, NULL);
	return fabs(rounded - value) < 1e-6 * (parameter->max - parameter->min) ? rounded : value;
}

double smd_parameter_at(const struct smd_parameter *parameter, double place)
{
	double low, high, value;

	if (parameter->kind >= SMD_PARAMETER_CATEGORICAL) {
		return clamp(floor(place * (double)parameter->nvalues), 0,
			(double)parameter->nvalues - 1);
	}
	range_of(parameter, &low, &high);
	value = scale(parameter->scale, low, high, place);
	return clamp(parameter->kind == SMD_PARAMETER_INTEGER ? round(value)
							      : round_digits(parameter, value),
		parameter->min, parameter->max);
}

double smd_parameter_place(const struct smd_parameter *parameter, double value)
{
	double low, high;

	if (parameter->kind == SMD_PARAMETER_CATEGORICAL) {
		return (value + 0.5) / (double)parameter->nvalues;
	}
	range_of(parameter, &low, &high);
	if (parameter->kind == SMD_PARAMETER_DISCRETE) {
		value = parameter->numbers[(size_t)value];
	}
	return clamp(unscale(parameter->scale, low, high, value), 0, 1);
}

int smd_parameter_is_fixed(const struct smd_parameter *parameter)
{
	return parameter->kind <= SMD_PARAMETER_INTEGER ? parameter->min == parameter->max
							: parameter->nvalues == 1;
}

void smd_space_at(const struct smd_study *study, const double *places, double *point)
{
	for (size_t i = 0; i < study->nparameters; i++) {
		point[i] = smd_parameter_is_active(study, i, point)
				   ? smd_parameter_at(&study->parameters[i], places[i])
				   : NAN;
	}
}

void smd_space_random(const struct smd_study *study, uint64_t *random, double *point)
{
	for (size_t i = 0; i < study->nparameters; i++) {
		double place = smd_space_uniform(random);

		point[i] = smd_parameter_is_active(study, i, point)
				   ? smd_parameter_at(&study->parameters[i], place)
				   : NAN;
	}
}

int smd_space_is_same(const struct smd_study *study, const double *one, const double *other)
{
	for (size_t i = 0; i < study->nparameters; i++) {
		if (one[i] != other[i] && !(isnan(one[i]) && isnan(other[i]))) {
			return 0;
		}
	}
	return 1;
}

static double first_of(const struct smd_parameter *parameter)
{
	return parameter->kind <= SMD_PARAMETER_INTEGER ? parameter->min : 0;
}

static double last_of(const struct smd_parameter *parameter)
{
	return parameter->kind <= SMD_PARAMETER_INTEGER ? parameter->max
							: (double)parameter->nvalues - 1;
}

static void grid_begin(const struct smd_study *study, size_t from, double *point)
{
	for (size_t i = from; i < study->nparameters; i++) {
		point[i] = smd_parameter_is_active(study, i, point)
				   ? first_of(&study->parameters[i])
				   : NAN;
	}
}

void smd_space_grid_first(const struct smd_study *study, double *point)
{
	grid_begin(study, 0, point);
}

int smd_space_grid_next(const struct smd_study *study, double *point)
{
	for (size_t i = study->nparameters; i-- > 0;) {
		if (!isnan(point[i]) && point[i] < last_of(&study->parameters[i])) {
			point[i] += 1;
			grid_begin(study, i + 1, point);
			return 0;
		}
	}
	return -ENOENT;
}
