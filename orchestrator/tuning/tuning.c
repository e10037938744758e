/* Decides which trials of a tuning job run, and when it ends. */
#include "orchestrator/tuning/tuning.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "orchestrator/job/secret.h"
#include "orchestrator/runner/guard.h"
#include "orchestrator/runner/guarded.h"
#include "orchestrator/runner/job_entry.h"
#include "orchestrator/tuning/lane.h"
#include "orchestrator/tuning/search/search.h"
#include "orchestrator/tuning/study_end.h"
#include "orchestrator/tuning/study_run.h"
#include "orchestrator/tuning/study_watch.h"
#include "orchestrator/tuning/trial_output.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"

#define TICK_NS           100000000
#define MEASURE_NS        SMD_SECOND_NS
#define EXIT_INTERRUPTED  130
#define EXIT_TERMINATED   143
#define RESERVE_SIZE      65536
#define RESERVE_PER_TRIAL 1024
#define RESERVE_TRIALS    10000

/* A tuning job, and what its loop needs besides. */
struct tuning {
	struct smd_study_run run;
	const struct smd_local_run_options *options;
	struct smd_jobdir dir;
	pid_t guard;
	sigset_t signals;
	int signal_fd;         /* they are read from it */
	struct event *arrived; /* one of them */
	int signo;             /* that has arrived; 0: none */
	uint64_t measured_ns;
	char **gpus; /* lane.h */
};

size_t smd_study_run_count(
	const struct smd_study_run *run, int (*is)(const struct smd_trial *trial))
{
	size_t count = 0;

	for (size_t i = 0; i < run->count; i++) {
		count += is(&run->trials[i]) != 0;
	}
	return count;
}

static int is_successful(const struct smd_trial *trial)
{
	return trial->state == SMD_TRIAL_SUCCEEDED;
}

static int is_infeasible(const struct smd_trial *trial)
{
	return trial->state == SMD_TRIAL_INFEASIBLE;
}

static struct smd_study_progress progress_of(const struct smd_study_run *run)
{
	uint64_t now = smd_clock_ns();

	return (struct smd_study_progress){.started = (int)run->count,
		.succeeded = (int)smd_study_run_count(run, is_successful),
		.infeasible = (int)smd_study_run_count(run, is_infeasible),
		.since_best = (int)run->ended_since_best,
		.seconds = (double)(now - run->begun_ns) * 1e-9,
		.seconds_since_best = (double)(now - run->best_ns) * 1e-9};
}

/* A trial with parameters; -ENOENT: there are no more. */
static int add_trial(struct smd_study_run *run)
{
	struct smd_past_trial *past = smd_study_run_past(run);
	double *point = calloc(run->study->nparameters, sizeof(*point));
	struct smd_trial_metric *metrics = calloc(run->study->nmetrics, sizeof(*metrics));
	struct smd_trial *trials = NULL;
	int ret = past && point && metrics
			  ? smd_search_next(run->study, run->seed,
				    (size_t)run->job->max_trial_count, past, run->count, point)
			  : -ENOMEM;

	free(past);
	if (!ret) {
		size_t best = run->best ? (size_t)(run->best - run->trials) : 0;

		trials = realloc(run->trials, (run->count + 1) * sizeof(*trials));
		ret = trials ? 0 : -ENOMEM;
		run->trials = trials ? trials : run->trials;
		run->best = run->best ? &run->trials[best] : NULL;
	}
	if (ret) {
		free(point);
		free(metrics);
		return ret;
	}
	run->trials[run->count] = (struct smd_trial){
		.number = (unsigned)run->count + 1, .point = point, .metrics = metrics};
	run->count++;
	return 0;
}

/* One that no running trial has. */
static size_t free_lane(const struct smd_study_run *run)
{
	size_t lane = 0;

	for (size_t i = 0; i < run->count; i++) {
		if (smd_trial_runs(&run->trials[i]) && run->trials[i].lane == lane) {
			lane++;
			i = (size_t)-1; /* from the beginning */
		}
	}
	return lane;
}

