/* `summand custom-jobs delete` and `hp-tuning-jobs delete`: forgets jobs that have ended, and
 * removes their directories. */
#include <errno.h>
#include <stdio.h>

#include "orchestrator/cli/chosen_jobs.h"
#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/deletion.h"
#include "orchestrator/store/job_folder.h"
#include "reduction_server/base/printable.h"

static int delete_job(struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	int ret = jobs->service ? smd_service_jobs_delete(
					  jobs->service, job->resource_name, &error)
				: smd_job_delete(jobs->store, jobs->state_dir, job, 1, &error);

	if (ret == -EINPROGRESS) {
		smd_print_line(stderr, "summand: %s; `summand %s cancel` ends it\n", error.text,
			smd_stored_kind_group(job->kind));
	} else if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	if (ret) {
		return SMD_EXIT_FAILED;
	}
	if (*job->directory && !smd_job_folder_is_own(jobs->state_dir, job->directory)) {
		smd_print_line(
			stderr, "summand: %s stays: it was named with --job-dir\n", job->directory);
	}
	smd_print_line(
		stderr, "Deleted %s [%s].\n", smd_stored_kind_noun(job->kind), job->display_name);
	return SMD_EXIT_OK;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	struct smd_chosen_jobs chosen = {.has_ended = 1};
	const struct smd_option options[] = {SMD_CHOSEN_OPTIONS(chosen), SMD_GLOBAL_OPTIONS};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " delete JOB... [OPTION...]"),
		.summary = "Forgets jobs that have ended, and removes their logs and records.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = SMD_EXITS,
	};

	return smd_chosen_jobs_run(&chosen, kind, &command, argc, argv, delete_job);
}

int smd_custom_jobs_delete(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_delete(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
