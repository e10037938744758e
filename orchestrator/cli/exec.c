/* `summand custom-jobs exec` and `hp-tuning-jobs exec`: run a command, or a shell, in a replica that
 * runs. */
#include "orchestrator/cli/exec.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/job/job.h"
#include "reduction_server/base/parse.h"
#include "reduction_server/base/printable.h"

#define POOL_PREFIX   "workerpool"
#define TRIAL_OPTIONS 2 /* the first ones are of tuning jobs alone */

int smd_exec_show(int fd, const uint8_t *bytes, size_t count)
{
	while (count > 0) {
		ssize_t written = write(fd, bytes, count);

		if (written < 0 && errno == EAGAIN) {
			struct pollfd ready = {.fd = fd, .events = POLLOUT};

			poll(&ready, 1, -1);
		} else if (written < 0 && errno != EINTR) {
			return -errno;
		}
		bytes += written > 0 ? written : 0;
		count -= written > 0 ? (size_t)written : 0;
	}
	return 0;
}

static int run(struct smd_stored_jobs *jobs, const struct smd_stored_job *job,
	const struct smd_exec_request *request)
{
	char buffer[SMD_STORE_NAME_SIZE];

	if (jobs->service && !job->end_time) {
		return smd_exec_at_service(jobs->service, job, request);
	}
	if (job->end_time || !job->directory) {
		smd_print_line(stderr, "summand: %s: must run, and its state is %s\n",
			smd_stored_jobs_name(job, buffer), job->state);
		return SMD_EXEC_NOT_RUN;
	}
	return smd_exec_here(job, request);
}

/* "1-0" is short for "workerpool1-0". */
static void complete_name(char name[SMD_REPLICA_NAME_MAX], const char *given)
{
	int is_short = given[0] >= '0' && given[0] <= '9';

	snprintf(name, SMD_REPLICA_NAME_MAX, "%s%s", is_short ? POOL_PREFIX : "", given);
}

/* What follows "--" is the command, whatever it looks like. Where it begins. */
static int find_command(int argc, char **argv)
{
	int i = 1;

	while (i < argc && strcmp(argv[i], "--") != 0) {
		i++;
	}
	return i;
}

static int set_trial(void *target, const char *value, struct smd_error *error)
{
	unsigned *trial = target;
	uint64_t number;

	if (smd_parse_number(value, 1, UINT32_MAX, &number)) {
		return smd_error_set(
			error, EINVAL, "must be a trial's number, from 1 on, got \"%s\"", value);
	}
	*trial = (unsigned)number;
	return 0;
}

static int run_exec(enum smd_stored_kind kind, int argc, char **argv)
{
	static char *const no_command[] = {NULL};
	const char *given = "0-0";
	char replica[SMD_REPLICA_NAME_MAX];
	struct smd_exec_request request = {.replica = replica, .command = no_command};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Trial"),
		{"trial", "NUMBER", "the trial that is meant, which must run", set_trial,
			&request.trial},
		SMD_OPTION_GROUP("Replica"),
		{"replica", "POOL-INDEX", "the replica, as 1-0 or workerpool1-0 (default 0-0)",
			smd_option_set_string, &given},
		SMD_GLOBAL_OPTIONS,
	};
	const size_t left_out = kind == SMD_STORED_TUNING_JOB ? 0 : TRIAL_OPTIONS;
	const struct smd_command command = {
		.synopsis = kind == SMD_STORED_TUNING_JOB
				    ? "summand hp-tuning-jobs exec JOB --trial=NUMBER "
				      "[--replica=POOL-INDEX] [OPTION...] [-- COMMAND...]"
				    : "summand custom-jobs exec JOB [--replica=POOL-INDEX] [OPTION...] "
				      "[-- COMMAND...]",
		.summary = "Runs a command, or a shell, beside a replica's own process.",
		.options = options + left_out,
		.noptions = sizeof(options) / sizeof(options[0]) - left_out,
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = "Exit codes: the command's; 125 it was not run, 126 it cannot be executed, "
			 "127 it was not found, 128 + N signal N has ended it.",
	};
	int at = find_command(argc, argv);
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (at < argc) { /* the list ends with NULL */
		request.command = argv + at + 1;
	}
	if (!smd_stored_jobs_begin(&jobs, kind, &command, at, argv, &job, &exit_code)) {
		complete_name(replica, given);
		if (kind == SMD_STORED_TUNING_JOB && !request.trial) {
			smd_print_line(stderr, "summand: --trial: must be given: %s\n", command.synopsis);
			exit_code = SMD_EXIT_USAGE;
		} else {
			exit_code = run(&jobs, &job.job, &request);
		}
		smd_job_copy_free(&job);
		smd_stored_jobs_close(&jobs);
	}
	return exit_code;
}

int smd_custom_jobs_exec(int argc, char **argv)
{
	return run_exec(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_exec(int argc, char **argv)
{
	return run_exec(SMD_STORED_TUNING_JOB, argc, argv);
}
