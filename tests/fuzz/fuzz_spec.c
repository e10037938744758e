/*
 * Any bytes at all as a spec: they must be refused with a reason or become a job, and nothing else.
 *
 * Linked with replay.c it replays files. For libFuzzer, compile this file and the sources of
 * smd_frontend, smd_contract, smd_job and smd_base with clang -fsanitize=fuzzer,address,undefined,
 * and start from the specs in tests/corpora.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/frontend/azureml/azure_job.h"
#include "orchestrator/frontend/vertex/custom_job.h"

/* A job of Azure ML becomes a CustomJob first. */
static int convert(struct smd_node **document, struct smd_diagnostics *diagnostics)
{
	struct smd_node *job;
	char *code_dir = NULL;
	int ret;

	if (!smd_azure_job_is(*document)) {
		return 0;
	}
	ret = smd_azure_job_convert(*document, ".", diagnostics, &job, &code_dir);
	if (!ret) {
		smd_node_free(*document);
		*document = job;
		free(code_dir);
	}
	return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* What the chief of an accepted job would get. */
static void build_environment(const struct smd_job *job)
{
	struct smd_placement placement;
	struct smd_contract *contract;
	struct smd_environment environment;
	char **argv;

	if (smd_placement_vertex(job, &placement)) {
		return;
	}
	if (smd_contract_create(job, &placement, &contract) == 0) {
		if (smd_contract_environment(contract, 0, 0, 0, &environment) == 0) {
			if (smd_contract_argv(contract, 0, 0, &environment, &argv) == 0) {
				smd_argv_free(argv);
			}
			smd_environment_free(&environment);
		}
		smd_contract_free(contract);
	}
	smd_placement_free(&placement);
}

static void decode(const char *name, const uint8_t *bytes, size_t length)
{
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	FILE *nowhere = fopen("/dev/null", "w");
	struct smd_node *document;
	struct smd_job *job;
	int ret;

	if (!diagnostics || !nowhere) {
		abort();
	}
	ret = smd_document_parse(name, (const char *)bytes, length, diagnostics, &document);
	if (ret == 0) {
		ret = convert(&document, diagnostics);
		ret = ret ? ret : smd_custom_job_decode(document, diagnostics, &job);
		smd_node_free(document);
		if (ret == 0) {
			build_environment(job);
			smd_job_free(job);
		}
	}
	/* Our own promise, not the input's: what is refused has a reason. */
	if ((ret == 0) != (diagnostics->found[SMD_SEVERITY_ERROR] == 0)) {
		abort();
	}
	smd_diagnostics_print(diagnostics, name, SMD_SEVERITY_NOTE, nowhere);
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	fclose(nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	decode("input.json", bytes, length);
	decode("input.yaml", bytes, length);
	return 0;
}
