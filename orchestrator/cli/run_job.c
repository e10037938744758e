/* Shows a loaded job's plan, and becomes its runner. */
#include "orchestrator/cli/run_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/verbs.h"
#include "orchestrator/tuning/tuning.h"
#include "reduction_server/base/printable.h"

#define GIGABYTE (1u << 30)

/* What engines ask of a cluster, from the catalogue of machine types. */
static void take_machines(
	const struct smd_plan *plan, struct smd_pool_machine machines[SMD_JOB_POOLS_MAX])
{
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &plan->job->pools[i];
		struct smd_machine machine;

		if (pool->replica_count > 0 && pool->machine_type &&
			smd_catalogue_find(
				plan->catalogue, pool->machine_type, NULL, 0, &machine) == 0) {
			machines[i] = (struct smd_pool_machine){.cpus = machine.vcpu,
				.memory_bytes = (uint64_t)(machine.memory_gb * GIGABYTE)};
		}
	}
}

/* The plan as printed, for the job's records too; NULL: the reason has been printed. */
static char *print_plan(struct smd_loaded_job *loaded, FILE *file,
	struct smd_pool_machine machines[SMD_JOB_POOLS_MAX])
{
	struct smd_plan *plan = smd_loaded_job_plan(loaded);
	char *text = NULL;
	size_t length;
	FILE *out;

	if (!plan) {
		return NULL;
	}
	out = open_memstream(&text, &length);
	if (out) {
		smd_plan_print(plan, out);
	}
	take_machines(plan, machines);
	smd_plan_free(plan);
	if (!out || fclose(out)) {
		perror("summand");
		free(text);
		return NULL;
	}
	if (file) {
		fprintf(file, "%s\n", text);
		fflush(file);
	}
	return text;
}

int smd_loaded_job_run(struct smd_loaded_job *loaded, struct smd_local_run_options *options)
{
	struct smd_error error = {""};
	FILE *const words[] = {[SMD_VIEW_OUTPUT] = stderr, [SMD_VIEW_PROGRESS] = stdout};
	FILE *shown = options->view == SMD_VIEW_STREAM         ? NULL
		      : options->kind == SMD_STORED_TUNING_JOB ? stdout
							       : words[options->view];
	char *plan_text = print_plan(loaded, shown, options->machines);
	int exit_code;

	if (!plan_text) {
		return SMD_EXIT_FAILED;
	}
	if (loaded->job->max_trial_count > 1 && shown && options->kind == SMD_STORED_CUSTOM_JOB) {
		fprintf(shown,
			"only the first of %d trials is run; `summand hp-tuning-jobs` runs all\n",
			loaded->job->max_trial_count);
	}
	options->spec_text = loaded->source.text;
	options->spec_length = loaded->source.length;
	options->plan_text = plan_text;
	exit_code = options->kind == SMD_STORED_TUNING_JOB
			    ? smd_tuning_run(loaded->job, options, &error)
			    : smd_local_run(loaded->job, options, &error);
	if (exit_code < 0) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		exit_code = SMD_EXIT_FAILED;
	}
	/* The exit code is the job's: that nobody has read its progress does not make it fail. */
	fflush(stdout);
	clearerr(stdout);
	free(plan_text);
	return exit_code;
}
