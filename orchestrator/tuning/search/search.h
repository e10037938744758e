/*
 * Which parameters a trial gets: a pure function of the study, the seed and the trials before.
 */
#ifndef SMD_TUNING_SEARCH_SEARCH_H
#define SMD_TUNING_SEARCH_SEARCH_H

#include "orchestrator/job/study.h"

enum smd_past_state {
	SMD_PAST_PENDING, /* it has not ended */
	SMD_PAST_MEASURED,
	SMD_PAST_INFEASIBLE /* it has ended without a value */
};

struct smd_past_trial {
	const double *point;
	enum smd_past_state state;
	double value; /* if it was measured; as the first metric has it, or joined (objective.h) */
};

/* The point of the trial after `past`. 0; -ENOENT: the grid has no more points; -ENOMEM. */
int smd_search_next(const struct smd_study *study, uint64_t seed, size_t max_trials,
	const struct smd_past_trial *past, size_t count, double *point);

/* The same by a Gaussian process and expected improvement, with the search's own numbers. */
int smd_bayesian_next(const struct smd_study *study, uint64_t *random,
	const struct smd_past_trial *past, size_t count, double *point);

/* Whether the first value is better than the second one. */
int smd_metric_is_better(const struct smd_metric *metric, double one, double other);

#endif
