/*
 * Verbs of several jobs: those that the command line names, or all that a filter has.
 */
#ifndef SMD_CLI_CHOSEN_JOBS_H
#define SMD_CLI_CHOSEN_JOBS_H

#include "orchestrator/cli/job_filter.h"
#include "orchestrator/cli/stored_jobs.h"

struct smd_chosen_jobs {
	struct smd_job_filter *filter; /* NULL: none was given */
	int has_ended;                 /* of a filter's jobs only those that have ended, or that have not */
};

#define SMD_CHOSEN_OPTIONS(chosen)                                                                 \
	SMD_OPTION_GROUP("Which"),                                                                 \
	{                                                                                          \
		"filter", "EXPRESSION",                                                            \
			"all jobs such as labels.team=blue or createTime<-P7D, instead of JOB",    \
			smd_chosen_jobs_set_filter, &(chosen)                                      \
	}

int smd_chosen_jobs_set_filter(void *target, const char *value, struct smd_error *error);

/* Does it with one job; an exit code. */
typedef int smd_chosen_job_fn(struct smd_stored_jobs *jobs, const struct smd_stored_job *job);

/* Parses the command line, and does it with each; the exit code is the worst of them. Frees the
 * filter. */
int smd_chosen_jobs_run(struct smd_chosen_jobs *chosen, enum smd_stored_kind kind,
	const struct smd_command *command, int argc, char **argv, smd_chosen_job_fn *act);

#endif
