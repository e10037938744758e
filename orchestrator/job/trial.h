/*
 * A job as one trial of its study.
 */
#ifndef SMD_JOB_TRIAL_H
#define SMD_JOB_TRIAL_H

#include "orchestrator/job/job.h"

#define SMD_TRIAL_FOLDER "trials/%u" /* of its records, in the tuning job's directory */

/*
 * Makes the job the trial of that name: every pool but reduction servers gets an argument
 * --ID=VALUE for each parameter that is there in the point, behind its own arguments, in place of
 * those of another trial. 0 or -ENOMEM.
 */
int smd_job_set_trial(struct smd_job *job, const char *name, const double *point);

#endif
