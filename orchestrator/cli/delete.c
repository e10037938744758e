/* `summand custom-jobs delete`: forgets a job that has ended, and removes its directory. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "reduction_server/base/printable.h"

#define OPEN_FILES 16

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
	(void)status;
	(void)type;
	(void)at;
	return remove(path) ? -errno : 0;
}

/* Those with --job-dir are the user's own: there may be more in them. */
static int is_made_here(const char *state_dir, const char *directory)
{
	size_t length = strlen(state_dir);

	return strncmp(directory, state_dir, length) == 0 &&
	       strncmp(directory + length, "/jobs/", 6) == 0 && directory[length + 6] &&
	       !strchr(directory + length + 6, '/');
}

/* The directory first: a job whose deletion is interrupted can be deleted again. */
static int delete_job(struct smd_stored_jobs *jobs, const struct smd_stored_job *job)
{
	struct smd_error error = {""};
	int is_own = is_made_here(jobs->state_dir, job->directory);
	int ret;

	if (!job->end_time) {
		smd_print_line(stderr,
			"summand: %s is %s: it must have ended; `summand custom-jobs cancel` ends "
			"it\n",
			job->display_name, job->state);
		return SMD_EXIT_FAILED;
	}
	ret = is_own ? nftw(job->directory, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS) : 0;
	if (ret && access(job->directory, F_OK) == 0) {
		smd_print_line(stderr, "summand: %s: not all of it could be removed: %s\n",
			job->directory, strerror(ret < -1 ? -ret : errno));
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
	smd_print_line(stderr, "Deleted CustomJob [%s].\n", job->display_name);
	return SMD_EXIT_OK;
}

int smd_custom_jobs_delete(int argc, char **argv)
{
	const struct smd_option options[] = {SMD_LOCATION_OPTIONS};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs delete JOB [OPTION...]",
		.summary = "Forgets a job that has ended, and removes its logs and records.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND,
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(&jobs, &command, argc, argv, &job, &exit_code)) {
		exit_code = delete_job(&jobs, &job.job);
		smd_job_copy_free(&job);
		smd_stored_jobs_close(&jobs);
	}
	return exit_code;
}
