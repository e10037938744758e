/* Knows which trials of a study are the best so far, and what the search is told of all. */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/tuning/objective.h"
#include "orchestrator/tuning/search/search.h"
#include "orchestrator/tuning/study_run.h"
#include "reduction_server/base/clock.h"

/* The values of all metrics; 0: it has none. */
static int values_of(const struct smd_study *study, const struct smd_trial *trial, double values[])
{
	for (size_t i = 0; i < study->nmetrics; i++) {
		const struct smd_measurement *final = smd_trial_final(trial, study, i);

		if (!final) {
			return 0;
		}
		values[i] = final->value;
	}
	return 1;
}

/* Whether another trial is better; among equal ones the first to end is the best. */
static int is_beaten(const struct smd_study_run *run, const struct smd_trial *trial, int by_equal)
{
	size_t width = run->study->nmetrics;
	double *own = calloc(2 * width, sizeof(*own));
	int is = !own || !values_of(run->study, trial, own);

	for (size_t i = 0; i < run->count && !is; i++) {
		is = &run->trials[i] != trial &&
		     values_of(run->study, &run->trials[i], own + width) &&
		     (smd_objective_dominates(run->study, own + width, own) ||
			     (by_equal && memcmp(own, own + width, width * sizeof(*own)) == 0));
	}
	free(own);
	return is;
}

int smd_study_run_is_best(const struct smd_study_run *run, const struct smd_trial *trial)
{
	return run->study->nmetrics > 1 ? run->best && !is_beaten(run, trial, 0)
					: trial == run->best;
}

void smd_study_run_judge(struct smd_study_run *run, const struct smd_trial *trial)
{
	if (is_beaten(run, trial, 1)) {
		run->ended_since_best++;
	} else {
		run->best = trial;
		run->best_ns = smd_clock_ns();
		run->ended_since_best = 0;
	}
}

/* Gives those that are measured one value each. */
static int join_values(const struct smd_study_run *run, struct smd_past_trial *past)
{
	size_t width = run->study->nmetrics;
	double *values = calloc(run->count * (width + 1) + 1, sizeof(*values));
	double *joined = values + run->count * width;
	size_t count = 0;

	if (!values) {
		return 0;
	}
	for (size_t i = 0; i < run->count; i++) {
		count += past[i].state == SMD_PAST_MEASURED &&
			 values_of(run->study, &run->trials[i], values + count * width);
	}
	smd_objective_join(run->study, run->seed, run->count, values, count, joined);
	count = 0;
	for (size_t i = 0; i < run->count; i++) {
		if (past[i].state == SMD_PAST_MEASURED) {
			past[i].value = joined[count++];
		}
	}
	free(values);
	return 1;
}

struct smd_past_trial *smd_study_run_past(const struct smd_study_run *run)
{
	struct smd_past_trial *past = calloc(run->count + 1, sizeof(*past));

	for (size_t i = 0; past && i < run->count; i++) {
		const struct smd_trial *trial = &run->trials[i];

		past[i].point = trial->point;
		past[i].state = trial->state == SMD_TRIAL_SUCCEEDED    ? SMD_PAST_MEASURED
				: trial->state == SMD_TRIAL_INFEASIBLE ? SMD_PAST_INFEASIBLE
								       : SMD_PAST_PENDING;
	}
	if (past && !join_values(run, past)) {
		free(past);
		past = NULL;
	}
	return past;
}
