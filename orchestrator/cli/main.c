/* The program `summand`: chooses a group of commands. */
#include <stdio.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/torch_run.h"
#include "orchestrator/cli/verbs.h"

#define AZURE_JOB "`summand custom-jobs local-run FILE` takes a command job of Azure ML"

int main(int argc, char **argv)
{
	static const struct smd_verb list[] = {
		{"custom-jobs", "training jobs described as worker pools", smd_custom_jobs_run},
		{"torch-run", "a PyTorch script in several processes", smd_torch_run},
	};
	static const struct smd_absent_verb absent[] = {
		{"hp-tuning-jobs", "`summand custom-jobs local-run SPEC` takes a "
				   "HyperparameterTuningJob too, and runs its first trial"},
		{"job", AZURE_JOB},
		{"ml", AZURE_JOB},
		{"create", "did you mean `summand custom-jobs create`?"},
		{"local-run", "did you mean `summand custom-jobs local-run`?"},
		{"validate", "did you mean `summand custom-jobs validate`?"},
		{"plan", "did you mean `summand custom-jobs plan`?"},
		{"env", "did you mean `summand custom-jobs env`?"},
		{NULL, NULL},
	};
	static const struct smd_verbs verbs = {
		.prefix = "summand",
		.summary = "Distributed training jobs as worker pools, and all-reduce through "
			   "reduction servers.",
		.list = list,
		.count = sizeof(list) / sizeof(list[0]),
		.absent = absent,
		.epilog =
			"`summand ai ...` is the same as `summand ...`; `summand --version` prints "
			"the version.",
	};
	int exit_code;

	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		printf("summand %s\n", SUMMAND_VERSION);
		exit_code = SMD_EXIT_OK;
	} else if (argc > 1 && strcmp(argv[1], "ai") == 0) {
		exit_code = smd_verbs_run(&verbs, argc - 1, argv + 1);
	} else {
		exit_code = smd_verbs_run(&verbs, argc, argv);
	}
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "summand: standard output: not all of it could be written\n");
		return exit_code == SMD_EXIT_OK ? SMD_EXIT_FAILED : exit_code;
	}
	return exit_code;
}
