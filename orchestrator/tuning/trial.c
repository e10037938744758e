/* Runs a trial as a job of its own, in a child process and a folder of the tuning job's directory.
 */
#include "orchestrator/tuning/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "orchestrator/job/study.h"
#include "orchestrator/job/trial.h"
#include "orchestrator/runner/trace.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"

#define RUNNER_LOG     "logs/runner.log"
#define COMPLAINT_SIZE 1024

const char *smd_trial_state_name(enum smd_trial_state state)
{
	static const char *const names[] = {
#define X(constant, name, meaning) name,
		SMD_TRIAL_STATES(X)
#undef X
	};

	return names[state];
}

int smd_trial_runs(const struct smd_trial *trial)
{
	return trial->state == SMD_TRIAL_ACTIVE || trial->state == SMD_TRIAL_STOPPING;
}

static double wall_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Its own group, so that signals come from the tuning job's runner alone; and none is lost, if that
 * one is gone already. */
static void become_trial(pid_t parent)
{
	sigset_t none;

	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent) {
		_exit(EXIT_FAILURE);
	}
}

/* What the trial's runner says goes to a file: its lines would be among those of other trials. What
 * its replicas print goes to `printed`, if that is shown. */
static int open_output(const struct smd_jobdir *dir, int printed)
{
	FILE *log = smd_jobdir_open_file(dir, RUNNER_LOG, 0);

	if (!log || dup2(fileno(log), STDOUT_FILENO) < 0 ||
		dup2(printed ? printed : fileno(log), STDERR_FILENO) < 0) {
		return -errno;
	}
	fclose(log);
	return 0;
}

static int run(const struct smd_trial *trial, const struct smd_trial_runner *runner, int complaints,
	int printed)
{
	struct smd_local_run_options options = *runner->options;
	char *path = smd_jobdir_path(runner->dir, SMD_TRIAL_FOLDER, trial->number);
	char name[SMD_TRIAL_PATH_SIZE];
	struct smd_jobdir dir = {.fd = -1};
	struct smd_trace_family family;
	struct smd_error error = {""};
	int ret = path ? smd_jobdir_open(&dir, runner->job, path, &error) : -ENOMEM;

	free(path);
	ret = ret ? ret : open_output(&dir, printed);
	snprintf(name, sizeof(name), "%u", trial->number);
	ret = ret ? ret : smd_job_set_trial(runner->job, name, trial->point);
	if (runner->gpus) {
		setenv("CUDA_VISIBLE_DEVICES", runner->gpus[trial->lane], 1);
	}
	options.dir = &dir;
	options.complaints = complaints;
	options.entry = NULL;
	options.is_unlisted = 1;
	options.view = printed ? SMD_VIEW_RELAY : SMD_VIEW_PROGRESS;
	options.color = SMD_COLOR_NEVER;
	options.spec_text = NULL;
	options.plan_text = NULL;
	options.metrics = NULL; /* the tuning job's runner has them */
	options.trial = trial->number;
	options.trace = runner->trace->path;
	family = runner->trace->family;
	family.is_of_trial = 1;
	options.trace_family = &family;
	ret = ret ? ret : smd_local_run(runner->job, &options, &error);
	if (ret < 0) {
		const char *text = error.text[0] ? error.text : strerror(-ret);

		smd_print_line(stdout, "summand: %s\n", text);
		dprintf(complaints, "%s\n", text);
	}
	smd_jobdir_close(&dir);
	return ret < 0 ? EXIT_FAILURE : ret;
}

/* Tells of the file of metrics that each process has, until `take` is content. */
static void for_each_file(struct smd_trial *trial, const struct smd_trial_runner *runner,
	int (*take)(
		struct smd_trial *trial, const struct smd_trial_runner *runner, const char *name))
{
	const struct smd_job *job = runner->job;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int processes = smd_job_processes(job, pool);

		for (int i = 0; i < job->pools[pool].replica_count * processes; i++) {
			char name[SMD_TRIAL_PATH_SIZE];

			snprintf(name, sizeof(name), SMD_TRIAL_FOLDER "/" SMD_METRIC_FILE, trial->number,
				pool, i / processes, i % processes);
			if (take(trial, runner, name)) {
				return;
			}
		}
	}
}

static int removes(struct smd_trial *trial, const struct smd_trial_runner *runner, const char *name)
{
	(void)trial;
	smd_jobdir_remove(runner->dir, name);
	return 0;
}

