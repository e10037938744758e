/* Opens the store for a command, and finds the job that it is about. */
#include "orchestrator/cli/stored_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/queue.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/printable.h"

#define LOOK_US 200000 /* for a job that waits in a queue */

/* A disk that is full or read-only keeps nobody from looking. */
static int open_to_read(struct smd_stored_jobs *jobs, const struct smd_error *reason)
{
	if (smd_store_open_to_read(jobs->state_dir, &jobs->store, NULL)) {
		return -EIO;
	}
	smd_print_line(stderr,
		"summand: warning: %s; jobs are shown as they were when that could be written\n",
		reason->text);
	return 0;
}

int smd_stored_jobs_open(struct smd_stored_jobs *jobs)
{
	struct smd_error error = {""};
	int ret;

	*jobs = (struct smd_stored_jobs){.store = NULL};
	ret = smd_state_dir_open(&jobs->state_dir, &error);
	ret = ret ? ret : smd_store_open(jobs->state_dir, &jobs->store, &error);
	ret = ret ? ret : smd_store_settle(jobs->store, &error);
	if (ret == -EROFS || ret == -ENOSPC || ret == -EDQUOT) {
		smd_store_close(jobs->store);
		jobs->store = NULL;
		ret = open_to_read(jobs, &error) ? ret : 0;
	}
	if (ret) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		smd_stored_jobs_close(jobs);
	}
	return ret;
}

void smd_stored_jobs_close(struct smd_stored_jobs *jobs)
{
	smd_store_close(jobs->store);
	free(jobs->state_dir);
	*jobs = (struct smd_stored_jobs){.store = NULL};
}

static int print_match(void *arg, const struct smd_stored_job *job)
{
	fprintf(arg, "  %" PRId64 "  %s  %s  %.19s\n", job->id, job->display_name, job->state,
		job->create_time);
	return 0;
}

/* Display names are foreign text. */
static void print_lines(char *text)
{
	char *line;

	while ((line = strsep(&text, "\n")) && *line) {
		smd_print_line(stderr, "%s\n", line);
	}
}

int smd_stored_jobs_find(struct smd_stored_jobs *jobs, enum smd_stored_kind kind, const char *word,
	struct smd_job_copy *out)
{
	struct smd_error error = {""};
	char *matches = NULL;
	size_t length;
	FILE *list = open_memstream(&matches, &length);
	int64_t id = 0;
	int ret = list ? smd_store_find(jobs->store, kind, word, &id, print_match, list, &error)
		       : -ENOMEM;

	if (list) {
		fclose(list);
	}
	out->text = NULL;
	ret = ret ? ret : smd_store_get(jobs->store, id, smd_job_copy_take, out, &error);
	if (ret) {
		smd_error_set(&error, -ret, "%s", strerror(-ret));
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	if (ret == -EEXIST) {
		print_lines(matches);
	}
	free(matches);
	return ret;
}

int smd_stored_jobs_await_begin(struct smd_stored_jobs *jobs, struct smd_job_copy *job,
	const volatile sig_atomic_t *is_over)
{
	int64_t id = job->job.id;

	while (strcmp(job->job.state, SMD_STATE_QUEUED) == 0) {
		struct smd_error error = {""};
		int ret;

		if (*is_over) {
			return -ETIMEDOUT;
		}
		usleep(LOOK_US);
		smd_job_copy_free(job);
		ret = smd_store_get(jobs->store, id, smd_job_copy_take, job, &error);
		if (ret) {
			smd_print_line(
				stderr, "summand: %s\n", *error.text ? error.text : strerror(-ret));
			job->job.state = "";
			return ret;
		}
	}
	return 0;
}

int smd_stored_jobs_begin(struct smd_stored_jobs *jobs, enum smd_stored_kind kind,
	const struct smd_command *command, int argc, char **argv, struct smd_job_copy *job,
	int *exit_code)
{
	struct smd_error error = {""};
	int noperands;
	int ret = smd_options_parse(command, argc, argv, &noperands, &error);

	*exit_code = ret == -ENOEXEC ? SMD_EXIT_OK : SMD_EXIT_USAGE;
	if (ret) {
		if (ret != -ENOEXEC) {
			smd_print_line(stderr, "summand: %s\n", error.text);
		}
		return ret;
	}
	if (noperands != 1) {
		smd_print_line(stderr, "summand: one JOB is needed, got %d: %s\n", noperands,
			command->synopsis);
		return -EINVAL;
	}
	*exit_code = SMD_EXIT_FAILED;
	ret = smd_stored_jobs_open(jobs);
	if (ret) {
		return ret;
	}
	ret = smd_stored_jobs_find(jobs, kind, argv[1], job);
	if (ret) {
		smd_stored_jobs_close(jobs);
	}
	return ret;
}
