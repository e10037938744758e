/* `summand custom-jobs delete` and `hp-tuning-jobs delete`: forgets a job that has ended, and
 * removes its directory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/job_folder.h"
#include "orchestrator/store/runner_lock.h"
#include "reduction_server/base/printable.h"

/* A job that has ended may still be writing its last words. */
static int lock_folder(const struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	int fd = smd_runner_lock_open(jobs->state_dir);
	int ret = fd < 0 ? fd : -EINTR;

	while (ret == -EINTR) {
		ret = smd_runner_lock_wait(fd, job->id);
	}
	if (fd >= 0) {
		close(fd);
	}
	return ret ? ret : smd_job_folder_lock(job->directory);
}

/* 0; else the reason has been printed. */
static int remove_folder(const struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	int fd = lock_folder(jobs, job);
	int ret = fd < 0 ? fd : smd_job_folder_remove(job->directory);

	if (fd >= 0) {
		close(fd);
	}
	if (ret == -ENOENT) {
		return 0;
	}
	if (ret == -EBUSY) {
		smd_print_line(
			stderr, "summand: %s: another job is running in it\n", job->directory);
	} else if (ret) {
		smd_print_line(stderr, "summand: %s: not all of it could be removed: %s\n",
			job->directory, strerror(-ret));
	}
	return ret;
}

/* The directory first: a job whose deletion is interrupted can be deleted again. */
static int delete_job(struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	int is_own = smd_job_folder_is_own(jobs->state_dir, job->directory);

	if (!job->end_time) {
		smd_print_line(stderr,
			"summand: %s is %s: it must have ended; `summand %s cancel` ends it\n",
			job->display_name, job->state, smd_stored_kind_group(job->kind));
		return SMD_EXIT_FAILED;
	}
	if (is_own && remove_folder(jobs, job)) {
		return SMD_EXIT_FAILED;
	}
	if (smd_store_remove(jobs->store, job->id, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_FAILED;
	}
	if (*job->directory && !is_own) {
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
