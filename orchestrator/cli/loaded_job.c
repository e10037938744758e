/* Loads the job that a command line names or describes. */
#include "orchestrator/cli/loaded_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/verbs.h"
#include "orchestrator/document/diagnostics.h"
#include "orchestrator/frontend/job_flags.h"
#include "orchestrator/intake/machines.h"
#include "orchestrator/intake/overlong.h"
#include "orchestrator/intake/own_variables.h"
#include "reduction_server/base/printable.h"

#define COMMAND_LINE "the command line"

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

/* The directory of the spec, for what is relative to it. NULL: out of memory. */
static char *directory_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash ? strndup(name, (size_t)(slash - name) + 1) : strdup(".");
}

static int convert(struct loader *loader, struct smd_node **document)
{
	struct smd_conversion conversion = {.diagnostics = loader->diagnostics};
	char *directory = directory_of(loader->loaded->source.name);
	int ret = -ENOMEM;

	if (directory) {
		conversion.directory = directory;
		ret = smd_frontend_convert(smd_frontends, &conversion, document);
	}
	loader->edit.code_dir = conversion.code_dir;
	loader->edit.run_name = conversion.run_name;
	free(directory);
	return ret;
}

/* A pool's machine type brings accelerators along, or must be able to take those of the spec. */
static int check_machines(struct smd_loaded_job *loaded, const struct smd_node *document,
	struct smd_diagnostics *diagnostics)
{
	smd_machines_check(loaded->catalogue, loaded->job, document, diagnostics);
	if (loaded->use == SMD_USE_VALIDATE) {
		smd_machines_warn(loaded->catalogue, loaded->job, document, diagnostics);
	}
	return smd_catalogue_complete(loaded->catalogue, loaded->job);
}

static int decode(struct loader *loader)
{
	struct smd_loaded_job *loaded = loader->loaded;
	struct smd_node *document;
	int ret = parse_document(loader, &document);

	if (ret) {
		return ret;
	}
	loader->edit.diagnostics = loader->diagnostics;
	ret = convert(loader, &document);
	ret = ret ? ret
		  : smd_job_flags_apply(
			    loader->flags, loader->words, loader->nwords, &loader->edit, &document);
	ret = ret ? ret : smd_frontend_decode(document, loader->diagnostics, &loaded->job);
	ret = ret ? ret : smd_job_edit_finish(&loader->edit, loaded->job);
	ret = ret ? ret : check_machines(loaded, document, loader->diagnostics);
	ret = ret ? ret : smd_own_variables_check(loaded->job, document, loader->diagnostics);
	ret = ret ? ret : smd_overlong_check(loaded->job, document, loader->diagnostics);
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
	if (loaded->use == SMD_USE_SHOW_IMAGES || loaded->use == SMD_USE_RUN_IMAGES) {
		smd_diagnostics_turn(diagnostics, SMD_SEVERITY_CONTAINER_ONLY, SMD_SEVERITY_NOTE);
	}
	if (loaded->use >= SMD_USE_RUN) {
		smd_diagnostics_turn(diagnostics, SMD_SEVERITY_NOT_RUN, SMD_SEVERITY_ERROR);
	}
	errors = diagnostics->found[SMD_SEVERITY_ERROR];
	smd_diagnostics_print(diagnostics, name,
		loaded->use == SMD_USE_VALIDATE && errors == 0 ? SMD_SEVERITY_NOTE
							       : SMD_SEVERITY_WARNING,
		stderr);
	if (errors > 0) {
		smd_print_line(stderr, "summand: %s: %zu error%s%s\n", name, errors,
			errors == 1 ? "" : "s",
			loaded->use < SMD_USE_RUN ? "" : "; nothing was started");
		return SMD_EXIT_USAGE;
	}
	if (ret) {
		smd_print_line(stderr, "summand: %s: %s\n", name, strerror(-ret));
		return SMD_EXIT_FAILED;
	}
	return SMD_EXIT_OK;
}

static int load(struct loader *loader)
{
	struct smd_error error = {""};
	int exit_code;
	int ret;

	if (smd_catalogue_load(NULL, &loader->loaded->catalogue, &error)) {
		smd_print_line(stderr, "summand: %s\n", error.text);
		return SMD_EXIT_FAILED;
	}
	loader->diagnostics = calloc(1, sizeof(*loader->diagnostics));
	if (!loader->diagnostics) {
		smd_print_line(stderr, "summand: %s\n", strerror(ENOMEM));
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

	if (noperands + (config != NULL) > 1) {
		smd_print_line(stderr, "summand: one SPEC is needed, got %d: %s\n",
			noperands + (config != NULL), command->synopsis);
		return -EINVAL;
	}
	if (!path && !smd_job_flags_have_pools(loader->flags)) {
		smd_print_line(stderr,
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
		smd_print_line(stderr, "summand: %s\n", error.text);
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
		smd_print_line(stderr, "summand: %s\n", error.text);
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
		ret = smd_job_flags_create(smd_frontends, &loader.flags);
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
	struct smd_plan *plan = NULL;
	int ret = smd_plan_create(loaded->job, loaded->catalogue, &plan);

	if (ret) {
		smd_print_line(stderr, "summand: %s\n", strerror(-ret));
	}
	return ret ? NULL : plan;
}
