/* The program `summand`: chooses a group of commands. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/completion.h"
#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/help.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/queued_run.h"
#include "orchestrator/cli/send_notices.h"
#include "orchestrator/cli/serve.h"
#include "orchestrator/cli/torch_run.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/frontend/job_flags.h"
#include "orchestrator/service/webhook.h"

#define AZURE_JOB "`summand custom-jobs local-run FILE` takes a command job of Azure ML"

static int run_help(int argc, char **argv);
static int run_completion(int argc, char **argv);

static const struct smd_verb list[] = {
	SMD_VERB_GROUP("Jobs"),
	{"custom-jobs", "checks, runs and follows jobs that are described as worker pools",
		smd_custom_jobs_run},
	{"hp-tuning-jobs", "looks for a job's best parameters, in many trials",
		smd_hp_tuning_jobs_run},
	{"torch-run", "runs a PyTorch script in several processes of this machine", smd_torch_run},
	SMD_VERB_GROUP("Service"),
	{"serve", "answers the Vertex AI API, and runs the jobs that its clients create",
		smd_serve},
	{"env-gcloud", "prints the variables by which gcloud talks to a service", smd_env_gcloud},
	SMD_VERB_GROUP("Help"),
	{"help", "prints the page of a command, or of the topic " SMD_JOB_FLAGS_TOPIC, run_help},
	{"completion", "prints the script by which bash, zsh or fish completes command lines",
		run_completion},
};
static const struct smd_absent_verb absent[] = {
	{"job", AZURE_JOB},
	{"ml", AZURE_JOB},
	{NULL, NULL},
};
static const struct smd_verbs verbs = {
	.prefix = "summand",
	.summary = "Distributed training jobs as worker pools, and all-reduce through reduction "
		   "servers.",
	.list = list,
	.count = sizeof(list) / sizeof(list[0]),
	.absent = absent,
	.epilog = "`summand ai ...` is the same as `summand ...`; `summand --version` prints the "
		  "version.\n\n"
		  "Exit codes: 0 done, the job succeeded; 1 the job failed, or it could not be "
		  "done; 2 the command line or the spec is wrong, and nothing was started; 130 and "
		  "143 interrupted.",
};

static int run_help(int argc, char **argv)
{
	return smd_help_run(&verbs, argc, argv);
}

static int run_completion(int argc, char **argv)
{
	return smd_completion_run(&verbs, argc, argv);
}

/* A file that is opened later must not become standard output, and get what is printed. In place
 * of a closed one is one that cannot be read, or written. */
static int open_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags) != fd) {
			return -1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	int exit_code;

	if (open_standard_files()) {
		return SMD_EXIT_FAILED;
	}
	if (argc > 1 && strcmp(argv[1], SMD_QUEUED_RUN_VERB) == 0) {
		exit_code = smd_queued_run(argc - 1, argv + 1);
	} else if (argc > 1 && strcmp(argv[1], SMD_WEBHOOK_VERB) == 0) {
		exit_code = smd_send_notices(argc - 1, argv + 1);
	} else if (argc > 1 && strcmp(argv[1], "--version") == 0) {
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
