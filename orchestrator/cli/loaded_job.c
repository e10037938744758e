/* Loads the job that a command line names or describes. */
#include "orchestrator/cli/loaded_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/overlong.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/document/diagnostics.h"
#include "orchestrator/frontend/azureml/azure_job.h"
#include "orchestrator/frontend/gcloud/flags_file.h"
#include "orchestrator/frontend/gcloud/job_flags.h"
#include "orchestrator/frontend/vertex/custom_job.h"

#define COMMAND_LINE         "the command line"
#define DISPLAY_NAME_DEFAULT "custom-job"

/* A command line on its way to a job. */
struct loader {
	struct smd_loaded_job *loaded;
	struct smd_flags_file expanded;
	struct smd_job_flags *flags;
	char **words; /* after "--" */
	size_t nwords;
	struct smd_diagnostics *diagnostics;
	struct smd_job_edit edit;
};

/* The CustomJobSpec in a CustomJob or a HyperparameterTuningJob. */
static struct smd_node *spec_of(const struct smd_node *document)
{
	const struct smd_node *spec = smd_node_member(document, "jobSpec");

	return (struct smd_node *)(spec ? spec : smd_node_member(document, "trialJobSpec"));
}

/* A CustomJob around the spec, so that what a spec has no place for has one. */
static int wrap(struct smd_node **document)
{
	struct smd_source_position at = (*document)->at;
	struct smd_node *job;
	int ret = -ENOMEM;

	if ((*document)->type != SMD_NODE_OBJECT || spec_of(*document) ||
		smd_node_member(*document, "displayName")) {
		return 0;
	}
	job = smd_node_create(NULL, NULL, SMD_NODE_OBJECT, at);
	if (job && smd_node_create_string(job, "displayName", DISPLAY_NAME_DEFAULT, at)) {
		ret = smd_node_adopt(job, "jobSpec", *document);
	}
	if (ret) {
		smd_node_free(job);
		return ret;
	}
	*document = job;
	return 0;
}

/* Changes the document by the flags. What is no object is left for the decoder to refuse. After a
 * error in flags the document is checked too, unless its pools are what they should have given.
 */
static int apply_flags(struct loader *loader, struct smd_node **document)
{
	struct smd_job_edit *edit = &loader->edit;
	size_t errors = loader->diagnostics->found[SMD_SEVERITY_ERROR];
	int ret;

	if (!smd_job_flags_are_given(loader->flags) && loader->nwords == 0) {
		return 0;
	}
	ret = wrap(document);
	if (ret || (*document)->type != SMD_NODE_OBJECT) {
		return ret;
	}
	edit->job = *document;
	edit->spec = spec_of(*document);
	edit->diagnostics = loader->diagnostics;
	if (!edit->spec || edit->spec->type != SMD_NODE_OBJECT) {
		return 0;
	}
	smd_job_flags_apply(loader->flags, loader->words, loader->nwords, edit);
	if (!edit->ret && smd_job_flags_have_pools(loader->flags) &&
		loader->diagnostics->found[SMD_SEVERITY_ERROR] > errors) {
		return -EINVAL;
	}
	return edit->ret;
}

static int parse_document(struct loader *loader, struct smd_node **out)
{
	const struct smd_source *source = &loader->loaded->source;

	if (!source->text) {
		*out = smd_node_create(NULL, NULL, SMD_NODE_OBJECT,
			(struct smd_source_position){.line = 1, .column = 1});
		return *out ? 0 : -ENOMEM;
	}
	return smd_document_parse(
		source->name, source->text, source->length, loader->diagnostics, out);
}

/* What the document has no place for moves into the job. */
static int copy_strings(const struct smd_flag_items *items, char ***strings, size_t *count)
{
	if (items->count == 0) {
		return 0;
	}
	*strings = calloc(items->count, sizeof(**strings));
	if (!*strings) {
		return -ENOMEM;
	}
	*count = items->count;
	for (size_t i = 0; i < items->count; i++) {
		(*strings)[i] = strdup(items->values[i]);
		if (!(*strings)[i]) {
			return -ENOMEM;
		}
	}
	return 0;
}

