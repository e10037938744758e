/* `summand custom-jobs env`: prints what each process will get, without running anything. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/contract/caller.h"
#include "orchestrator/contract/environment.h"
#include "orchestrator/job/secret.h"
#include "orchestrator/job/shown.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

struct selection {
	const char *replica; /* NULL: all of them */
	int process;         /* -1: all of them */
	int as_json;
	int show_secrets;
	int printed;    /* processes so far */
	int has_masked; /* something printed so far */
};

static int set_format(void *target, const char *value, struct smd_error *error)
{
	if (strcmp(value, "shell") != 0 && strcmp(value, "json") != 0) {
		return smd_error_set(error, EINVAL, "must be shell or json");
	}
	*(int *)target = strcmp(value, "json") == 0;
	return 0;
}

static int set_process(void *target, const char *value, struct smd_error *error)
{
	uint64_t number;

	if (smd_parse_number(value, 0, INT_MAX, &number)) {
		return smd_error_set(error, EINVAL, "must be the number of a process");
	}
	*(int *)target = (int)number;
	return 0;
}

/* What of the caller's environment is unset: null. */
static int add_unset(const struct smd_environment *environment, json_t *json)
{
	int failed = 0;

	for (size_t i = 0; environ[i] && !failed; i++) {
		const char *variable = environ[i];

		if (smd_caller_withholds(environ, variable, environment)) {
			char *name = strndup(variable, strcspn(variable, "="));

			failed = !name || json_object_set_new(json, name, json_null());
			free(name);
		}
	}
	return failed;
}

static int print_json(const struct smd_environment *environment, int masks)
{
	json_t *json = json_object();
	int failed = !json || add_unset(environment, json);
	char *text;

	for (size_t i = 0; i < environment->count && !failed; i++) {
		const struct smd_variable *variable = &environment->variables[i];

		failed = json_object_set_new(json, variable->name,
			json_string(masks ? smd_variable_shown(variable) : variable->value));
	}
	text = failed ? NULL : smd_shown_json(json, JSON_INDENT(2));
	fputs(text ? text : "", stdout);
	json_decref(json);
	free(text);
	return text ? 0 : -ENOMEM;
}

/* A replica of one process is called as itself, the processes of others "workerpool1-0.3". */
static void print_heading(const struct smd_job *job, int pool, int index, int process,
	const struct selection *selection)
{
	char replica[SMD_REPLICA_NAME_MAX];
	char number[16] = "";

	smd_replica_name(replica, pool, index);
	if (smd_job_processes(job, pool) > 1) {
		snprintf(number, sizeof(number), ".%d", process);
	}
	if (selection->as_json) {
		printf("%s\"%s%s\": ", selection->printed ? ",\n" : "{\n", replica, number);
	} else {
		printf("%s# %s%s\n", selection->printed ? "\n" : "", replica, number);
	}
}

static int print_process(const struct smd_contract *contract, int pool, int index, int process,
	struct selection *selection)
{
	int masks = !selection->show_secrets;
	struct smd_environment environment;
	int ret = smd_contract_environment(contract, pool, index, process, &environment);

	if (ret) {
		return ret;
	}
	selection->has_masked |= masks && smd_environment_has_secrets(&environment);
	ret = selection->as_json ? print_json(&environment, masks)
				 : smd_environment_print(&environment, environ, masks, stdout);
	smd_environment_free(&environment);
	return ret;
}

static int print_replica(const struct smd_job *job, const struct smd_contract *contract, int pool,
	int index, struct selection *selection)
{
	int processes = smd_job_processes(job, pool);
	int ret = 0;

	for (int process = 0; process < processes && !ret; process++) {
		if (selection->process >= 0 && process != selection->process) {
			continue;
		}
		print_heading(job, pool, index, process, selection);
		ret = print_process(contract, pool, index, process, selection);
		selection->printed++;
	}
	return ret;
}

/* Process by process, so that a large job needs no more memory than a small one. */
static int print_all(
	const struct smd_job *job, const struct smd_contract *contract, struct selection *selection)
{
	int ret = 0;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		for (int i = 0; i < job->pools[pool].replica_count && !ret; i++) {
			ret = print_replica(job, contract, pool, i, selection);
		}
	}
	if (selection->as_json) {
		printf(selection->printed ? "\n}\n" : "{}\n");
	}
	return ret;
}

/* Of any replica. */
static int most_processes(const struct smd_job *job)
{
	int most = 0;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int processes = job->pools[pool].replica_count ? smd_job_processes(job, pool) : 0;

		most = processes > most ? processes : most;
	}
	return most;
}

