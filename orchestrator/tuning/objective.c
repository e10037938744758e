/* Compares trials by several metrics, and joins these into one (Knowles, ParEGO, 2006). */
#include "orchestrator/tuning/objective.h"

#include <math.h>
#include <stdlib.h>

#include "orchestrator/tuning/search/search.h"
#include "orchestrator/tuning/search/space.h"

#define SUM_SHARE 0.05 /* of the weighted sum, so that no metric is forgotten for the worst one */

int smd_objective_dominates(const struct smd_study *study, const double *one, const double *other)
{
	int is_better = 0;

	for (size_t i = 0; i < study->nmetrics; i++) {
		if (smd_metric_is_better(&study->metrics[i], other[i], one[i])) {
			return 0;
		}
		is_better |= smd_metric_is_better(&study->metrics[i], one[i], other[i]);
	}
	return is_better;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one;
	double b = *(const double *)other;

	return a < b ? -1 : a > b;
}

/* Makes 0 of the best value and 1 of the median, whatever the metric's unit is. */
static void scale(double *column, double *sorted, size_t count)
{
	double best, width;

	for (size_t i = 0; i < count; i++) {
		sorted[i] = column[i];
	}
	qsort(sorted, count, sizeof(*sorted), compare);
	best = sorted[0];
	width = sorted[count / 2] - best;
	if (!(width > 0)) {
		width = sorted[count - 1] - best;
	}
	for (size_t i = 0; i < count; i++) {
		column[i] = width > 0 ? fmin((column[i] - best) / width, 1e100) : 0;
	}
}

/* Adds a metric to what the others have made: the worst of the weighted ones, and a share of all.
 */
static void take_metric(const struct smd_study *study, size_t metric, double weight,
	const double *values, size_t count, double *column, double *sums, double *joined)
{
	for (size_t i = 0; i < count; i++) {
		double value = values[i * study->nmetrics + metric];

		column[i] = study->metrics[metric].is_minimised ? value : -value;
	}
	scale(column, column + count, count);
	for (size_t i = 0; i < count; i++) {
		joined[i] = fmax(joined[i], weight * column[i]);
		sums[i] += weight * column[i];
	}
}

void smd_objective_join(const struct smd_study *study, uint64_t seed, size_t turn,
	const double *values, size_t count, double *joined)
{
	uint64_t random = seed ^ (0x9e3779b97f4a7c15u * (turn + 1));
	double *room =
		study->nmetrics > 1 && count > 0 ? calloc(3 * count + 1, sizeof(*room)) : NULL;

	if (!room) { /* one metric; of several, without memory, the first one does */
		for (size_t i = 0; i < count; i++) {
			joined[i] = values[i * study->nmetrics];
		}
		return;
	}
	for (size_t i = 0; i < count; i++) {
		joined[i] = 0;
	}
	for (size_t i = 0; i < study->nmetrics; i++) {
		double weight = -log(1 - smd_space_uniform(&random));

		take_metric(study, i, weight, values, count, room, room + 2 * count, joined);
	}
	for (size_t i = 0; i < count; i++) {
		joined[i] += SUM_SHARE * room[2 * count + i];
		joined[i] = study->metrics[0].is_minimised ? joined[i] : -joined[i];
	}
	free(room);
}
