/* `summand custom-jobs describe` and `hp-tuning-jobs describe`: prints one job of the store. */
#include <stdio.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/format.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/last_record.h"
#include "reduction_server/base/printable.h"

static int set_format(void *target, const char *value, struct smd_error *error)
{
	struct smd_format **format = target;

	smd_format_free(*format);
	*format = NULL;
	return smd_format_parse(value, format, error);
}

/* How far it is, and how many reduction servers there are, which may be others than the job's file
 * says. */
static void set_live(json_t *resource, const struct smd_stored_job *job)
{
	char name[SMD_STORE_NAME_SIZE];
	json_t *progress;
	json_t *servers;

	smd_store_name(name, job->kind, job->id);
	progress = smd_last_record_progress(job->directory, name);
	if (progress) {
		json_object_set_new(resource, "progress", progress);
	}
	servers = smd_last_record_servers(job->directory, name);
	if (servers) {
		json_object_del(servers, "request");
		json_object_del(servers, "refused");
		json_object_set_new(resource, "reductionServers", servers);
	}
}

static int print_job(struct smd_stored_jobs *jobs, const struct smd_stored_job *job,
	const struct smd_format *format)
{
	struct smd_error error = {""};
	json_t *resource = smd_stored_jobs_resource(jobs, job, &error);
	int failed;

	if (!resource) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_FAILED;
	}
	if (*job->directory) {
		json_object_set_new(resource, "jobDirectory", json_string(job->directory));
		set_live(resource, job);
	}
	failed = format ? smd_format_print(format, resource, stdout)
			: smd_yaml_print(resource, stdout);
	json_decref(resource);
	return failed ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	struct smd_format *format = NULL;
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Output"),
		{"format", SMD_FORMAT_METAVAR, "how the job is printed (default yaml)", set_format,
			&format},
		SMD_GLOBAL_OPTIONS,
	};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " describe JOB [OPTION...]"),
		.summary =
			kind == SMD_STORED_TUNING_JOB
				? "Prints a job, its trials, its state and, if it has failed, why."
				: "Prints a job, its state and, if it has failed, why.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = SMD_EXITS,
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(&jobs, kind, &command, argc, argv, &job, &exit_code)) {
		exit_code = print_job(&jobs, &job.job, format);
		smd_job_copy_free(&job);
		smd_stored_jobs_close(&jobs);
	}
	smd_format_free(format);
	return exit_code;
}

int smd_custom_jobs_describe(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_describe(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
