/* `summand custom-jobs cancel` and `hp-tuning-jobs cancel`: asks a job's runner to end it. */
#include <stdio.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "reduction_server/base/printable.h"

static int cancel(struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	char name[SMD_STORE_NAME_SIZE];

	if (smd_store_cancel(jobs->store, job->id, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_FAILED;
	}
	smd_store_name(name, job->kind, job->id);
	fprintf(stderr,
		"Request to cancel %s [%s] has been sent.\n\n"
		"You may view the status of your job with the command\n\n"
		"  $ summand %s describe %s\n",
		smd_stored_kind_noun(job->kind), name, smd_stored_kind_group(job->kind), name);
	return SMD_EXIT_OK;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	const struct smd_option options[] = {SMD_GLOBAL_OPTIONS};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " cancel JOB [OPTION...]"),
		.summary = "Asks a job to end, within its grace period; `wait` waits for that.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = SMD_EXITS,
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(&jobs, kind, &command, argc, argv, &job, &exit_code)) {
		exit_code = cancel(&jobs, &job.job);
		smd_job_copy_free(&job);
		smd_stored_jobs_close(&jobs);
	}
	return exit_code;
}

int smd_custom_jobs_cancel(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_cancel(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