static void finish(struct smd_study_run *run, enum smd_study_phase phase, const char *why)
{
	run->phase = phase;
	run->over = why;
	if (phase != SMD_STUDY_STOPPING) {
		return;
	}
	for (size_t i = 0; i < run->count; i++) {
		smd_trial_stop(&run->trials[i], SMD_TRIAL_IS_NOT_NEEDED);
	}
}

static void fail(struct smd_study_run *run, const char *why)
{
	free(run->failure);
	run->failure = strdup(why);
	run->outcome = SMD_OUTCOME_FAILED;
	finish(run, SMD_STUDY_STOPPING, why);
}

static void start_trial(struct smd_study_run *run)
{
	struct smd_trial *trial;
	int ret = add_trial(run);

	if (ret == -ENOENT) {
		finish(run, SMD_STUDY_FINISHING, "the grid has no more points");
		return;
	}
	if (ret) {
		fail(run, strerror(-ret));
		return;
	}
	trial = &run->trials[run->count - 1];
	trial->lane = free_lane(run);
	if (!run->start_time[0]) {
		smd_timestamp(run->start_time);
	}
	smd_study_run_write(run); /* REQUESTED */
	smd_study_run_say_start(run, trial);
	run->runner.trials = run->trials;
	run->runner.count = run->count;
	ret = smd_trial_start(trial, &run->runner);
	if (!ret && trial->printed) { /* unread, it would wait for a while, and go on */
		trial->output = smd_trial_output_open(run, trial->number, trial->printed);
	}
	if (trial->output && run->is_full) {
		smd_trial_output_pause(trial->output, 1);
	}
	if (ret) {
		trial->state = SMD_TRIAL_INFEASIBLE;
		smd_timestamp(trial->end_time);
		fail(run, strerror(-ret));
	}
	smd_study_run_write(run);
}

static void start_trials(struct smd_study_run *run)
{
	while (run->phase == SMD_STUDY_SEARCHING) {
		struct smd_study_progress progress = progress_of(run);
		const char *over = smd_study_is_over(run->job, &progress);
		int all_started = progress.started >= run->job->max_trial_count;

		if (over) {
			finish(run,
				run->study->end.is_prompt && !all_started ? SMD_STUDY_STOPPING
									  : SMD_STUDY_FINISHING,
				over);
		} else if (smd_study_run_count(run, smd_trial_runs) <
			   (size_t)run->job->parallel_trial_count) {
			start_trial(run);
		} else {
			break;
		}
	}
}

static void reap(struct smd_study_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		struct smd_trial *trial = &run->trials[i];
		int status;

		if (trial->pid > 0 && waitpid(trial->pid, &status, WNOHANG) == trial->pid) {
			if (trial->output) {
				smd_trial_output_close(trial->output);
				trial->output = NULL;
			}
			smd_trial_end(trial, &run->runner, status);
			smd_study_run_judge(run, trial);
			smd_study_run_write(run);
			smd_study_run_say_end(run, trial);
		}
	}
}

static int ended_well(const struct smd_study_run *run, const struct smd_measurements **others)
{
	int count = 0;

	for (size_t i = 0; i < run->count; i++) {
		if (is_successful(&run->trials[i])) {
			others[count++] = &run->trials[i].metrics[0].measurements;
		}
	}
	return count;
}

static void stop_bad_ones(struct smd_study_run *run)
{
	const struct smd_measurements **others = calloc(run->count + 1, sizeof(*others));
	size_t count = others ? (size_t)ended_well(run, others) : 0;

	for (size_t i = 0; i < run->count && count > 0; i++) {
		struct smd_trial *trial = &run->trials[i];

		if (trial->state == SMD_TRIAL_ACTIVE &&
			smd_measurements_are_below_median(
				run->study, &trial->metrics[0].measurements, others, count)) {
			smd_trial_stop(trial, SMD_TRIAL_IS_BELOW_MEDIAN);
			smd_study_run_write(run);
		}
	}
	free(others);
}

