/* summand-agent: one command and its keeper, or the agent of a host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/options.h"
#include "worker/agent/host/host.h"
#include "worker/agent/keeper.h"
#include "worker/agent/step.h"

#define EXIT_USAGE 2

/* The index of the command: the words after "--", which the parser of options does not see. */
static int find_command(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			return i + 1;
		}
	}
	return argc;
}

int main(int argc, char **argv)
{
	struct smd_keeper_options keeper = {
		.record_fd = -1, .grace_s = SMD_KEEPER_GRACE_DEFAULT_S};
	struct smd_host_options host = {.is_host = 0};
	const char *step = NULL;
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("The end of the command"),
		{"exit-record", "FILE", "write to FILE how the command ended, as JSON",
			smd_option_set_string, &keeper.exit_record},
		{"cleanup", "COMMAND", "run this shell command when nothing else is left",
			smd_option_set_string, &keeper.cleanup},
		{"grace", "SECONDS", "the time from SIGTERM to SIGKILL (default 30)",
			smd_option_set_int, &keeper.grace_s},
		{"linger", "SECONDS",
			"the time to end by itself when whoever started this is gone (default 0)",
			smd_option_set_int, &keeper.linger_s},
		SMD_OPTION_GROUP("A host of a job's allocation"),
		{"host", NULL,
			"start what a job's runner says; standard input begins with its invitation",
			smd_option_set_bool, &host.is_host},
		{"number-from", "VARIABLE",
			"add this variable's value to the host's number in the invitation",
			smd_option_set_string, &host.number_from},
		{"container-step", "PREFIX",
			"run a container of Pyxis by srun; it is met by files that begin with "
			"PREFIX",
			smd_option_set_string, &step},
	};
	const struct smd_command command = {
		.synopsis = "summand-agent [OPTION...] [-- COMMAND [ARG...]]",
		.summary = "Runs one command as a replica, and leaves nothing of it behind; or runs "
			   "what a job's runner says, as the agent of a host.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = "Exit codes: the command's; 2 the agent's command line is wrong, 126 the "
			 "command could not be executed, 127 it was not found, 128 + N signal N "
			 "ended it.",
	};
	struct smd_error error = {{0}};
	int start = find_command(argc, argv);
	int noperands = 0;
	int ret;

	ret = smd_options_parse(
		&command, start < argc ? start - 1 : argc, argv, &noperands, &error);
	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	if (ret == 0 && host.is_host && noperands == 0 && start >= argc) {
		return smd_host_run(&host);
	}
	if (ret == 0 && (noperands > 0 || start >= argc)) {
		ret = smd_error_set(&error, EINVAL,
			"summand-agent: a command must follow --, got %s",
			noperands > 0 ? argv[1] : "none");
	}
	if (ret) {
		fprintf(stderr, "%s\n", error.text);
		return EXIT_USAGE;
	}
	return step ? smd_step_run(step, argv + start) : smd_keeper_run(&keeper, argv + start);
}
