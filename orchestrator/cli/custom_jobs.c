/* `summand custom-jobs`: chooses the verb, and answers the two that only look at a spec. */
#include "orchestrator/cli/custom_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/cli/format.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/contract/environment.h"
#include "orchestrator/frontend/job_flags.h"
#include "orchestrator/tuning/tuning.h"
#include "reduction_server/base/printable.h"

/* What replicas will have to do without, where they have Vertex AI's names: calls back with each.
 */
static int each_contract_warning(
	const struct smd_job *job, int (*take)(void *context, const char *warning), void *context)
{
	struct smd_placement placement;
	struct smd_contract *contract;
	char *const *warnings;
	int ret = smd_placement_vertex(job, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(job, &placement, &contract);
	if (!ret) {
		size_t count = smd_contract_warnings(contract, &warnings);

		for (size_t i = 0; i < count && !ret; i++) {
			ret = take(context, warnings[i]);
		}
		smd_contract_free(contract);
	}
	smd_placement_free(&placement);
	return ret;
}

static int print_warning(void *context, const char *warning)
{
	const struct smd_loaded_job *loaded = context;

	smd_print_line(stderr, "%s: warning: %s\n", loaded->source.name, warning);
	return 0;
}

/* Whether it has trials that can be compared, wherever they are run; else the reason is printed. */
static int is_study(const struct smd_loaded_job *loaded)
{
	struct smd_error error = {""};

	if (smd_tuning_check_study(loaded->job, &error)) {
		smd_print_line(stderr, "summand: %s: %s\n", loaded->source.name, error.text);
		return 0;
	}
	return 1;
}

static int run_validate(enum smd_stored_kind kind, int argc, char **argv)
{
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " validate SPEC|FLAG... [OPTION...]"),
		.summary = "Checks a spec and lists everything that is wrong with it.",
		.epilog = kind == SMD_STORED_TUNING_JOB ? SMD_TUNING_OPERAND : NULL,
		.exits = "Exit codes: 0 the spec is valid, 2 it is not.",
	};
	static const enum smd_use use = SMD_USE_VALIDATE;
	struct smd_loaded_job loaded;
	int exit_code;
	int replicas;

	if (smd_loaded_job_open(&command, &use, argc, argv, &loaded, &exit_code)) {
		return exit_code;
	}
	if (kind == SMD_STORED_TUNING_JOB && !is_study(&loaded)) {
		smd_loaded_job_close(&loaded);
		return SMD_EXIT_USAGE;
	}
	if (each_contract_warning(loaded.job, print_warning, &loaded)) {
		smd_print_line(stderr, "summand: %s\n", strerror(ENOMEM));
		smd_loaded_job_close(&loaded);
		return SMD_EXIT_FAILED;
	}
	replicas = smd_job_replica_count(loaded.job);
	smd_print_line(stdout, "%s is valid: job %s, %s, %d replica%s\n", loaded.source.name,
		loaded.job->id, loaded.job->display_name, replicas, replicas == 1 ? "" : "s");
	smd_loaded_job_close(&loaded);
	return SMD_EXIT_OK;
}

/* "text" is the plan for people, and not gcloud's format: NULL. */
static int set_plan_format(void *target, const char *value, struct smd_error *error)
{
	struct smd_format **format = target;

	smd_format_free(*format);
	*format = NULL;
	if (strcmp(value, "text") == 0) {
		return 0;
	}
	return smd_format_parse(value, format, error);
}

