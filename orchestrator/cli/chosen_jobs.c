/* Finds the jobs that a command line chooses, and does something with each. */
#include "orchestrator/cli/chosen_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/verbs.h"
#include "reduction_server/base/printable.h"

#define FIRST_ROWS 64

int smd_chosen_jobs_set_filter(void *target, const char *value, struct smd_error *error)
{
	struct smd_chosen_jobs *chosen = target;

	smd_job_filter_free(chosen->filter);
	chosen->filter = NULL;
	if (!value[strspn(value, " \t")]) {
		return smd_error_set(error, EINVAL, "must say which jobs, got nothing");
	}
	return smd_job_filter_parse(value, &chosen->filter, error);
}

/* They are all found before the first is changed. */
struct gathering {
	const struct smd_chosen_jobs *chosen;
	struct smd_job_copy *rows;
	size_t count;
	size_t size;
};

static int gather(void *arg, const struct smd_stored_job *job)
{
	struct gathering *gathering = arg;

	if ((job->end_time != NULL) != gathering->chosen->has_ended ||
		!smd_job_filter_has(gathering->chosen->filter, job)) {
		return 0;
	}
	if (gathering->count == gathering->size) {
		size_t size = gathering->size ? 2 * gathering->size : FIRST_ROWS;
		void *rows = reallocarray(gathering->rows, size, sizeof(*gathering->rows));

		if (!rows) {
			return -ENOMEM;
		}
		gathering->rows = rows;
		gathering->size = size;
	}
	return smd_job_copy_take(&gathering->rows[gathering->count], job)
		       ? -ENOMEM
		       : (gathering->count++, 0);
}

static int run_filtered(struct smd_stored_jobs *jobs, const struct smd_chosen_jobs *chosen,
	enum smd_stored_kind kind, smd_chosen_job_fn *act)
{
	struct gathering gathering = {.chosen = chosen};
	struct smd_error error = {""};
	int exit_code = SMD_EXIT_OK;
	int ret = smd_stored_jobs_each(jobs, kind, SMD_STORE_ALL, gather, &gathering, &error);

	if (ret < 0) {
		smd_print_line(
			stderr, "summand: %s\n", *error.text ? error.text : strerror(-ret));
		exit_code = SMD_EXIT_FAILED;
	} else if (gathering.count == 0) {
		fprintf(stderr, "No job fits that %s ended.\n",
			chosen->has_ended ? "has" : "has not");
	}
	for (size_t i = 0; i < gathering.count; i++) {
		if (ret >= 0 && act(jobs, &gathering.rows[i].job)) {
			exit_code = SMD_EXIT_FAILED;
		}
		smd_job_copy_free(&gathering.rows[i]);
	}
	free(gathering.rows);
	return exit_code;
}

static int run_named(struct smd_stored_jobs *jobs, enum smd_stored_kind kind, int count,
	char **words, smd_chosen_job_fn *act)
{
	int exit_code = SMD_EXIT_OK;

	for (int i = 0; i < count; i++) {
		struct smd_job_copy job;

		if (smd_stored_jobs_find(jobs, kind, words[i], &job)) {
			exit_code = SMD_EXIT_FAILED;
			continue;
		}
		if (act(jobs, &job.job)) {
			exit_code = SMD_EXIT_FAILED;
		}
		smd_job_copy_free(&job);
	}
	return exit_code;
}

static int run_parsed(struct smd_chosen_jobs *chosen, enum smd_stored_kind kind, int noperands,
	char **argv, smd_chosen_job_fn *act)
{
	struct smd_stored_jobs jobs;
	int exit_code;

	if (smd_stored_jobs_open(&jobs)) {
		return SMD_EXIT_FAILED;
	}
	exit_code = chosen->filter ? run_filtered(&jobs, chosen, kind, act)
				   : run_named(&jobs, kind, noperands, argv + 1, act);
	smd_stored_jobs_close(&jobs);
	return exit_code;
}

int smd_chosen_jobs_run(struct smd_chosen_jobs *chosen, enum smd_stored_kind kind,
	const struct smd_command *command, int argc, char **argv, smd_chosen_job_fn *act)
{
	struct smd_error error = {""};
	int noperands = 0;
	int exit_code = SMD_EXIT_USAGE;
	int ret = smd_options_parse(command, argc, argv, &noperands, &error);

	if (!ret && (noperands > 0) == (chosen->filter != NULL)) {
		ret = smd_error_set(&error, EINVAL, "one JOB or several are needed, or --filter: %s",
			command->synopsis);
	}
	if (!ret) {
		exit_code = run_parsed(chosen, kind, noperands, argv, act);
	} else if (ret == -ENOEXEC) {
		exit_code = SMD_EXIT_OK;
	} else {
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	smd_job_filter_free(chosen->filter);
	return exit_code;
}
