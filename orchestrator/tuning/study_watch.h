/* What a tuning job is watched by: its metrics while it runs, and its trace at the end. */
#ifndef SMD_TUNING_STUDY_WATCH_H
#define SMD_TUNING_STUDY_WATCH_H

#include "orchestrator/tuning/study_run.h"

/* As the options say. A trace that cannot be written is told, and is not there. 0, or -errno with a
 * text: there is nowhere to read metrics. */
int smd_study_watch_open(struct smd_study_run *run, struct smd_error *error);

/* The job has ended. */
void smd_study_watch_close(struct smd_study_run *run);

#endif
