/*
 * When a study has had enough trials: its maximum, or a rule of studyStoppingConfig.
 */
#ifndef SMD_TUNING_STUDY_END_H
#define SMD_TUNING_STUDY_END_H

#include "orchestrator/job/job.h"
#include "orchestrator/job/study.h"

/* How far a study is. */
struct smd_study_progress {
	int started; /* trials */
	int succeeded;
	int infeasible;
	int since_best; /* trials that have ended after the best one */
	double seconds; /* since it began */
	double seconds_since_best;
};

/* Why no more trials are started; NULL: more are. */
const char *smd_study_is_over(const struct smd_job *job, const struct smd_study_progress *progress);

/* Why the job has failed, although trials are left; NULL: it has not. */
const char *smd_study_has_failed(
	const struct smd_job *job, const struct smd_study_progress *progress);

#endif
