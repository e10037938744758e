/* Opens the store for a command, and finds the job that it is about. */
#include "orchestrator/cli/stored_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/abandoned.h"
#include "orchestrator/store/queue.h"
#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/printable.h"

#define LOOK_US 200000  /* for a job that waits in a queue */
#define ASK_US  1000000 /* the same at a service */

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
	if (smd_service_is_chosen()) {
		ret = smd_service_jobs_open(&jobs->service, &error);
		if (ret) {
			smd_print_line(stderr, "summand: --service: %s\n", error.text);
		}
		return ret;
	}
	ret = smd_state_dir_open(&jobs->state_dir, &error);
	ret = ret ? ret : smd_store_open(jobs->state_dir, &jobs->store, &error);
	ret = ret ? ret : smd_abandoned_end(jobs->store, &error);
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
	smd_service_jobs_close(jobs->service);
	smd_store_close(jobs->store);
	free(jobs->state_dir);
	*jobs = (struct smd_stored_jobs){.store = NULL};
}

int smd_stored_jobs_are_here(const struct smd_stored_jobs *jobs)
{
	if (jobs->service) {
		smd_print_line(stderr,
			"summand: this is done where the job runs: without --service and "
			SMD_SERVICE_VARIABLE "\n");
	}
	return !jobs->service;
}

int smd_stored_jobs_each(struct smd_stored_jobs *jobs, enum smd_stored_kind kind,
	enum smd_store_columns columns, smd_stored_job_fn *take, void *arg, struct smd_error *error)
{
	return jobs->service ? smd_service_jobs_each(jobs->service, kind, take, arg, error)
			     : smd_store_each(jobs->store, kind, columns, take, arg, error);
}

int smd_stored_jobs_get(struct smd_stored_jobs *jobs, const struct smd_stored_job *job,
	struct smd_job_copy *out, struct smd_error *error)
{
	out->text = NULL;
	return jobs->service ? smd_service_jobs_get(jobs->service, job->kind, job->resource_name,
				       smd_job_copy_take, out, error)
			     : smd_store_get(jobs->store, job->id, smd_job_copy_take, out, error);
}

json_t *smd_stored_jobs_resource(
	struct smd_stored_jobs *jobs, const struct smd_stored_job *job, struct smd_error *error)
{
	return jobs->service ? smd_service_jobs_resource(jobs->service, job->resource_name, error)
			     : smd_store_resource(jobs->store, job, error);
}

const char *smd_stored_jobs_name(
	const struct smd_stored_job *job, char buffer[SMD_STORE_NAME_SIZE])
{
	if (job->resource_name) {
		return job->resource_name;
	}
	smd_stored_job_name(buffer, job);
	return buffer;
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

/* What fits is listed, and copied; of one that fits alone the copy stays. */
struct finding {
	FILE *list;
	struct smd_job_copy *out;
};

static int take_match(void *arg, const struct smd_stored_job *job)
{
	struct finding *finding = arg;

	smd_job_copy_free(finding->out);
	print_match(finding->list, job);
	return smd_job_copy_take(finding->out, job);
}

static int find_at_service(struct smd_stored_jobs *jobs, enum smd_stored_kind kind,
	const char *word, FILE *list, struct smd_job_copy *out, struct smd_error *error)
{
	struct finding finding = {.list = list, .out = out};
	int ret = smd_service_jobs_find(jobs->service, kind, word, take_match, &finding, error);

	if (ret) {
		smd_job_copy_free(out);
	}
	return ret;
}

static int find_here(struct smd_stored_jobs *jobs, enum smd_stored_kind kind, const char *word,
	FILE *list, struct smd_job_copy *out, struct smd_error *error)
{
	int64_t id = 0;
	int ret = smd_store_find(jobs->store, kind, word, &id, print_match, list, error);

	return ret ? ret : smd_store_get(jobs->store, id, smd_job_copy_take, out, error);
}

int smd_stored_jobs_find(struct smd_stored_jobs *jobs, enum smd_stored_kind kind, const char *word,
	struct smd_job_copy *out)
{
	struct smd_error error = {""};
	char *matches = NULL;
	size_t length;
	FILE *list = open_memstream(&matches, &length);
	int ret;

	out->text = NULL;
	ret = !list           ? -ENOMEM
	      : jobs->service ? find_at_service(jobs, kind, word, list, out, &error)
			      : find_here(jobs, kind, word, list, out, &error);
	if (list) {
		fclose(list);
	}
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
	while (strcmp(job->job.state, SMD_STATE_QUEUED) == 0) {
		struct smd_error error = {""};
		struct smd_job_copy before = *job;
		int ret;

		if (*is_over) {
			return -ETIMEDOUT;
		}
		usleep(jobs->service ? ASK_US : LOOK_US);
		ret = smd_stored_jobs_get(jobs, &before.job, job, &error);
		smd_job_copy_free(&before);
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