static int print_plan(const struct smd_plan *plan, const struct smd_format *format)
{
	json_t *json;
	int failed;

	if (!format) {
		smd_plan_print(plan, stdout);
		return SMD_EXIT_OK;
	}
	json = smd_plan_to_json(plan);
	failed = !json || smd_format_print(format, json, stdout);
	json_decref(json);
	return failed ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

/* 0; else the reason has been printed. */
static int choose(struct smd_plan *plan, const char *machine_type)
{
	int ret = machine_type ? smd_plan_choose(plan, machine_type) : 0;

	if (ret == -ENOENT) {
		const char *near = smd_catalogue_suggest(plan->catalogue, machine_type);

		smd_print_line(stderr,
			"summand: --reduction-machine-type: must be in the catalogue, got "
			"\"%s\"%s%s%s"
			"\n",
			machine_type, near ? "; did you mean " : "", near ? near : "",
			near ? "?" : "");
	} else if (ret) {
		smd_print_line(stderr,
			"summand: --reduction-machine-type: its bandwidth or the workers' is "
			"unknown\n");
	}
	return ret;
}

static int add_warning(void *context, const char *warning)
{
	return smd_plan_warn(context, "%s", warning);
}

static int run_plan(enum smd_stored_kind kind, int argc, char **argv)
{
	static const enum smd_use use = SMD_USE_SHOW;
	struct smd_format *format = NULL;
	const char *machine_type = NULL;
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Servers"),
		{"reduction-machine-type", "TYPE",
			"tell how many reduction servers of this type are needed",
			smd_option_set_string, &machine_type},
		SMD_OPTION_GROUP("Output"),
		{"format", "text|" SMD_FORMAT_METAVAR, "how the plan is printed (default text)",
			set_plan_format, &format},
	};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " plan SPEC|FLAG... [OPTION...]"),
		.summary =
			kind == SMD_STORED_TUNING_JOB
				? "Shows what one trial needs: pools, machines, reduction servers."
				: "Shows a job's pools and machines, and the reduction servers it "
				  "needs.",
		.epilog = kind == SMD_STORED_TUNING_JOB ? SMD_TUNING_OPERAND : NULL,
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = SMD_EXITS,
	};
	struct smd_loaded_job loaded;
	struct smd_plan *plan;
	int exit_code;

	if (smd_loaded_job_open(&command, &use, argc, argv, &loaded, &exit_code)) {
		smd_format_free(format);
		return exit_code;
	}
	if (kind == SMD_STORED_TUNING_JOB && !is_study(&loaded)) {
		smd_loaded_job_close(&loaded);
		smd_format_free(format);
		return SMD_EXIT_USAGE;
	}
	plan = smd_loaded_job_plan(&loaded);
	if (!plan) {
		exit_code = SMD_EXIT_FAILED;
	} else if (each_contract_warning(loaded.job, add_warning, plan)) {
		smd_print_line(stderr, "summand: %s\n", strerror(ENOMEM));
		exit_code = SMD_EXIT_FAILED;
	} else if (choose(plan, machine_type)) {
		exit_code = SMD_EXIT_USAGE;
	} else {
		exit_code = print_plan(plan, format);
	}
	smd_plan_free(plan);
	smd_format_free(format);
	smd_loaded_job_close(&loaded);
	return exit_code;
}

int smd_custom_jobs_validate(int argc, char **argv)
{
	return run_validate(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_validate(int argc, char **argv)
{
	return run_validate(SMD_STORED_TUNING_JOB, argc, argv);
}

int smd_custom_jobs_plan(int argc, char **argv)
{
	return run_plan(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_plan(int argc, char **argv)
{
	return run_plan(SMD_STORED_TUNING_JOB, argc, argv);
}

int smd_custom_jobs_run(int argc, char **argv)
{
	static const struct smd_verb list[] = {
		SMD_VERB_GROUP("Check a job"),
		{"validate", "checks a spec, and lists everything that is wrong with it",
			smd_custom_jobs_validate},
		{"plan", "shows pools, machines, bandwidth and the reduction servers needed",
			smd_custom_jobs_plan},
		{"env", "prints the variables that each replica gets", smd_custom_jobs_env},
		{"export", "writes it as a file for Slurm, Kubernetes or Compose",
			smd_custom_jobs_export},
		SMD_VERB_GROUP("Run a job"),
		{"local-run", "runs the whole cluster on this machine, in the foreground",
			smd_custom_jobs_local_run},
		{"create", "runs the whole cluster on this machine, and returns at once",
			smd_custom_jobs_create},
		SMD_VERB_GROUP("Follow jobs"),
		{"list", "lists your jobs", smd_custom_jobs_list},
		{"describe", "prints a job and its state", smd_custom_jobs_describe},
		{"stream-logs", "prints what a job's replicas say, until the job ends",
			smd_custom_jobs_stream_logs},
		{"wait", "waits until a job has ended", smd_custom_jobs_wait},
		{"scale", "changes the number of reduction servers of a job that runs",
			smd_custom_jobs_scale},
		{"exec", "runs a command, or a shell, in a replica that runs",
			smd_custom_jobs_exec},
		{"cancel", "asks a job to end", smd_custom_jobs_cancel},
		{"delete", "forgets a job that has ended, and its logs", smd_custom_jobs_delete},
		{"prune", "forgets old jobs that have ended, and their logs",
			smd_custom_jobs_prune},
	};
	static const struct smd_absent_verb absent[] = {{NULL, NULL}};
	static const struct smd_verbs verbs = {
		.prefix = "summand custom-jobs",
		.summary = "Training jobs described as worker pools.",
		.list = list,
		.count = sizeof(list) / sizeof(list[0]),
		.absent = absent,
		.epilog = "`summand help " SMD_JOB_FLAGS_TOPIC
			  "` lists the flags that describe a job, or change one.",
	};

	return smd_verbs_run(&verbs, argc, argv);
}
