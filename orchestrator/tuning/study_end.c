/* The rules by which studies end. */
#include "orchestrator/tuning/study_end.h"

#define FAILURES_MIN 3 /* at the beginning, of a job that does not say how many it bears */

/* What ends it once there are as many trials, and as much time, as the spec wants at least. */
static const char *early_end(
	const struct smd_study_end *end, const struct smd_study_progress *progress)
{
	int ended = progress->succeeded + progress->infeasible;

	if (ended < end->min_trials || progress->seconds < (double)end->min_runtime_s) {
		return NULL;
	}
	if (end->max_runtime_s && progress->seconds >= (double)end->max_runtime_s) {
		return "maximumRuntimeConstraint is over";
	}
	if (end->max_trials_no_progress && progress->since_best >= end->max_trials_no_progress) {
		return "maxNumTrialsNoProgress trials have not been better";
	}
	if (end->max_no_progress_s &&
		progress->seconds_since_best >= (double)end->max_no_progress_s) {
		return "no trial has been better for maxDurationNoProgress";
	}
	return NULL;
}

const char *smd_study_is_over(const struct smd_job *job, const struct smd_study_progress *progress)
{
	const struct smd_study_end *end = &job->study->end;

	if (progress->started >= job->max_trial_count) {
		return "maxTrialCount trials have been started";
	}
	if (end->max_trials && progress->started >= end->max_trials) {
		return "maxNumTrials trials have been started";
	}
	return early_end(end, progress);
}

/* A program that never works is not started a hundred times. */
const char *smd_study_has_failed(
	const struct smd_job *job, const struct smd_study_progress *progress)
{
	int first =
		job->parallel_trial_count > FAILURES_MIN ? job->parallel_trial_count : FAILURES_MIN;

	if (job->max_failed_trial_count) {
		return progress->infeasible >= job->max_failed_trial_count
			       ? "maxFailedTrialCount trials have failed"
			       : NULL;
	}
	return progress->succeeded == 0 && progress->infeasible >= first
		       ? "its first trials have all failed"
		       : NULL;
}
