/* `summand custom-jobs env`: prints what each replica will get, without running anything. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/contract/environment.h"

struct selection {
	const char *replica; /* NULL: all of them */
	int as_json;
};

static int set_format(void *target, const char *value, struct smd_error *error)
{
	if (strcmp(value, "shell") != 0 && strcmp(value, "json") != 0) {
		return smd_error_set(error, EINVAL, "must be shell or json");
	}
	*(int *)target = strcmp(value, "json") == 0;
	return 0;
}

/* '...' keeps everything as it is but the quote itself. */
static void print_quoted(const char *value)
{
	putchar('\'');
	for (; *value; value++) {
		if (*value == '\'') {
			fputs("'\\''", stdout);
		} else {
			putchar(*value);
		}
	}
	putchar('\'');
}

static int print_shell(const struct smd_environment *environment)
{
	for (size_t i = 0; i < environment->count; i++) {
		printf("export %s=", environment->variables[i].name);
		print_quoted(environment->variables[i].value);
		putchar('\n');
	}
	return 0;
}

static int print_json(const struct smd_environment *environment)
{
	json_t *json = json_object();
	int failed = !json;

	for (size_t i = 0; i < environment->count && !failed; i++) {
		failed = json_object_set_new(json, environment->variables[i].name,
			json_string(environment->variables[i].value));
	}
	failed = failed || json_dumpf(json, stdout, JSON_INDENT(2));
	json_decref(json);
	return failed ? -ENOMEM : 0;
}

static int print_replica(
	const struct smd_contract *contract, int pool, int index, const struct selection *selection)
{
	struct smd_environment environment;
	int ret = smd_contract_environment(contract, pool, index, &environment);

	if (ret) {
		return ret;
	}
	ret = selection->as_json ? print_json(&environment) : print_shell(&environment);
	smd_environment_free(&environment);
	return ret;
}

/* Replica by replica, so that a large job needs no more memory than a small one. */
static int print_all(const struct smd_job *job, const struct smd_contract *contract,
	const struct selection *selection)
{
	const char *separator = "";
	int ret = 0;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		for (int i = 0; i < job->pools[pool].replica_count && !ret; i++) {
			char name[SMD_REPLICA_NAME_MAX];

			smd_replica_name(name, pool, i);
			if (selection->as_json) {
				printf("%s\"%s\": ", *separator ? ",\n" : "{\n", name);
			} else {
				printf("%s# %s\n", separator, name);
			}
			separator = "\n";
			ret = print_replica(contract, pool, i, selection);
		}
	}
	if (selection->as_json) {
		printf("\n}\n");
	}
	return ret;
}

static int print_selected(const struct smd_job *job, const struct smd_contract *contract,
	const struct selection *selection)
{
	int pool;
	int index;
	int ret;

	if (!selection->replica) {
		return print_all(job, contract, selection);
	}
	if (smd_replica_parse(selection->replica, &pool, &index) ||
		index >= job->pools[pool].replica_count) {
		return -ENOENT;
	}
	ret = print_replica(contract, pool, index, selection);
	if (selection->as_json) {
		putchar('\n');
	}
	return ret;
}

static int print_job(const struct smd_job *job, const struct selection *selection)
{
	struct smd_placement placement;
	struct smd_contract *contract;
	int ret = smd_placement_vertex(job, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(job, &placement, &contract);
	if (!ret) {
		ret = print_selected(job, contract, selection);
		smd_contract_free(contract);
	}
	smd_placement_free(&placement);
	return ret;
}

int smd_custom_jobs_env(int argc, char **argv)
{
	static const enum smd_use use = SMD_USE_SHOW;
	struct selection selection = {0};
	const struct smd_option options[] = {
		{"replica", "NAME", "only this one, such as workerpool1-0 (default all)",
			smd_option_set_string, &selection.replica},
		{"format", "shell|json", "how to print the variables (default shell)", set_format,
			&selection.as_json},
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs env SPEC|FLAG... [OPTION...]",
		.summary =
			"Prints the variables that each replica will get, with the addresses that "
			"Vertex AI\nwould give it.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
	};
	struct smd_loaded_job loaded;
	int exit_code;
	int ret;

	if (smd_loaded_job_open(&command, &use, argc, argv, &loaded, &exit_code)) {
		return exit_code;
	}
	ret = print_job(loaded.job, &selection);
	if (ret == -ENOENT) {
		fprintf(stderr, "summand: --replica: must be a replica of %s, got \"%s\"\n",
			loaded.source.name, selection.replica);
		exit_code = SMD_EXIT_USAGE;
	} else if (ret) {
		fprintf(stderr, "summand: %s\n", strerror(-ret));
		exit_code = SMD_EXIT_FAILED;
	}
	smd_loaded_job_close(&loaded);
	return exit_code;
}
