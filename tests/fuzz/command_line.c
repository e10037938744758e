/*
 * Any words at all, one a line, after `summand custom-jobs validate`, `plan` or `env`, which the
 * first line chooses: they are refused, or describe a job. Nothing is run.
 */
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "tests/fuzz/input.h"

#define WORDS_MAX 64

static int (*find_verb(const char *name))(int argc, char **argv)
{
	switch (name[0]) {
	case 'p':
		return smd_custom_jobs_plan;
	case 'e':
		return smd_custom_jobs_env;
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