static void measure(struct tuning *tuning)
{
	struct smd_study_run *run = &tuning->run;

	if (smd_clock_ns() - tuning->measured_ns < MEASURE_NS) {
		return;
	}
	tuning->measured_ns = smd_clock_ns();
	for (size_t i = 0; i < run->count; i++) {
		if (smd_trial_runs(&run->trials[i])) {
			smd_trial_measure(&run->trials[i], &run->runner);
		}
	}
	if (run->study->stops_below_median) {
		stop_bad_ones(run);
	}
}

static void interrupt(struct smd_study_run *run, int signo)
{
	if (run->interruptions++ == 0) {
		run->interrupted_by = signo;
	}
	if (run->outcome == SMD_OUTCOME_OPEN) {
		run->outcome = SMD_OUTCOME_CANCELLED;
	}
	smd_study_run_say(run, "ERROR",
		run->interruptions == 1 ? "the trials are asked to end, for which they have %u s; "
					  "once more ends them "
					  "at once"
					: "the trials are ended at once",
		run->runner.options->grace_s);
	finish(run, SMD_STUDY_STOPPING, "the job was cancelled");
	smd_study_run_write(run);
}

static void lose_guard(struct smd_study_run *run)
{
	static const char why[] = "the job's guard was killed";

	if (run->outcome == SMD_OUTCOME_OPEN) {
		fail(run, why);
	} else {
		finish(run, SMD_STUDY_STOPPING, why);
	}
	run->interruptions = 2;
	run->interrupted_by = SMD_GUARD_DEATH_SIGNAL;
	smd_study_run_say(run, "ERROR", "%s: the trials are ended at once", why);
	finish(run, SMD_STUDY_STOPPING, why);
	smd_study_run_write(run);
}

/* Waits for one, no longer than a tick; <= 0: none. */
static int next_signal(struct tuning *tuning)
{
	const struct timeval tick = {.tv_usec = TICK_NS / 1000};

	tuning->signo = 0;
	event_base_loopexit(tuning->run.base, &tick);
	event_base_dispatch(tuning->run.base);
	return tuning->signo;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct tuning *tuning = arg;
	struct signalfd_siginfo signal;

	(void)what;
	if (read(fd, &signal, sizeof(signal)) == sizeof(signal)) {
		tuning->signo = (int)signal.ssi_signo;
		event_base_loopbreak(tuning->run.base);
	}
}

/* Waits for a signal, no longer than a tick. Without its guard nobody waits for the job. */
static void wait_for_event(struct tuning *tuning)
{
	int signo = next_signal(tuning);

	if (getppid() != tuning->guard && tuning->run.interruptions < 2) {
		lose_guard(&tuning->run);
	} else if (signo > 0 && signo != SIGCHLD) {
		interrupt(&tuning->run, signo);
	}
}

static void check_failures(struct smd_study_run *run)
{
	struct smd_study_progress progress = progress_of(run);
	const char *why = smd_study_has_failed(run->job, &progress);

	if (why && run->phase < SMD_STUDY_STOPPING) {
		fail(run, why);
	}
}

/* None runs, and none is started any more. */
static void end(struct smd_study_run *run)
{
	if (run->outcome == SMD_OUTCOME_OPEN && run->best) {
		run->outcome = SMD_OUTCOME_SUCCEEDED;
	} else if (run->outcome == SMD_OUTCOME_OPEN) {
		run->outcome = SMD_OUTCOME_FAILED;
		run->failure = strdup("no trial has succeeded");
	}
	run->phase = SMD_STUDY_ENDED;
	smd_timestamp(run->end_time);
	smd_jobdir_release(run->dir);
	smd_study_run_write(run);
}

