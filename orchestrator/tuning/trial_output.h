/*
 * What the replicas of a trial print, on its way to who watches the tuning job: the trial's process
 * writes lines into a pipe, and they are shown behind the trial's number.
 */
#ifndef SMD_TUNING_TRIAL_OUTPUT_H
#define SMD_TUNING_TRIAL_OUTPUT_H

#include "orchestrator/tuning/study_run.h"

struct smd_trial_output;

/* Takes the read end of the pipe. NULL: out of memory; the descriptor is closed. */
struct smd_trial_output *smd_trial_output_open(struct smd_study_run *run, unsigned number, int fd);

/* Who watches is behind, so the trial waits; or not any more. */
void smd_trial_output_pause(struct smd_trial_output *output, int is_paused);

/* Shows what is left. */
void smd_trial_output_close(struct smd_trial_output *output);

#endif
