/*
 * Any words at all, one a line, after a verb that the first line chooses: they are refused, or
 * describe a job. None is run, and no directory is made for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/private_file.h"
#include "orchestrator/cli/torch_run.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/plan/machine.h"
#include "orchestrator/runner/jobdir.h"
#include "orchestrator/runner/local_run.h"
#include "tests/fuzz/input.h"

#define WORDS_MAX 64

int __wrap_smd_jobdir_open(struct smd_jobdir *dir, const struct smd_job *job, const char *path,
	struct smd_error *error);
int __wrap_smd_local_run(const struct smd_job *job, const struct smd_local_run_options *options,
	struct smd_error *error);
FILE *__wrap_smd_private_file_create(const char *path, int is_program);
int __real_smd_catalogue_load(
	const char *path, struct smd_catalogue **out, struct smd_error *error);
int __wrap_smd_catalogue_load(
	const char *path, struct smd_catalogue **out, struct smd_error *error);
void __wrap_smd_catalogue_free(struct smd_catalogue *catalogue);

/* As far as a job may come here. */
int __wrap_smd_jobdir_open(struct smd_jobdir *dir, const struct smd_job *job, const char *path,
	struct smd_error *error)
{
	(void)dir;
	(void)job;
	(void)path;
	return smd_error_set(error, EROFS, "a job must not run here");
}

int __wrap_smd_local_run(const struct smd_job *job, const struct smd_local_run_options *options,
	struct smd_error *error)
{
	(void)job;
	(void)options;
	(void)error;
	must_hold(0);
	return -EROFS;
}

/* What is exported goes nowhere. */
FILE *__wrap_smd_private_file_create(const char *path, int is_program)
{
	(void)path;
	(void)is_program;
	return tmpfile();
}

/* The machines, which are the same for every command line, are read once. */
int __wrap_smd_catalogue_load(const char *path, struct smd_catalogue **out, struct smd_error *error)
{
	static struct smd_catalogue *catalogue;

	must_hold(catalogue || __real_smd_catalogue_load(path, &catalogue, error) == 0);
	*out = catalogue;
	return 0;
}

void __wrap_smd_catalogue_free(struct smd_catalogue *catalogue)
{
	(void)catalogue;
}

static int (*find_verb(const char *name))(int argc, char **argv)
{
	switch (name[0]) {
	case 'p':
		return smd_custom_jobs_plan;
	case 'e':
		return smd_custom_jobs_env;
	case 'x':
		return smd_custom_jobs_export;
	case 'l':
		return smd_custom_jobs_local_run;
	case 't':
		return smd_torch_run;
	default:
		return smd_custom_jobs_validate;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = input_text(bytes, length);
	char *argv[WORDS_MAX + 1];
	int argc = input_lines(text, argv, WORDS_MAX);
	int exit_code;

	argv[argc] = NULL;
	input_mute();
	exit_code = find_verb(argv[0])(argc, argv);
	input_unmute();
	must_hold(exit_code == SMD_EXIT_OK || exit_code == SMD_EXIT_USAGE);
	free(text);
	return 0;
}
