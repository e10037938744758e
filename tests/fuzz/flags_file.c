/*
 * Any bytes at all as the file of --flags-file: they are refused, or describe a job.
 */
#include <stdio.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char verb[] = "validate";
	char flag[96];
	char *argv[] = {verb, flag, NULL};
	int exit_code;

	snprintf(flag, sizeof(flag), "--flags-file=%s", input_file(bytes, length));
	input_mute();
	exit_code = smd_custom_jobs_validate(2, argv);
	input_unmute();
	must_hold(exit_code == SMD_EXIT_OK || exit_code == SMD_EXIT_USAGE);
	return 0;
}
