/*
 * What one trial has reported of one metric, and the rule that ends trials which do worse than
 * others did.
 */
#ifndef SMD_TUNING_MEASUREMENTS_H
#define SMD_TUNING_MEASUREMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "orchestrator/job/study.h"

#define SMD_MEASUREMENTS_MAX 4096 /* kept of a trial; of more, every second one */

struct smd_measurement {
	int64_t step;
	double time; /* seconds since 1970 */
	double value;
};

struct smd_measurements {
	struct smd_measurement *list; /* in the order of their reports */
	size_t count;
	size_t room;
	struct smd_measurement best; /* if there is one at all */
	double begin;                /* of the trial, in seconds since 1970 */
};

/* Takes a measurement, unless it is known; `now` stands for a time that is NAN. 0 or -ENOMEM. */
int smd_measurements_add(struct smd_measurements *measurements, const struct smd_metric *metric,
	struct smd_measurement measurement, double now);
void smd_measurements_free(struct smd_measurements *measurements);

/* The one that counts: the last, or the best. NULL: there is none. */
const struct smd_measurement *smd_measurements_final(
	const struct smd_measurements *measurements, int takes_best);

/* How far the trial was, in steps or, if `by_time`, in seconds. */
double smd_measurement_progress(const struct smd_measurements *measurements,
	const struct smd_measurement *measurement, int by_time);

#define SMD_MEDIAN_TRIALS 5 /* that have ended with a value: fewer are no median */

/*
 * The median rule: the trial is to end if its best value so far is worse than the median of what
 * the others had on average up to where it is now. `others` have ended with a value.
 */
int smd_measurements_are_below_median(const struct smd_study *study,
	const struct smd_measurements *trial, const struct smd_measurements *const *others,
	size_t count);

#endif