static void run_trials(struct tuning *tuning)
{
	struct smd_study_run *run = &tuning->run;

	while (run->phase != SMD_STUDY_ENDED) {
		reap(run);
		check_failures(run);
		start_trials(run);
		measure(tuning);
		if (run->phase != SMD_STUDY_SEARCHING &&
			smd_study_run_count(run, smd_trial_runs) == 0) {
			end(run);
			break;
		}
		smd_study_run_check_room(run);
		smd_study_run_show_status(run);
		wait_for_event(tuning);
	}
}

static int exit_code(const struct smd_study_run *run)
{
	if (run->outcome == SMD_OUTCOME_CANCELLED) {
		return run->interrupted_by == SIGINT ? EXIT_INTERRUPTED : EXIT_TERMINATED;
	}
	return run->outcome == SMD_OUTCOME_SUCCEEDED ? 0 : 1;
}

static void report(struct smd_study_run *run)
{
	smd_study_run_print_table(run);
	if (run->over && run->outcome == SMD_OUTCOME_SUCCEEDED) {
		smd_study_run_say(
			run, "INFO", "%s: SUCCEEDED: %s", run->job->display_name, run->over);
	} else if (run->outcome == SMD_OUTCOME_FAILED) {
		smd_study_run_say(
			run, "ERROR", "%s: FAILED: %s", run->job->display_name, run->failure);
	} else {
		smd_study_run_say(run, "ERROR", "%s: CANCELLED", run->job->display_name);
	}
}

/* All is said: now it waits for who reads, unless it is interrupted. */
static void wait_for_reader(struct tuning *tuning)
{
	int signo = 0;

	while (smd_outlet_is_pending(&tuning->run.out) && (signo <= 0 || signo == SIGCHLD) &&
		getppid() == tuning->guard) {
		signo = next_signal(tuning);
	}
}

int smd_tuning_check_study(const struct smd_job *job, struct smd_error *error)
{
	if (!job->study) {
		return smd_error_set(error, EINVAL,
			"must be a HyperparameterTuningJob, with studySpec; `summand custom-jobs` "
			"takes others");
	}
	if (job->study->nmetrics > 1 && job->study->stops_below_median) {
		return smd_error_set(error, EINVAL,
			"/studySpec/medianAutomatedStoppingSpec: must be of a study with one "
			"metric, "
			"got %zu",
			job->study->nmetrics);
	}
	return 0;
}

int smd_tuning_check(const struct smd_job *job, int may_share_gpus, struct smd_error *error)
{
	char **gpus = NULL;
	int ret = smd_tuning_check_study(job, error);

	ret = ret ? ret : smd_lanes_open(job, may_share_gpus, &gpus, error);
	smd_lanes_close(gpus);
	return ret;
}

static void close_run(struct smd_study_run *run)
{
	smd_study_run_close_output(run);
	smd_stream_close(&run->stream);
	for (size_t i = 0; i < run->count; i++) {
		smd_trial_clear(&run->trials[i], run->study);
	}
	free(run->trials);
	free(run->failure);
}

static int write_resolved(const struct smd_job *job, const struct smd_local_run_options *options,
	const struct smd_jobdir *dir)
{
	json_t *shown = options->show_secrets ? json_incref(job->resolved)
					      : smd_secret_mask_json(job->resolved, NULL);
	int ret = shown ? smd_jobdir_write_json(dir, "resolved.json", shown) : -ENOMEM;

	json_decref(shown);
	return ret;
}

/* What describes the job, as the runner of any job keeps it. */
static int keep_inputs(const struct tuning *tuning)
{
	const struct smd_local_run_options *options = tuning->options;
	const struct smd_jobdir *dir = &tuning->dir;
	int ret = smd_jobdir_make_folder(dir, "trials");

	if (!ret) {
		ret = write_resolved(tuning->run.job, options, dir);
	}
	if (!ret && options->spec_text) {
		ret = smd_jobdir_write(dir, "spec.json", options->spec_text, options->spec_length);
	}
	if (!ret && options->plan_text) {
		ret = smd_jobdir_write(
			dir, "plan.txt", options->plan_text, strlen(options->plan_text));
	}
	return ret;
}

