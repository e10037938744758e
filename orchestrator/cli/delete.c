/* `summand custom-jobs delete` and `hp-tuning-jobs delete`: forgets a job that has ended, and
 * removes its directory. */
#include <errno.h>
#include <stdio.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/deletion.h"
#include "orchestrator/store/job_folder.h"
#include "reduction_server/base/printable.h"

static int delete_job(struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	int ret = smd_job_delete(jobs->store, jobs->state_dir, job, 1, &error);

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
	const struct smd_option options[] = {SMD_GLOBAL_OPTIONS};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " delete JOB [OPTION...]"),
		.summary = "Forgets a job that has ended, and removes its logs and records.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = SMD_EXITS,
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(&jobs, kind, &command, argc, argv, &job, &exit_code)) {
		exit_code = delete_job(&jobs, &job.job);
		smd_job_copy_free(&job);
		smd_stored_jobs_close(&jobs);
	}
	return exit_code;
}

int smd_custom_jobs_delete(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_delete(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