/* One process is printed bare, so that a shell can take it as it is. */
static int print_selected(
	const struct smd_job *job, const struct smd_contract *contract, struct selection *selection)
{
	int pool;
	int index;
	int process = selection->process;
	int ret;

	if (!selection->replica) {
		return process < most_processes(job) ? print_all(job, contract, selection)
						     : -ENOENT;
	}
	if (smd_replica_parse(selection->replica, &pool, &index) ||
		index >= job->pools[pool].replica_count ||
		process >= smd_job_processes(job, pool)) {
		return -ENOENT;
	}
	if (process < 0 && smd_job_processes(job, pool) > 1) {
		ret = print_replica(job, contract, pool, index, selection);
		if (selection->as_json) {
			printf("\n}");
		}
	} else {
		ret = print_process(contract, pool, index, process < 0 ? 0 : process, selection);
	}
	if (selection->as_json) {
		putchar('\n');
	}
	return ret;
}

static void print_warnings(const struct smd_contract *contract)
{
	char *const *warnings;
	size_t count = smd_contract_warnings(contract, &warnings);

	for (size_t i = 0; i < count; i++) {
		smd_print_line(stderr, "summand: warning: %s\n", warnings[i]);
	}
}

static int print_job(const struct smd_job *job, struct selection *selection)
{
	struct smd_placement placement;
	struct smd_contract *contract;
	int ret = smd_placement_vertex(job, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(job, &placement, &contract);
	if (!ret) {
		print_warnings(contract);
		ret = print_selected(job, contract, selection);
		smd_contract_free(contract);
	}
	smd_placement_free(&placement);
	return ret;
}

/* A copy of the job without its secrets is as good as the job, for printing. */
static int print_masked_job(const struct smd_job *job, struct selection *selection)
{
	struct smd_masked_job masked;
	int ret = smd_masked_job_open(&masked, job);

	if (ret) {
		return ret;
	}
	ret = print_job(&masked.job, selection);
	if (selection->has_masked) {
		fflush(stdout);
		smd_print_line(stderr, "summand: warning: " SMD_SECRET_REMARK "\n");
	}
	smd_masked_job_close(&masked);
	return ret;
}

static void print_unknown(
	const struct selection *selection, const struct smd_job *job, const char *source)
{
	if (!selection->replica) {
		smd_print_line(stderr,
			"summand: --process: must be a process of %s, whose replicas have %d at "
			"most, from 0, got %d\n",
			source, most_processes(job), selection->process);
	} else if (selection->process < 0) {
		smd_print_line(stderr,
			"summand: --replica: must be a replica of %s such as workerpool0-0, got "
			"\"%s\"\n",
			source, selection->replica);
	} else {
		smd_print_line(stderr,
			"summand: --replica, --process: must be a process of %s, got \"%s\", %d\n",
			source, selection->replica, selection->process);
	}
}

int smd_custom_jobs_env(int argc, char **argv)
{
	static const enum smd_use use = SMD_USE_SHOW;
	struct selection selection = {.process = -1};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Which"),
		{"replica", "NAME", "only this one, such as workerpool1-0 (default: all)",
			smd_option_set_string, &selection.replica},
		{"process", "N", "only this process of a replica, from 0 (default: all)",
			set_process, &selection.process},
		SMD_OPTION_GROUP("Output"),
		{"format", "shell|json", "how the variables are printed (default shell)",
			set_format, &selection.as_json},
		{"show-secrets", NULL, "print the values of secrets too", smd_option_set_bool,
			&selection.show_secrets},
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs env SPEC|FLAG... [OPTION...]",
		.summary =
			"Prints the variables that each process will get, with the addresses that "
			"Vertex AI would give it.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = SMD_EXITS,
	};
	struct smd_loaded_job loaded;
	int exit_code;
	int ret;

	if (smd_loaded_job_open(&command, &use, argc, argv, &loaded, &exit_code)) {
		return exit_code;
	}
	ret = selection.show_secrets ? print_job(loaded.job, &selection)
				     : print_masked_job(loaded.job, &selection);
	if (ret == -ENOENT) {
		print_unknown(&selection, loaded.job, loaded.source.name);
		exit_code = SMD_EXIT_USAGE;
	} else if (ret) {
		smd_print_line(stderr, "summand: %s\n", strerror(-ret));
		exit_code = SMD_EXIT_FAILED;
	}
	smd_loaded_job_close(&loaded);
	return exit_code;
}