/* Two pipes, of which [0] is read. 0 or -errno. */
static int open_pipes(int complaints[2], int printed[2], int is_shown)
{
	int ret;

	printed[0] = printed[1] = 0;
	if (pipe2(complaints, O_CLOEXEC | O_NONBLOCK)) {
		return -errno;
	}
	if (is_shown && pipe2(printed, O_CLOEXEC | O_NONBLOCK)) {
		ret = -errno;
		close(complaints[0]);
		close(complaints[1]);
		return ret;
	}
	return 0;
}

static void close_end(const int complaints[2], const int printed[2], int end)
{
	close(complaints[end]);
	if (printed[end]) {
		close(printed[end]);
	}
}

/* The child has all that this process has open. A pipe whose reader is gone must be seen to be. */
static void close_others(const struct smd_trial_runner *runner, const struct smd_trial *own)
{
	for (size_t i = 0; i < runner->count; i++) {
		const struct smd_trial *trial = &runner->trials[i];

		if (trial != own && trial->pid > 0) {
			close(trial->complaints);
			if (trial->printed) {
				close(trial->printed);
			}
		}
	}
}

int smd_trial_start(struct smd_trial *trial, const struct smd_trial_runner *runner)
{
	pid_t parent = getpid();
	int pipe[2], printed[2];
	int ret = open_pipes(pipe, printed, runner->options->view == SMD_VIEW_OUTPUT);

	if (ret) {
		return ret;
	}
	/* What another job has reported there would be taken for this one's. */
	for_each_file(trial, runner, removes);
	smd_timestamp(trial->start_time);
	trial->started_ns = smd_clock_ns();
	for (size_t i = 0; i < runner->job->study->nmetrics; i++) {
		trial->metrics[i].measurements.begin = wall_seconds();
	}
	fflush(NULL);
	trial->pid = fork();
	if (trial->pid < 0) {
		ret = -errno;
		trial->pid = 0;
		close_end(pipe, printed, 0);
		close_end(pipe, printed, 1);
		return ret;
	}
	if (trial->pid == 0) {
		close_end(pipe, printed, 0);
		close_others(runner, trial);
		become_trial(parent);
		exit(run(trial, runner, pipe[1], printed[1]));
	}
	close_end(pipe, printed, 1);
	trial->complaints = pipe[0];
	trial->printed = printed[0];
	setpgid(trial->pid, trial->pid);
	trial->state = SMD_TRIAL_ACTIVE;
	return 0;
}

/* Two signals of one kind may become one. */
void smd_trial_stop(struct smd_trial *trial, enum smd_trial_stop why)
{
	if (!smd_trial_runs(trial)) {
		return;
	}
	kill(trial->pid, trial->state == SMD_TRIAL_STOPPING ? SIGINT : SIGTERM);
	trial->stop = trial->stop == SMD_TRIAL_RUNS ? why : trial->stop;
	trial->state = SMD_TRIAL_STOPPING;
}

/* Of a file that is longer only the end is read. */
static void read_metrics(
	struct smd_trial *trial, const struct smd_trial_runner *runner, const char *name)
{
	const struct smd_study *study = runner->job->study;
	size_t size;
	FILE *file = smd_jobdir_read_file(runner->dir, name, &size);
	char *text;

	if (!file) {
		return;
	}
	if (size > SMD_METRIC_FILE_MAX) {
		fseeko(file, (off_t)(size - SMD_METRIC_FILE_MAX), SEEK_SET);
		size = SMD_METRIC_FILE_MAX;
	}
	text = malloc(size + 1);
	if (text) {
		size = fread(text, 1, size, file);
		for (size_t i = 0; i < study->nmetrics; i++) {
			smd_metric_file_read(text, size, wall_seconds(), &study->metrics[i],
				&trial->metrics[i].measurements, &trial->metrics[i].remarks);
		}
	}
	free(text);
	fclose(file);
}

/* How many of the metrics it has reported. */
static size_t count_measured(const struct smd_trial *trial, const struct smd_study *study)
{
	size_t count = 0;

	for (size_t i = 0; i < study->nmetrics; i++) {
		count += trial->metrics[i].measurements.count > 0;
	}
	return count;
}

static int takes_source(
	struct smd_trial *trial, const struct smd_trial_runner *runner, const char *name)
{
	read_metrics(trial, runner, name);
	if (count_measured(trial, runner->job->study) == 0) {
		return 0;
	}
	snprintf(trial->source, sizeof(trial->source), "%s", name);
	return 1;
}

