/* `summand custom-jobs stream-logs` and `hp-tuning-jobs stream-logs`: prints a job's stream, and
 * what comes until the job ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/hp_tuning_jobs.h"
#include "orchestrator/cli/stored_jobs.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/store/runner_lock.h"
#include "reduction_server/base/printable.h"

#define LOG       "job.log"
#define OLDER_LOG "job.log.1"
#define LOOK_US   100000

#define SILENT_LOOKS 2 /* at a service, after the job's end */

struct follower {
	int folder; /* of logs */
	int runners;
	int64_t id;
	const char *task; /* NULL: all */
	int polling_s;    /* 0: as it comes */
	int is_terminal;
	FILE *log;
	char *line;
	size_t size;
};

/* A replica may have put anything in its place. */
static FILE *open_log(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	struct stat status;

	if (fd < 0) {
		return NULL;
	}
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return NULL;
	}
	return fdopen(fd, "r");
}

/* The third column. */
static int is_of_task(const char *line, const char *task)
{
	size_t length = strlen(task);

	for (int tabs = 0; tabs < 2; tabs++) {
		line = strchr(line, '\t');
		if (!line) {
			return 0;
		}
		line++;
	}
	return strncmp(line, task, length) == 0 && line[length] == '\t';
}

static void print_log_line(const struct follower *follower, ssize_t length)
{
	if (follower->task && !is_of_task(follower->line, follower->task)) {
		return;
	}
	if (follower->is_terminal) {
		smd_print_line(stdout, "%s", follower->line);
	} else {
		fwrite(follower->line, 1, (size_t)length, stdout);
	}
}

/* Prints the lines that are there. One that has no end yet is left for the next time. */
static void drain(struct follower *follower, int is_last)
{
	for (;;) {
		off_t before = ftello(follower->log);
		ssize_t length = getline(&follower->line, &follower->size, follower->log);

		if (length <= 0) {
			break;
		}
		if (follower->line[length - 1] != '\n' && !is_last) {
			fseeko(follower->log, before, SEEK_SET);
			break;
		}
		print_log_line(follower, length);
	}
	clearerr(follower->log);
	fflush(stdout);
}