static int take_package(struct smd_job_edit *edit, struct smd_job *job)
{
	int ret = copy_strings(&edit->requirements, &job->requirements, &job->nrequirements);

	job->code_dir = edit->code_dir;
	edit->code_dir = NULL;
	return ret ? ret
		   : copy_strings(
			     &edit->extra_packages, &job->extra_packages, &job->nextra_packages);
}

/* Azure ML's document becomes a CustomJob's. */
static int convert(struct loader *loader, struct smd_node **document)
{
	const char *name = loader->loaded->source.name;
	const char *slash = strrchr(name, '/');
	char *directory = slash ? strndup(name, (size_t)(slash - name) + 1) : strdup(".");
	struct smd_node *job;
	int ret = -ENOMEM;

	if (directory) {
		ret = smd_azure_job_convert(
			*document, directory, loader->diagnostics, &job, &loader->edit.code_dir);
	}
	free(directory);
	if (!ret) {
		smd_node_free(*document);
		*document = job;
	}
	return ret;
}

static int decode(struct loader *loader)
{
	struct smd_node *document;
	int ret = parse_document(loader, &document);

	if (ret) {
		return ret;
	}
	ret = smd_azure_job_is(document) ? convert(loader, &document) : 0;
	ret = ret ? ret : apply_flags(loader, &document);
	if (!ret) {
		ret = smd_custom_job_decode(document, loader->diagnostics, &loader->loaded->job);
	}
	if (!ret) {
		ret = take_package(&loader->edit, loader->loaded->job);
	}
	ret = ret ? ret : smd_overlong_check(loader->loaded->job, document, loader->diagnostics);
	smd_node_free(document);
	return ret;
}

/* Shows what is wrong with the spec; the exit code of a command that has to give up for it. */
static int report(const struct smd_loaded_job *loaded, struct smd_diagnostics *diagnostics, int ret)
{
	const char *name = loaded->source.name;
	size_t errors;

	if (loaded->use == SMD_USE_RUN) {
		smd_diagnostics_turn(diagnostics, SMD_SEVERITY_CONTAINER_ONLY, SMD_SEVERITY_ERROR);
	}
	errors = diagnostics->found[SMD_SEVERITY_ERROR];
	smd_diagnostics_print(diagnostics, name,
		loaded->use == SMD_USE_VALIDATE && errors == 0 ? SMD_SEVERITY_NOTE
							       : SMD_SEVERITY_WARNING,
		stderr);
	if (errors > 0) {
		fprintf(stderr, "summand: %s: %zu error%s%s\n", name, errors,
			errors == 1 ? "" : "s",
			loaded->use < SMD_USE_RUN ? "" : "; nothing was started");
		return SMD_EXIT_USAGE;
	}
	if (ret) {
		fprintf(stderr, "summand: %s: %s\n", name, strerror(-ret));
		return SMD_EXIT_FAILED;
	}
	return SMD_EXIT_OK;
}

static int load(struct loader *loader)
{
	int exit_code;
	int ret;

	loader->diagnostics = calloc(1, sizeof(*loader->diagnostics));
	if (!loader->diagnostics) {
		fprintf(stderr, "summand: %s\n", strerror(ENOMEM));
		return SMD_EXIT_FAILED;
	}
	ret = decode(loader);
	exit_code = report(loader->loaded, loader->diagnostics, ret);
	smd_diagnostics_clear(loader->diagnostics);
	free(loader->diagnostics);
	return exit_code;
}

/* The words after "--" are not for us. */
static int take_words(struct loader *loader)
{
	struct smd_flags_file *line = &loader->expanded;

	for (int i = 1; i < line->argc; i++) {
		if (strcmp(line->argv[i], "--") == 0) {
			loader->words = line->argv + i + 1;
			loader->nwords = (size_t)(line->argc - i - 1);
			return i;
		}
	}
	return line->argc;
}

