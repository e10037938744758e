/*
 * What trials are compared by: the values of one metric, or of several, of which none counts more
 * than the others.
 */
#ifndef SMD_TUNING_OBJECTIVE_H
#define SMD_TUNING_OBJECTIVE_H

#include "orchestrator/job/study.h"

/* Whether one trial's values are better than another one's in a metric and worse in none. */
int smd_objective_dominates(const struct smd_study *study, const double *one, const double *other);

/*
 * One number for each trial's values, as the search compares trials by one: the better in the
 * direction of the first metric. Of several metrics the weights change with `turn`, so that a
 * search whose turns follow each other looks for all of the best compromises. `values` has a row
 * of the study's metrics for each of `count` trials.
 */
void smd_objective_join(const struct smd_study *study, uint64_t seed, size_t turn,
	const double *values, size_t count, double *joined);

#endif