/* Whether another file has the log's name by now. */
static int has_been_renamed(const struct follower *follower)
{
	struct stat open_one, named;

	return fstat(fileno(follower->log), &open_one) == 0 &&
	       fstatat(follower->folder, LOG, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (open_one.st_ino != named.st_ino || open_one.st_dev != named.st_dev);
}

static void print_older(struct follower *follower)
{
	follower->log = open_log(follower->folder, OLDER_LOG);
	if (follower->log) {
		drain(follower, 1);
		fclose(follower->log);
		follower->log = NULL;
	}
}

/* The stream is complete once its runner is gone. */
static void follow(struct follower *follower)
{
	print_older(follower);
	for (;;) {
		int is_alive = smd_runner_lock_is_held(follower->runners, follower->id) > 0;

		if (!follower->log) {
			follower->log = open_log(follower->folder, LOG);
		}
		if (follower->log) {
			int renamed = has_been_renamed(follower);

			drain(follower, renamed || !is_alive);
			if (renamed) {
				fclose(follower->log);
				follower->log = NULL;
				continue;
			}
		}
		if (!is_alive || ferror(stdout)) {
			break;
		}
		if (follower->polling_s) {
			sleep((unsigned)follower->polling_s);
		} else {
			usleep(LOOK_US);
		}
	}
	if (follower->log) {
		fclose(follower->log);
	}
}

/* ---- of a service ---- */

/* A line as the log of a job has it: with the time of this place. */
static void print_entry(void *arg, const struct smd_service_line *line)
{
	struct follower *follower = arg;
	struct tm parts = {.tm_mday = 1};
	char stamp[64];
	time_t second;
	ssize_t length;
	char *text = NULL;

	if (!strptime(line->time, "%Y-%m-%dT%H:%M:%S", &parts)) {
		return;
	}
	second = timegm(&parts);
	localtime_r(&second, &parts);
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S %z", &parts);
	length = asprintf(&text, "%s\t%s\t%s\t%s\n", line->severity, stamp, line->task, line->text);
	if (length < 0) {
		return;
	}
	free(follower->line);
	follower->line = text;
	print_log_line(follower, length);
}

/* The last lines of a job that has ended are there within a second. */
static int stream_from_service(
	struct smd_stored_jobs *jobs, struct smd_job_copy *job, struct follower *follower)
{
	struct smd_service_log_place place = {.time = ""};
	struct smd_error error = {""};
	int silent = 0;
	int count = 0;

	follower->is_terminal = isatty(STDOUT_FILENO);
	while (silent < SILENT_LOOKS && !ferror(stdout)) {
		struct smd_job_copy before = *job;

		count = smd_service_jobs_read_log(
			jobs->service, &job->job, &place, print_entry, follower, &error);
		if (count < 0) {
			break;
		}
		fflush(stdout);
		silent = count == 0 && job->job.end_time ? silent + 1 : 0;
		if (count == 0 && silent < SILENT_LOOKS) {
			sleep(follower->polling_s ? (unsigned)follower->polling_s : 1);
		}
		if (!job->job.end_time) {
			count = smd_stored_jobs_get(jobs, &before.job, job, &error);
			smd_job_copy_free(&before);
			if (count < 0) {
				break;
			}
		}
	}
	if (count < 0) {
		smd_print_line(stderr, "summand: %s\n", error.text);
	}
	free(follower->line);
	return count < 0 ? SMD_EXIT_FAILED : SMD_EXIT_OK;
}

/* ---- of this machine ---- */

static int stream(const struct smd_stored_jobs *jobs, const struct smd_stored_job *job,
	struct follower *follower)
{
	char *path = NULL;
	int exit_code = SMD_EXIT_FAILED;

	if (asprintf(&path, "%s/logs", job->directory) < 0) {
		return SMD_EXIT_FAILED;
	}
	follower->id = job->id;
	follower->is_terminal = isatty(STDOUT_FILENO);
	follower->folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	follower->runners = smd_runner_lock_open(jobs->state_dir);
	if (!*job->directory && !job->start_time) {
		smd_print_line(stderr, "summand: it ended before it had begun, and said nothing\n");
	} else if (!*job->directory) {
		smd_print_line(stderr,
			"summand: its directory was used again by a later job, which has "
			"replaced the logs\n");
	} else if (follower->folder < 0) {
		smd_print_line(stderr, "summand: %s: %s\n", path, strerror(errno));
	} else if (follower->runners >= 0) {
		follow(follower);
		exit_code = SMD_EXIT_OK;
	}
	if (follower->folder >= 0) {
		close(follower->folder);
	}
	if (follower->runners >= 0) {
		close(follower->runners);
	}
	free(follower->line);
	free(path);
	return exit_code;
}

/* gcloud's: from 1 on, or unlimited, which looks all the time. */
static int set_interval(void *target, const char *value, struct smd_error *error)
{
	int seconds = 0;

	if (strcmp(value, "unlimited") != 0 &&
		(smd_option_set_int(&seconds, value, NULL) || seconds < 1)) {
		return smd_error_set(
			error, EINVAL, "must be unlimited, or a whole number of seconds from 1 on");
	}
	*(int *)target = seconds;
	return 0;
}

static int run_verb(enum smd_stored_kind kind, int argc, char **argv)
{
	struct follower follower = {.task = NULL};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Output"),
		{"task-name", "NAME", "only lines of this task, such as workerpool0-0 or service",
			smd_option_set_string, &follower.task},
		{"polling-interval", "SECONDS",
			"how often lines are looked for (default: as they come)", set_interval,
			&follower.polling_s},
		SMD_GLOBAL_OPTIONS,
		/* Each line is one of the log's. */
		{"allow-multiline-logs", NULL, NULL, smd_option_set_bool, &(int){0}},
	};
	const struct smd_command command = {
		.synopsis = SMD_BY_KIND(kind, "summand ", " stream-logs JOB [OPTION...]"),
		.summary = kind == SMD_STORED_TUNING_JOB
				   ? "Prints how a job's trials go on, until the job has ended."
				   : "Prints what a job's replicas say, until the job has ended.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.epilog = SMD_JOB_OPERAND(kind),
		.exits = SMD_EXITS,
	};
	struct smd_stored_jobs jobs;
	struct smd_job_copy job;
	int exit_code;

	if (!smd_stored_jobs_begin(&jobs, kind, &command, argc, argv, &job, &exit_code)) {
		exit_code = smd_stored_jobs_await_begin(&jobs, &job, &(volatile sig_atomic_t){0})
				    ? SMD_EXIT_FAILED
			    : jobs.service ? stream_from_service(&jobs, &job, &follower)
					   : stream(&jobs, &job.job, &follower);
		smd_job_copy_free(&job);
		smd_stored_jobs_close(&jobs);
	}
	return exit_code;
}

int smd_custom_jobs_stream_logs(int argc, char **argv)
{
	return run_verb(SMD_STORED_CUSTOM_JOB, argc, argv);
}

int smd_hp_tuning_jobs_stream_logs(int argc, char **argv)
{
	return run_verb(SMD_STORED_TUNING_JOB, argc, argv);
}
