/*
 * One trial of a tuning job: its parameters, its process, what it has reported and how it ended.
 */
#ifndef SMD_TUNING_TRIAL_H
#define SMD_TUNING_TRIAL_H

#include <sys/types.h>

#include "orchestrator/runner/local_run.h"
#include "orchestrator/tuning/metric_file.h"

/* X(constant, name, meaning) */
#define SMD_TRIAL_STATES(X)                                                                        \
	X(REQUESTED, "REQUESTED", "its parameters are chosen")                                     \
	X(ACTIVE, "ACTIVE", "it runs")                                                             \
	X(STOPPING, "STOPPING", "it has been asked to end")                                        \
	X(SUCCEEDED, "SUCCEEDED", "it has ended, with a final measurement")                        \
	X(INFEASIBLE, "INFEASIBLE", "it has ended without one, and says why")

enum smd_trial_state {
#define X(constant, name, meaning) SMD_TRIAL_##constant,
	SMD_TRIAL_STATES(X)
#undef X
};

#define SMD_TRIAL_PATH_SIZE 128 /* of its files, in the tuning job's directory */

/* Why a trial is asked to end. */
enum smd_trial_stop { SMD_TRIAL_RUNS, SMD_TRIAL_IS_BELOW_MEDIAN, SMD_TRIAL_IS_NOT_NEEDED };

/* What is reported of one metric. */
struct smd_trial_metric {
	struct smd_measurements measurements;
	struct smd_metric_remarks remarks;
};

struct smd_trial_output;

struct smd_trial {
	unsigned number; /* from 1 */
	enum smd_trial_state state;
	double *point;
	pid_t pid;   /* of its guard; 0: it does not run */
	size_t lane; /* which of the trials at once it is */
	enum smd_trial_stop stop;
	char start_time[SMD_TIMESTAMP_SIZE];
	char end_time[SMD_TIMESTAMP_SIZE]; /* empty: it has not ended */
	uint64_t started_ns;
	uint64_t ended_ns;
	struct smd_trial_metric *metrics; /* as the study has them */
	char source[SMD_TRIAL_PATH_SIZE]; /* the file that has them; empty: none has yet */
	char *reason;                     /* of an INFEASIBLE one, in one line */
	char *details;                    /* the lines behind it; NULL: none */
	int complaints;                   /* a pipe, for what its process cannot put on the disk */
	int printed;                      /* a pipe, for what its replicas print; 0: none */
	struct smd_trial_output *output;  /* has taken that pipe; NULL: nothing is shown */
};

/* What all trials of a job are run with. */
struct smd_trial_runner {
	struct smd_job *job; /* each child makes its own copy the trial's */
	const struct smd_jobdir *dir;
	const struct smd_local_run_options *options;
	const struct smd_trial *trials; /* all so far: one's process closes the others' pipes */
	size_t count;
	const struct smd_trace *trace; /* the job's; each trial adds a line to it, if there is one */
	char **gpus; /* of each lane, as CUDA_VISIBLE_DEVICES; NULL: all see the same */
};

const char *smd_trial_state_name(enum smd_trial_state state);
int smd_trial_runs(const struct smd_trial *trial);

/* Starts it as a child of this process. 0 or -errno. */
int smd_trial_start(struct smd_trial *trial, const struct smd_trial_runner *runner);

/* Asks it to end; again, at once. */
void smd_trial_stop(struct smd_trial *trial, enum smd_trial_stop why);

/* Reads what it has reported. */
void smd_trial_measure(struct smd_trial *trial, const struct smd_trial_runner *runner);

/* Takes how its process ended. */
void smd_trial_end(struct smd_trial *trial, const struct smd_trial_runner *runner, int status);

/* The measurement of a metric that counts, once it has SUCCEEDED; NULL: none. */
const struct smd_measurement *smd_trial_final(
	const struct smd_trial *trial, const struct smd_study *study, size_t metric);

void smd_trial_clear(struct smd_trial *trial, const struct smd_study *study);

#endif
