/* Loads the job that a command line names. */
#include "orchestrator/cli/loaded_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/verbs.h"
#include "orchestrator/spec/custom_job.h"
#include "orchestrator/spec/diagnostics.h"

static int decode(struct smd_loaded_job *loaded, struct smd_diagnostics *diagnostics)
{
	const struct smd_source *source = &loaded->source;
	struct smd_node *document;
	int ret = smd_document_parse(
		source->name, source->text, source->length, diagnostics, &document);

	if (ret) {
		return ret;
	}
	ret = smd_custom_job_decode(document, diagnostics, &loaded->job);
	smd_node_free(document);
	return ret;
}

/* Shows what is wrong with the spec; the exit code of a command that has to give up for it. */
static int report(const struct smd_loaded_job *loaded, struct smd_diagnostics *diagnostics, int ret)
{
	const char *name = loaded->source.name;

	size_t mistakes;

	if (loaded->use == SMD_USE_RUN) {
		smd_diagnostics_turn(diagnostics, SMD_CONTAINER_ONLY, SMD_MISTAKE);
	}
	mistakes = diagnostics->found[SMD_MISTAKE];
	smd_diagnostics_print(diagnostics, name,
		loaded->use == SMD_USE_VALIDATE && mistakes == 0 ? SMD_NOTE : SMD_WARNING, stderr);
	if (mistakes > 0) {
		fprintf(stderr, "summand: %s has %zu mistake%s; nothing was started\n", name,
			mistakes, mistakes == 1 ? "" : "s");
		return SMD_EXIT_USAGE;
	}
	if (ret) {
		fprintf(stderr, "summand: %s: %s\n", name, strerror(-ret));
		return SMD_EXIT_FAILED;
	}
	return SMD_EXIT_OK;
}

static int load(struct smd_loaded_job *loaded)
{
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	int exit_code;
	int ret;

	if (!diagnostics) {
		fprintf(stderr, "summand: %s\n", strerror(ENOMEM));
		return SMD_EXIT_FAILED;
	}
	ret = decode(loaded, diagnostics);
	exit_code = report(loaded, diagnostics, ret);
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	return exit_code;
}

static int parse(const struct smd_command *command, int argc, char **argv, int *exit_code)
{
	struct smd_error error = {""};
	int noperands;
	int ret = smd_options_parse(command, argc, argv, &noperands, &error);

	if (ret == -ENOEXEC) {
		*exit_code = SMD_EXIT_OK;
		return ret;
	}
	*exit_code = SMD_EXIT_USAGE;
	if (ret) {
		fprintf(stderr, "summand: %s\n", error.text);
		return ret;
	}
	if (noperands != 1) {
		fprintf(stderr, "summand: one SPEC is needed, got %d: %s\n", noperands,
			command->synopsis);
		return -EINVAL;
	}
	return 0;
}

int smd_loaded_job_open(const struct smd_command *command, enum smd_use use, int argc, char **argv,
	struct smd_loaded_job *out, int *exit_code)
{
	struct smd_loaded_job loaded = {.use = use};
	struct smd_error error = {""};
	int ret = parse(command, argc, argv, exit_code);

	if (ret) {
		return ret;
	}
	ret = smd_source_read(argv[1], &loaded.source, &error);
	if (ret) {
		fprintf(stderr, "summand: %s\n", error.text);
		*exit_code = SMD_EXIT_USAGE;
		return ret;
	}
	*exit_code = load(&loaded);
	if (*exit_code != SMD_EXIT_OK) {
		smd_loaded_job_close(&loaded);
		return -EINVAL;
	}
	*out = loaded;
	return 0;
}

void smd_loaded_job_close(struct smd_loaded_job *loaded)
{
	smd_job_free(loaded->job);
	smd_source_free(&loaded->source);
	loaded->job = NULL;
}

struct smd_plan *smd_loaded_job_plan(const struct smd_loaded_job *loaded)
{
	struct smd_catalogue *catalogue;
	struct smd_error error = {""};
	struct smd_plan *plan = NULL;
	int ret = smd_catalogue_load(NULL, &catalogue, &error);

	if (ret) {
		fprintf(stderr, "summand: %s\n", error.text);
		return NULL;
	}
	ret = smd_plan_create(loaded->job, catalogue, &plan);
	if (ret) {
		fprintf(stderr, "summand: %s\n", strerror(-ret));
	}
	smd_catalogue_free(catalogue);
	return ret ? NULL : plan;
}
