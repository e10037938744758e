/* `summand custom-jobs wait` and `hp-tuning-jobs wait`: returns when a job has ended, with how it
 * has. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/runner_lock.h"
#include "reduction_server/base/printable.h"

#define EXIT_TIMED_OUT 124 /* as timeout(1) */
#define ASK_US         500000

static volatile sig_atomic_t timed_out;

static void on_alarm(int signo)
{
	(void)signo;
	timed_out = 1;
}

/* Signals again and again, so that one between a look and a wait is not the only one. */
static void set_alarm(int seconds)
{
	const struct sigaction action = {.sa_handler = on_alarm}; /* interrupts the wait */
	const struct itimerval timer = {
		.it_value = {.tv_sec = seconds}, .it_interval = {.tv_usec = 100000}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* The runner is gone: 0; -ETIMEDOUT. */
static int wait_for_runner(const char *state_dir, int64_t id)
{
	int fd = smd_runner_lock_open(state_dir);
	int ret = fd < 0 ? fd : -EINTR;

	while (ret == -EINTR && !timed_out) {
		ret = smd_runner_lock_wait(fd, id);
	}
	if (fd >= 0) {
		close(fd);
	}
	return ret == -EINTR ? -ETIMEDOUT : ret;
}

static int tell(const struct smd_stored_job *job)
{
	fprintf(stderr, "%" PRId64 ": %s\n", job->id, job->state);
	if (job->error_message) {
		smd_print_line(stderr, "%.*s\n", (int)strcspn(job->error_message, "\n"),
			job->error_message);
	}
	return strcmp(job->state, "JOB_STATE_SUCCEEDED") == 0 ? SMD_EXIT_OK : SMD_EXIT_FAILED;
}

/* A service is asked until the job has ended. */
static int wait_at_service(struct smd_stored_jobs *jobs, struct smd_job_copy *job)
{
	struct smd_error error = {""};
	char buffer[SMD_STORE_NAME_SIZE];

	while (!job->job.end_time && !timed_out) {
		struct smd_job_copy before = *job;
		int ret;

		usleep(ASK_US);
		ret = smd_stored_jobs_get(jobs, &before.job, job, &error);
		smd_job_copy_free(&before);
		if (ret) {
			smd_print_line(stderr, "summand: %s\n", error.text);
			return SMD_EXIT_FAILED;
		}
	}
	if (!job->job.end_time) {
		smd_print_line(stderr, "summand: %s has not ended yet\n",
			smd_stored_jobs_name(&job->job, buffer));
		return EXIT_TIMED_OUT;
	}
	return tell(&job->job);
}

/* The store is read again once the runner is gone; or is not, as `ret` says already. */
static int wait_for(const char *state_dir, enum smd_stored_kind kind, int64_t id, int ret)
{
	struct smd_stored_jobs jobs;
	struct smd_job_copy ended;
	char name[SMD_STORE_NAME_SIZE];
	int exit_code = SMD_EXIT_FAILED;

	ret = ret ? ret : wait_for_runner(state_dir, id);
	smd_store_name(name, kind, id);
	if (ret == -ETIMEDOUT) {
		fprintf(stderr, "summand: %s has not ended yet\n", name);
		return EXIT_TIMED_OUT;
	}
	if (ret) {
		fprintf(stderr, "summand: %s/runners: %s\n", state_dir, strerror(-ret));
		return SMD_EXIT_FAILED;
	}
	if (smd_stored_jobs_open(&jobs)) {
		return SMD_EXIT_FAILED;
	}
	if (!smd_stored_jobs_find(&jobs, kind, name, &ended)) {
		exit_code = tell(&ended.job);
		smd_job_copy_free(&ended);
	}
	smd_stored_jobs_close(&jobs);
	return exit_code;
}

/* Closes the store, which is opened again once the job has ended. */
static int wait_here(
	struct smd_stored_jobs *jobs, enum smd_stored_kind kind, struct smd_job_copy *job)
{
	char *state_dir = strdup(jobs->state_dir);
	int64_t id = job->job.id;
	int ret = smd_stored_jobs_await_begin(jobs, job, &timed_out);
	int exit_code;

	smd_stored_jobs_close(jobs);
	exit_code = state_dir && (!ret || ret == -ETIMEDOUT) ? wait_for(state_dir, kind, id, ret)
							     : SMD_EXIT_FAILED;
	free(state_dir);
	return exit_code;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	int timeout_s = 0;
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Time"),
		{"timeout", "SECONDS", "wait no longer than that (default: until the job ends)",
			smd_option_set_int, &timeout_s},
		SMD_GLOBAL_OPTIONS,
	};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " wait JOB [OPTION...]"),
		.summary = "Waits until a job has ended and nothing of it is left.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = "Exit codes: 0 the job succeeded, 1 it failed or was cancelled, 2 the "
			 "command line is wrong, 124 it has not ended yet.",
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(&jobs, kind, &command, argc, argv, &job, &exit_code)) {
		if (timeout_s > 0) {
			set_alarm(timeout_s);
		}
		if (jobs.service) {
			exit_code = wait_at_service(&jobs, &job);
			smd_stored_jobs_close(&jobs);
		} else {
			exit_code = wait_here(&jobs, kind, &job);
		}
		smd_job_copy_free(&job);
	}
	return exit_code;
}

int smd_custom_jobs_wait(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_wait(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
