/* Keeps measurements, and compares them with those of other trials. */
#include "orchestrator/tuning/measurements.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "orchestrator/tuning/search/search.h"

#define KNOWN_MAX 256 /* measurements that a file may repeat: cloudml-hypertune's has 100 */
#define ROOM_MIN  16

static int is_known(
	const struct smd_measurements *measurements, const struct smd_measurement *measurement)
{
	size_t first = measurements->count > KNOWN_MAX ? measurements->count - KNOWN_MAX : 0;

	for (size_t i = measurements->count; i-- > first;) {
		const struct smd_measurement *known = &measurements->list[i];

		if (known->step == measurement->step && known->value == measurement->value &&
			(known->time == measurement->time || isnan(measurement->time))) {
			return 1;
		}
	}
	return 0;
}

/* The newest stay, so that they are known when they are read again. */
static void thin_out(struct smd_measurements *measurements)
{
	size_t old = measurements->count - KNOWN_MAX;
	size_t kept = 0;

	for (size_t i = 0; i < measurements->count; i++) {
		if (i >= old || i % 2 == 0) {
			measurements->list[kept++] = measurements->list[i];
		}
	}
	measurements->count = kept;
}

static int make_room(struct smd_measurements *measurements)
{
	size_t room = measurements->room ? 2 * measurements->room : ROOM_MIN;
	void *list;

	if (measurements->count == SMD_MEASUREMENTS_MAX) {
		thin_out(measurements);
	}
	if (measurements->count < measurements->room) {
		return 0;
	}
	list = realloc(measurements->list, room * sizeof(*measurements->list));
	if (!list) {
		return -ENOMEM;
	}
	measurements->list = list;
	measurements->room = room;
	return 0;
}

int smd_measurements_add(struct smd_measurements *measurements, const struct smd_metric *metric,
	struct smd_measurement measurement, double now)
{
	if (is_known(measurements, &measurement)) {
		return 0;
	}
	if (isnan(measurement.time)) {
		measurement.time = now;
	}
	if (make_room(measurements)) {
		return -ENOMEM;
	}
	if (measurements->count == 0 ||
		smd_metric_is_better(metric, measurement.value, measurements->best.value)) {
		measurements->best = measurement;
	}
	measurements->list[measurements->count++] = measurement;
	return 0;
}

void smd_measurements_free(struct smd_measurements *measurements)
{
	free(measurements->list);
	*measurements = (struct smd_measurements){.count = 0};
}

const struct smd_measurement *smd_measurements_final(
	const struct smd_measurements *measurements, int takes_best)
{
	if (measurements->count == 0) {
		return NULL;
	}
	return takes_best ? &measurements->best : &measurements->list[measurements->count - 1];
}

double smd_measurement_progress(const struct smd_measurements *measurements,
	const struct smd_measurement *measurement, int by_time)
{
	return by_time ? fmax(measurement->time - measurements->begin, 0)
		       : (double)measurement->step;
}

/* NAN: it had none by then. */
static double average_until(
	const struct smd_measurements *measurements, double progress, int by_time)
{
	double sum = 0;
	size_t count = 0;

	for (size_t i = 0; i < measurements->count; i++) {
		const struct smd_measurement *one = &measurements->list[i];

		if (smd_measurement_progress(measurements, one, by_time) <= progress) {
			count++;
			sum += (one->value - sum) / (double)count; /* does not overflow */
		}
	}
	return count ? sum : NAN;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one;
	double b = *(const double *)other;

	return a < b ? -1 : a > b;
}

int smd_measurements_are_below_median(const struct smd_study *study,
	const struct smd_measurements *trial, const struct smd_measurements *const *others,
	size_t count)
{
	double *averages;
	double progress, median;
	size_t known = 0;

	if (trial->count == 0 || count < SMD_MEDIAN_TRIALS) {
		return 0;
	}
	averages = calloc(count, sizeof(*averages));
	if (!averages) {
		return 0;
	}
	progress = smd_measurement_progress(
		trial, &trial->list[trial->count - 1], study->counts_elapsed);
	for (size_t i = 0; i < count; i++) {
		averages[known] = average_until(others[i], progress, study->counts_elapsed);
		known += !isnan(averages[known]);
	}
	qsort(averages, known, sizeof(*averages), compare);
	median = known ? averages[known / 2] / 2 + averages[(known - 1) / 2] / 2 : 0;
	free(averages);
	return known >= SMD_MEDIAN_TRIALS &&
	       smd_metric_is_better(&study->metrics[0], median, trial->best.value);
}