/* The chief usually reports; where it does not, the first process that does counts. */
void smd_trial_measure(struct smd_trial *trial, const struct smd_trial_runner *runner)
{
	if (trial->source[0]) {
		read_metrics(trial, runner, trial->source);
	} else {
		for_each_file(trial, runner, takes_source);
	}
}

/* The lines behind the first one become the trial's details. */
static char *split_error(struct smd_trial *trial, const char *text)
{
	size_t first = strcspn(text, "\n");

	if (text[first] && text[first + 1]) {
		trial->details = strdup(text + first + 1);
	}
	return strndup(text, first);
}

/* What it has complained of, or its own records say. NULL: nothing. */
static char *error_of(struct smd_trial *trial, const struct smd_trial_runner *runner)
{
	char text[COMPLAINT_SIZE];
	ssize_t length = read(trial->complaints, text, sizeof(text) - 1);
	const char *message;
	json_t *record;
	char *line;

	if (length > 0) {
		text[length] = '\0';
		return split_error(trial, text);
	}
	record = smd_jobdir_read_json(
		runner->dir, SMD_RECORD_MAX, SMD_TRIAL_FOLDER "/" SMD_RECORD, trial->number);
	message = json_string_value(json_object_get(json_object_get(record, "error"), "message"));
	line = message ? split_error(trial, message) : NULL;
	json_decref(record);
	return line;
}

static char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *say(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
	}
	va_end(args);
	return text;
}

/* Why a job that has ended well is no trial: of the first metric that is missing. */
static char *missing_measurement(const struct smd_trial *trial, const struct smd_study *study)
{
	const struct smd_metric_remarks *remarks;
	size_t i = 0;

	while (i + 1 < study->nmetrics && trial->metrics[i].measurements.count > 0) {
		i++;
	}
	remarks = &trial->metrics[i].remarks;
	if (remarks->has_no_number) {
		return say("it reported no number for %s", study->metrics[i].id);
	}
	if (remarks->other[0]) {
		return say("it reported %s, and not %s", remarks->other, study->metrics[i].id);
	}
	return say(
		"it reported no %s in the file of CLOUD_ML_HP_METRIC_FILE", study->metrics[i].id);
}

static char *reason_of(struct smd_trial *trial, const struct smd_trial_runner *runner, int status)
{
	char *error;

	if (trial->stop == SMD_TRIAL_IS_NOT_NEEDED) {
		return say("the tuning job ended before it did");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		return missing_measurement(trial, runner->job->study);
	}
	if (WIFSIGNALED(status)) { /* the record may be of another job, which used the folder */
		return say("its runner was killed by signal %d", WTERMSIG(status));
	}
	error = error_of(trial, runner);
	return error ? error
		     : say("its runner ended with status %d: " SMD_TRIAL_FOLDER "/" RUNNER_LOG " says why",
			       WEXITSTATUS(status), trial->number);
}

/* A trial that was not needed any more has what it has reported, and one below the median too; one
 * that has failed has nothing. */
void smd_trial_end(struct smd_trial *trial, const struct smd_trial_runner *runner, int status)
{
	const struct smd_study *study = runner->job->study;
	int is_whole =
		trial->stop != SMD_TRIAL_RUNS || (WIFEXITED(status) && WEXITSTATUS(status) == 0);

	smd_trial_measure(trial, runner);
	smd_timestamp(trial->end_time);
	trial->ended_ns = smd_clock_ns();
	trial->pid = 0;
	if (is_whole && count_measured(trial, study) == study->nmetrics) {
		trial->state = SMD_TRIAL_SUCCEEDED;
	} else {
		trial->state = SMD_TRIAL_INFEASIBLE;
		trial->reason = reason_of(trial, runner, status);
	}
	close(trial->complaints);
}

const struct smd_measurement *smd_trial_final(
	const struct smd_trial *trial, const struct smd_study *study, size_t metric)
{
	return trial->state == SMD_TRIAL_SUCCEEDED
		       ? smd_measurements_final(
				 &trial->metrics[metric].measurements, study->takes_best)
		       : NULL;
}

void smd_trial_clear(struct smd_trial *trial, const struct smd_study *study)
{
	for (size_t i = 0; i < study->nmetrics; i++) {
		smd_measurements_free(&trial->metrics[i].measurements);
	}
	free(trial->metrics);
	free(trial->point);
	free(trial->reason);
	free(trial->details);
}
