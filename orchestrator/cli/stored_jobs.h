/*
 * Jobs as commands use them, and found by what a command line names: those of this machine's store,
 * opened, with those ended whose runner is gone; or those of a service, where one is named
 * (service_jobs.h).
 */
#ifndef SMD_CLI_STORED_JOBS_H
#define SMD_CLI_STORED_JOBS_H

#include <signal.h>

#include "orchestrator/cli/service_jobs.h"
#include "orchestrator/frontend/global_flags.h"
#include "orchestrator/store/job_copy.h"
#include "reduction_server/base/options.h"

/* A text with the group of commands for jobs of that kind in its middle. */
#define SMD_BY_KIND(kind, before, after)                                                           \
	((kind) == SMD_STORED_TUNING_JOB ? before "hp-tuning-jobs" after                           \
					 : before "custom-jobs" after)

#define SMD_UNUSED_VALUE(name_, metavar_)                                                          \
	{                                                                                          \
		name_, metavar_, NULL, smd_option_set_string, &(const char *)                      \
		{                                                                                  \
			NULL                                                                       \
		}                                                                                  \
	}
#define SMD_UNUSED_SWITCH(name_)                                                                   \
	{                                                                                          \
		name_, NULL, NULL, smd_option_set_bool, &(int)                                     \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

/* What gcloud needs to find a job, or takes with each command, and scripts give therefore. */
#define SMD_SERVICE_OPTION                                                                         \
	SMD_OPTION_GROUP("Service"),                                                               \
	{                                                                                          \
		"service", "URL",                                                                  \
			"the service whose jobs are meant (default: " SMD_SERVICE_VARIABLE         \
			"; none: jobs of this machine)",                                           \
			smd_option_set_string, smd_service_choice("service")                       \
	},                                                                                         \
		{"project", "PROJECT",                                                             \
			"whose jobs of the service (default: CLOUDSDK_CORE_PROJECT, or local)",    \
			smd_option_set_string, smd_service_choice("project")},                     \
	{                                                                                          \
		"region", "REGION",                                                                \
			"of which location there (default: CLOUDSDK_AI_REGION, or any)",           \
			smd_option_set_string, smd_service_choice("region")                        \
	}
#define SMD_GLOBAL_OPTIONS                                                                         \
	SMD_SERVICE_OPTION, SMD_OPTION_GROUP("Accepted, without effect here"),                     \
		SMD_GLOBAL_FLAGS(SMD_UNUSED_VALUE, SMD_UNUSED_SWITCH)

#define SMD_JOB_OPERAND(kind)                                                                      \
	SMD_BY_KIND(kind,                                                                          \
		"JOB is a job's id, its resource name, its display name, or what one of these "    \
		"begins with, where that fits one job alone. `summand ",                           \
		" list` has them.")

struct smd_stored_jobs {
	/* Of this machine: */
	char *state_dir;
	struct smd_store *store;
	/* Or of a service; NULL: not so. */
	struct smd_service_jobs *service;
};

/* 0; else the reason has been printed. */
int smd_stored_jobs_open(struct smd_stored_jobs *jobs);
void smd_stored_jobs_close(struct smd_stored_jobs *jobs);

/* Whether they are this machine's, as what works on files and processes needs; else it has been
 * printed that they must be. */
int smd_stored_jobs_are_here(const struct smd_stored_jobs *jobs);

/* As smd_store_each(), smd_store_get() and smd_store_resource(), wherever they are. */
int smd_stored_jobs_each(struct smd_stored_jobs *jobs, enum smd_stored_kind kind,
	enum smd_store_columns columns, smd_stored_job_fn *take, void *arg,
	struct smd_error *error);
int smd_stored_jobs_get(
	struct smd_stored_jobs *jobs, const struct smd_stored_job *job, struct smd_job_copy *out,
	struct smd_error *error);
json_t *smd_stored_jobs_resource(struct smd_stored_jobs *jobs, const struct smd_stored_job *job,
	struct smd_error *error);

/* The job's resource name. */
const char *smd_stored_jobs_name(
	const struct smd_stored_job *job, char buffer[SMD_STORE_NAME_SIZE]);

/* The job that a word means. 0; else the reason has been printed. */
int smd_stored_jobs_find(struct smd_stored_jobs *jobs, enum smd_stored_kind kind, const char *word,
	struct smd_job_copy *out);

/* Waits until the job is in no queue any more, and reads it anew; or until the flag is set. 0; else
 * the reason has been printed, or it is the flag: -ETIMEDOUT. */
int smd_stored_jobs_await_begin(struct smd_stored_jobs *jobs, struct smd_job_copy *job,
	const volatile sig_atomic_t *is_over);

/* A verb of one JOB: parses its command line, opens the store and finds the job. 0; else the verb
 * is over, everything has been said, and *exit_code is the program's. */
int smd_stored_jobs_begin(struct smd_stored_jobs *jobs, enum smd_stored_kind kind,
	const struct smd_command *command, int argc, char **argv, struct smd_job_copy *job,
	int *exit_code);

#endif
