/* A worker pool from the flags of gcloud's local-run, with gcloud's rules and messages. */
#include "orchestrator/frontend/gcloud/package_flags.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file or directory PATH under the package, of that kind (S_IFREG, S_IFDIR). */
static int is_there(const char *directory, const char *path, mode_t kind)
{
	struct stat status;
	char *full;
	int found;

	if (asprintf(&full, "%s%s%s", path[0] == '/' ? "" : directory, path[0] == '/' ? "" : "/",
		    path) < 0) {
		return 0;
	}
	found = stat(full, &status) == 0 && (status.st_mode & S_IFMT) == kind;
	free(full);
	return found;
}

/* "trainer.task" -> "trainer/task.py" */
static int module_to_path(const char *module, char path[PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s.py", module);

	for (int i = 0; i < length - 3 && i < PATH_MAX; i++) {
		path[i] = path[i] == '.' ? '/' : path[i];
	}
	return length < PATH_MAX;
}

void smd_edit_check_program(struct smd_job_edit *edit, const struct smd_package_flags *flags)
{
	const char *directory = flags->directory.value ? flags->directory.value : ".";
	const struct smd_flag_value *flag = flags->script.value ? &flags->script : &flags->module;
	const char *program = flag->value;
	char path[PATH_MAX];

	if (flags->directory.value && !is_there(".", directory, S_IFDIR)) {
		smd_edit_refuse(
			edit, flags->directory.at, "Directory '%s' is not found.", directory);
		return;
	}
	if (!program) {
		return;
	}
	if (!flags->script.value && module_to_path(flags->module.value, path)) {
		program = path;
	}
	if (!is_there(directory, program, S_IFREG)) {
		smd_edit_refuse(edit, flag->at, "File '%s' is not found under the package: '%s'.",
			program, directory);
	}
}

void smd_edit_check_items(struct smd_job_edit *edit, const struct smd_package_flags *flags,
	const struct smd_flag_value *flag, const struct smd_flag_items *items, mode_t kind)
{
	const char *directory = flags->directory.value ? flags->directory.value : ".";

	for (size_t i = 0; i < items->count; i++) {
		if (!is_there(directory, items->values[i], kind)) {
			smd_edit_refuse(edit, flag->at,
				"%s '%s' is not found under the package: '%s'.",
				kind == S_IFDIR ? "Directory" : "Package file", items->values[i],
				directory);
		}
	}
}

static void take_list(
	struct smd_job_edit *edit, const struct smd_flag_value *flag, struct smd_flag_items *out)
{
	if (flag->value && smd_flag_list(flag->value, out, NULL)) {
		edit->ret = -ENOMEM;
	}
}

/* What only an image that is built from the package has a use for. */
static void refuse_build_flags(struct smd_job_edit *edit, const struct smd_package_flags *flags)
{
	const struct smd_flag_value *build[] = {&flags->output_image, &flags->requirements,
		&flags->extra_packages, &flags->extra_dirs};

	for (size_t i = 0; i < sizeof(build) / sizeof(build[0]); i++) {
		if (build[i]->value) {
			smd_edit_refuse(edit, build[i]->at,
				"--script or --python-module is required to build a training "
				"container image. Otherwise, please remove this flag to directly "
				"run the `executor-image-uri`.");
		}
	}
}

static void take_package(struct smd_job_edit *edit, const struct smd_package_flags *flags)
{
	struct smd_flag_items extra_dirs = {0};

	smd_edit_check_program(edit, flags);
	take_list(edit, &flags->requirements, &edit->requirements);
	take_list(edit, &flags->extra_packages, &edit->extra_packages);
	take_list(edit, &flags->extra_dirs, &extra_dirs);
	smd_edit_check_items(edit, flags, &flags->extra_packages, &edit->extra_packages, S_IFREG);
	smd_edit_check_items(edit, flags, &flags->extra_dirs, &extra_dirs, S_IFDIR);
	smd_flag_items_free(&extra_dirs);
	edit->code_dir = strdup(flags->directory.value ? flags->directory.value : ".");
	if (!edit->code_dir) {
		edit->ret = -ENOMEM;
	}
}

char *smd_script_interpreter(const char *script)
{
	static char python[] = "python3";
	static char shell[] = "/bin/bash";
	const char *dot = strrchr(script, '.');

	return dot && strcmp(dot, ".py") == 0 ? python : shell;
}

static void put_command(
	struct smd_job_edit *edit, const struct smd_package_flags *flags, struct smd_node *task)
{
	char *words[] = {(char[]){"python3"}, (char[]){"-m"}, (char *)flags->module.value};
	struct smd_flag_items command = {.values = words, .count = 3};

	if (flags->script.value) {
		words[0] = smd_script_interpreter(flags->script.value);
		words[1] = (char *)flags->script.value;
		command.count = 2;
	}
	smd_edit_put_strings(edit, task, "command", &command, flags->executor_image.at);
}

void smd_edit_package(struct smd_job_edit *edit, const struct smd_package_flags *flags)
{
	struct smd_source_position at = flags->executor_image.at;
	int has_program = flags->script.value || flags->module.value;
	struct smd_node *pools;
	struct smd_node *pool;
	struct smd_node *task;

	if (flags->script.value && flags->module.value) {
		smd_edit_refuse(edit, flags->script.at,
			"Exactly one of (--python-module | --script) must be specified.");
		return;
	}
	if (has_program) {
		take_package(edit, flags);
	} else {
		refuse_build_flags(edit, flags);
	}
	pools = smd_edit_put(edit, edit->spec, "workerPoolSpecs", SMD_NODE_ARRAY, at);
	pool = pools ? smd_node_create(pools, NULL, SMD_NODE_OBJECT, at) : NULL;
	task = smd_edit_object(edit, pool, "containerSpec", at);
	if (!task) {
		edit->ret = -ENOMEM;
		return;
	}
	smd_edit_put_string(edit, task, "imageUri",
		flags->output_image.value ? flags->output_image.value : flags->executor_image.value,
		at);
	if (has_program) {
		put_command(edit, flags, task);
	}
}
