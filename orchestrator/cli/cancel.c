/* `summand custom-jobs cancel` and `hp-tuning-jobs cancel`: asks jobs to end. */
#include <stdio.h>

#include "orchestrator/cli/chosen_jobs.h"
#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "reduction_server/base/printable.h"

static int cancel(struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	char buffer[SMD_STORE_NAME_SIZE];
	const char *name = smd_stored_jobs_name(job, buffer);

	if (jobs->service ? smd_service_jobs_cancel(jobs->service, name, &error)
			  : smd_store_cancel(jobs->store, job->id, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_FAILED;
	}
	smd_print_lines(stderr,
		"Request to cancel %s [%s] has been sent.\n\n"
		"You may view the status of your job with the command\n\n"
		"  $ summand %s describe %s\n",
		smd_stored_kind_noun(job->kind), name, smd_stored_kind_group(job->kind), name);
	return SMD_EXIT_OK;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	struct smd_chosen_jobs chosen = {.has_ended = 0};
	const struct smd_option options[] = {SMD_CHOSEN_OPTIONS(chosen), SMD_GLOBAL_OPTIONS};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " cancel JOB... [OPTION...]"),
		.summary = "Asks jobs to end, within their grace periods; `wait` waits for that.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = SMD_EXITS,
	};

	return smd_chosen_jobs_run(&chosen, kind, &command, argc, argv, cancel);
}

int smd_custom_jobs_cancel(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_cancel(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