/* Reads the spec that is named, or takes note that the flags describe the job themselves. */
static int find_spec(struct loader *loader, const struct smd_command *command, int noperands)
{
	const char *config = smd_job_flags_config(loader->flags);
	const char *path = noperands == 1 ? loader->expanded.argv[1] : config;
	struct smd_error error = {""};
	int ret;

	for (int i = 1; i <= noperands; i++) {
		const char *operand = loader->expanded.argv[i];

		if (operand[0] == '-' && operand[1]) {
			fprintf(stderr, "summand: %s: unknown option; --help lists them\n",
				operand);
			return -EINVAL;
		}
	}
	if (noperands + (config != NULL) > 1) {
		fprintf(stderr, "summand: one SPEC is needed, got %d: %s\n",
			noperands + (config != NULL), command->synopsis);
		return -EINVAL;
	}
	if (!path && !smd_job_flags_have_pools(loader->flags)) {
		fprintf(stderr,
			"summand: a job is needed: SPEC, --config=FILE or --worker-pool-spec=...: "
			"%s\n",
			command->synopsis);
		return -EINVAL;
	}
	if (!path) {
		loader->loaded->source.name = COMMAND_LINE;
		return 0;
	}
	ret = smd_source_read(path, &loader->loaded->source, &error);
	if (ret) {
		fprintf(stderr, "summand: %s\n", error.text);
	}
	return ret;
}

static int parse(struct loader *loader, const struct smd_command *command, int *exit_code)
{
	const struct smd_command *merged = smd_job_flags_command(loader->flags, command);
	struct smd_error error = {""};
	int noperands;
	int ret = merged ? 0 : smd_error_set(&error, ENOMEM, "%s", strerror(ENOMEM));

	ret = ret ? ret
		  : smd_options_parse(
			    merged, take_words(loader), loader->expanded.argv, &noperands, &error);
	if (ret == -ENOEXEC) {
		*exit_code = SMD_EXIT_OK;
		return ret;
	}
	*exit_code = SMD_EXIT_USAGE;
	if (ret) {
		fprintf(stderr, "summand: %s\n", error.text);
		return ret;
	}
	return find_spec(loader, command, noperands);
}

/* The text of a job that has no file: what a file of it would say. */
static int write_source(struct smd_loaded_job *loaded)
{
	if (loaded->source.text) {
		return 0;
	}
	loaded->source.text = json_dumps(loaded->job->resolved, JSON_INDENT(2));
	if (!loaded->source.text) {
		return -ENOMEM;
	}
	loaded->source.length = strlen(loaded->source.text);
	return 0;
}

int smd_loaded_job_open(const struct smd_command *command, const enum smd_use *use, int argc,
	char **argv, struct smd_loaded_job *out, int *exit_code)
{
	struct smd_loaded_job loaded = {.job = NULL};
	struct loader loader = {.loaded = &loaded};
	int ret;

	*exit_code = SMD_EXIT_USAGE;
	ret = smd_flags_file_expand(argc, argv, &loader.expanded);
	if (!ret) {
		ret = smd_job_flags_create(&loader.flags);
	}
	ret = ret ? ret : parse(&loader, command, exit_code);
	if (!ret) {
		loaded.use = *use;
		*exit_code = load(&loader);
		if (*exit_code == SMD_EXIT_OK && write_source(&loaded)) {
			*exit_code = SMD_EXIT_FAILED;
		}
		ret = *exit_code == SMD_EXIT_OK ? 0 : -EINVAL;
	}
	smd_job_edit_free(&loader.edit);
	smd_job_flags_free(loader.flags);
	if (ret) {
		smd_flags_file_free(&loader.expanded);
		smd_loaded_job_close(&loaded);
		return ret;
	}
	loaded.line = loader.expanded;
	*out = loaded;
	return 0;
}

void smd_loaded_job_close(struct smd_loaded_job *loaded)
{
	smd_job_free(loaded->job);
	smd_source_free(&loaded->source);
	smd_flags_file_free(&loaded->line);
	smd_catalogue_free(loaded->catalogue);
	loaded->job = NULL;
	loaded->catalogue = NULL;
}

struct smd_plan *smd_loaded_job_plan(struct smd_loaded_job *loaded)
{
	struct smd_error error = {""};
	struct smd_plan *plan = NULL;
	int ret = loaded->catalogue ? 0 : smd_catalogue_load(NULL, &loaded->catalogue, &error);

	if (ret) {
		fprintf(stderr, "summand: %s\n", error.text);
		return NULL;
	}
	ret = smd_plan_create(loaded->job, loaded->catalogue, &plan);
	if (ret) {
		fprintf(stderr, "summand: %s\n", strerror(-ret));
	}
	return ret ? NULL : plan;
}
