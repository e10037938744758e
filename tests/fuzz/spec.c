/*
 * Any bytes at all as a spec, through everything that `summand custom-jobs validate`, `plan` and
 * `env` do with it: they are refused with a reason or become a job, and nothing else.
 *
 * SPEC_NAME is what the file is called: "-" is read as JSON or YAML by its first character.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/frontend/frontend.h"
#include "orchestrator/plan/plan.h"
#include "tests/fuzz/input.h"

/* What the first replica of a pool of an accepted job would get. */
static void build_environment(const struct smd_contract *contract, int pool)
{
	struct smd_environment environment;
	char **argv;

	if (smd_contract_environment(contract, pool, 0, 0, &environment) == 0) {
		must_hold(environment.count > 0);
		if (smd_contract_argv(contract, pool, 0, &environment, &argv) == 0) {
			smd_argv_free(argv);
		}
		smd_environment_free(&environment);
	}
}

static void build_environments(const struct smd_job *job)
{
	struct smd_placement placement;
	struct smd_contract *contract;

	if (smd_placement_vertex(job, &placement)) {
		return;
	}
	if (smd_contract_create(job, &placement, &contract) == 0) {
		for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
			if (job->pools[pool].replica_count > 0) {
				build_environment(contract, pool);
			}
		}
		smd_contract_free(contract);
	}
	smd_placement_free(&placement);
}

static void plan(const struct smd_job *job)
{
	static struct smd_catalogue *catalogue;
	struct smd_error error = {""};
	struct smd_plan *plan;

	must_hold(catalogue || smd_catalogue_load(CATALOGUE, &catalogue, &error) == 0);
	if (smd_plan_create(job, catalogue, &plan) == 0) {
		smd_plan_print(plan, stdout);
		json_decref(smd_plan_to_json(plan));
		smd_plan_free(plan);
	}
}

static int decode(
	const char *text, size_t length, struct smd_diagnostics *diagnostics, struct smd_job **job)
{
	struct smd_conversion conversion = {.directory = ".", .diagnostics = diagnostics};
	struct smd_node *document;
	int ret = smd_document_parse(SPEC_NAME, text, length, diagnostics, &document);

	if (ret == 0) {
		ret = smd_frontend_convert(smd_frontends, &conversion, &document);
		ret = ret ? ret : smd_frontend_decode(document, diagnostics, job);
		smd_node_free(document);
		free(conversion.code_dir);
		free(conversion.run_name);
	}
	return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	char *exact = malloc(length + 1); /* with a NUL after its end, as files are read */
	struct smd_job *job;
	int ret;

	input_mute();
	must_hold(diagnostics && exact);
	memcpy(exact, bytes, length);
	exact[length] = '\0';
	ret = decode(exact, length, diagnostics, &job);
	must_hold((ret == 0) == (diagnostics->found[SMD_SEVERITY_ERROR] == 0)); /* there is a reason */
	smd_diagnostics_print(diagnostics, SPEC_NAME, SMD_SEVERITY_NOTE, stdout);
	if (ret == 0) {
		plan(job);
		build_environments(job);
		smd_job_free(job);
	}
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	free(exact);
	input_unmute();
	return 0;
}