/* 0 or -errno. */
static int attach_signals(struct tuning *tuning)
{
	tuning->signal_fd = signalfd(-1, &tuning->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (tuning->signal_fd < 0) {
		return -errno;
	}
	tuning->arrived = event_new(
		tuning->run.base, tuning->signal_fd, EV_READ | EV_PERSIST, on_signal, tuning);
	return tuning->arrived && !event_add(tuning->arrived, NULL) ? 0 : -ENOMEM;
}

static void open_signals(struct tuning *tuning)
{
	sigemptyset(&tuning->signals);
	sigaddset(&tuning->signals, SIGCHLD);
	sigaddset(&tuning->signals, SIGINT);
	sigaddset(&tuning->signals, SIGTERM);
	sigaddset(&tuning->signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &tuning->signals, NULL);
}

/* For the last state.json. */
static size_t reserve_for(const struct smd_job *job)
{
	size_t trials = (size_t)job->max_trial_count;

	return RESERVE_SIZE +
	       RESERVE_PER_TRIAL * (trials < RESERVE_TRIALS ? trials : RESERVE_TRIALS);
}

static int run_in_child(void *arg, pid_t guard, struct smd_error *error)
{
	struct tuning *tuning = arg;
	struct smd_study_run *run = &tuning->run;
	int ret =
		smd_lanes_open(run->job, run->runner.options->oversubscribe, &tuning->gpus, error);

	tuning->guard = guard;
	run->begun_ns = smd_clock_ns();
	run->runner.gpus = tuning->gpus;
	open_signals(tuning);
	ret = ret ? ret : keep_inputs(tuning);
	ret = ret ? ret
		  : smd_stream_open(&run->stream, &tuning->dir, SMD_STUDY_LOG,
			    run->runner.options->log_limit, NULL);
	ret = ret ? ret : smd_study_run_open_output(run);
	ret = ret ? ret : attach_signals(tuning);
	ret = ret ? ret : smd_study_watch_open(run, error);
	if (ret) {
		smd_lanes_close(tuning->gpus);
		return smd_error_set(error, -ret, "%s: %s", tuning->dir.path, strerror(-ret));
	}
	run->best_ns = run->begun_ns;
	smd_jobdir_reserve(&tuning->dir, reserve_for(run->job));
	smd_study_run_write(run);
	if (run->entry) {
		smd_study_run_say(run, "INFO", "%s: hyperparameter tuning job %" PRId64,
			run->job->display_name, run->entry->id);
	}
	smd_study_run_say(run, "INFO", "%s: job directory %s, seed %" PRIu64,
		run->job->display_name, tuning->dir.path, run->seed);
	run_trials(tuning);
	smd_study_watch_close(run);
	report(run);
	wait_for_reader(tuning);
	ret = exit_code(run);
	event_free(tuning->arrived);
	close(tuning->signal_fd);
	close_run(run);
	smd_lanes_close(tuning->gpus);
	return ret;
}

int smd_tuning_run(
	struct smd_job *job, const struct smd_local_run_options *options, struct smd_error *error)
{
	struct smd_entry own;
	struct smd_entry *entry = smd_job_entry_get(job, options, &own);
	struct tuning tuning = {.options = options,
		.dir = *options->dir,
		.run = {.job = job,
			.study = job->study,
			.dir = &tuning.dir,
			.entry = entry,
			.seed = options->seed,
			.runner = {.job = job,
				.dir = &tuning.dir,
				.options = options,
				.trace = &tuning.run.trace}}};
	int ret;

	smd_timestamp(tuning.run.create_time);
	if (entry) {
		memcpy(tuning.run.create_time, entry->create_time, sizeof(entry->create_time));
	}
	ret = smd_guarded_run(&tuning.dir, entry, options->grace_s, run_in_child, &tuning, error);
	if (entry == &own) {
		smd_entry_close(&own);
	}
	return ret;
}
