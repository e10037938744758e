/* Runs a job in the foreground: sets everything up, turns the loop, and reports. */
#include "orchestrator/runner/local_run.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/runner/guard.h"
#include "orchestrator/runner/record.h"
#include "orchestrator/runner/run.h"
#include "reduction_server/base/log.h"

#define TICK_US             100000
#define RESERVE_SIZE        65536 /* for the last state.json and summary.json */
#define RESERVE_PER_PROCESS 1024
#define EXIT_INTERRUPTED    130
#define EXIT_TERMINATED     143

static const int watched_signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};

#define WATCHED_SIGNALS (sizeof(watched_signals) / sizeof(watched_signals[0]))

/* The loop's own events: the signals and one tick for everything that depends on time. */
struct loop {
	struct event *signals[WATCHED_SIGNALS];
	struct event *tick;
};

/* Without its guard nobody is left who could be asked: all ends at once. */
static void watch_guard(struct smd_run *run)
{
	if (getppid() != run->guard && run->interruptions < 2) {
		run->interruptions = 2;
		run->interrupted_by = SMD_GUARD_DEATH_SIGNAL;
	}
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct smd_run *run = arg;

	(void)what;
	if (signo == SIGCHLD) {
		run->children_ended = 1;
		return;
	}
	if (run->interruptions++ == 0) {
		run->interrupted_by = (int)signo;
	}
	watch_guard(run);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct smd_run *run = arg;

	(void)fd;
	(void)what;
	watch_guard(run);
	smd_display_tick(&run->display);
}

static void loop_close(struct loop *loop, struct smd_run *run)
{
	for (size_t i = 0; i < WATCHED_SIGNALS; i++) {
		if (loop->signals[i]) {
			event_free(loop->signals[i]);
		}
	}
	if (loop->tick) {
		event_free(loop->tick);
	}
	event_base_free(run->base);
}

static int loop_open(struct loop *loop, struct smd_run *run)
{
	const struct timeval period = {.tv_usec = TICK_US};

	run->base = event_base_new();
	if (!run->base) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < WATCHED_SIGNALS; i++) {
		loop->signals[i] = evsignal_new(run->base, watched_signals[i], on_signal, run);
		if (!loop->signals[i] || event_add(loop->signals[i], NULL)) {
			loop_close(loop, run);
			return -ENOMEM;
		}
	}
	loop->tick = event_new(run->base, -1, EV_PERSIST, on_tick, run);
	if (!loop->tick || event_add(loop->tick, &period)) {
		loop_close(loop, run);
		return -ENOMEM;
	}
	return 0;
}

/* Either the progress or the stream goes to standard output. */
static int open_display(struct smd_run *run, const struct smd_local_run_options *options)
{
	char *path = smd_jobdir_path(&run->dir, "logs/job.log");
	int ret = path ? smd_stream_open(&run->stream, path, options->stream_logs ? stdout : NULL)
		       : -ENOMEM;

	free(path);
	if (ret) {
		return ret;
	}
	run->progress = options->stream_logs ? fopen("/dev/null", "we") : stdout;
	if (!run->progress) {
		ret = -errno;
		smd_stream_close(&run->stream);
		return ret;
	}
	smd_display_open(&run->display, run->progress, run->replicas, run->count);
	return 0;
}

static void close_display(struct smd_run *run)
{
	if (run->progress != stdout) {
		fclose(run->progress);
	}
	smd_stream_close(&run->stream);
}

static void close_replicas(struct smd_run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		smd_replica_clear(&run->replicas[i]);
	}
	free(run->replicas);
}

static size_t count_processes(const struct smd_job *job)
{
	size_t count = 0;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		count += (size_t)job->pools[pool].replica_count *
			 (size_t)smd_job_processes(job, pool);
	}
	return count;
}

static int open_replicas(struct smd_run *run)
{
	run->replicas = calloc(count_processes(run->job), sizeof(*run->replicas));
	if (!run->replicas) {
		return -ENOMEM;
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int processes = smd_job_processes(run->job, pool);

		for (int i = 0; i < run->job->pools[pool].replica_count * processes; i++) {
			struct smd_replica *replica = &run->replicas[run->count];

			if (smd_replica_init(replica, &run->job->pools[pool], i / processes,
				    i % processes, processes)) {
				close_replicas(run);
				return -ENOMEM;
			}
			replica->run = run;
			run->count++;
		}
	}
	return 0;
}

/* An output URI that is no path of this machine has a folder of the job directory in its place. */
static int place_output(struct smd_run *run)
{
	const char *uri = run->job->output_uri;

	if (!uri || uri[0] == '/') {
		return 0;
	}
	run->placement.output_dir = smd_jobdir_path(&run->dir, "output");
	if (!run->placement.output_dir) {
		return -ENOMEM;
	}
	smd_display_print(
		&run->display, "output goes to %s in place of %s", run->placement.output_dir, uri);
	return smd_jobdir_make_folder(&run->dir, "output");
}

static int keep_inputs(const struct smd_run *run, const struct smd_local_run_options *options)
{
	char *summary = smd_jobdir_path(&run->dir, "summary.json");
	int ret = 0;

	if (summary) {
		unlink(summary); /* of an earlier job in the same directory */
	}
	free(summary);
	if (options->spec_text) {
		ret = smd_jobdir_write(
			&run->dir, "spec.json", options->spec_text, options->spec_length);
	}
	if (!ret && run->job->resolved) {
		ret = smd_jobdir_write_json(&run->dir, "resolved.json", run->job->resolved);
	}
	if (!ret && options->plan_text) {
		ret = smd_jobdir_write(
			&run->dir, "plan.txt", options->plan_text, strlen(options->plan_text));
	}
	return ret;
}

static void show_warnings(struct smd_run *run)
{
	char *const *warnings;
	size_t count = smd_contract_warnings(run->contract, &warnings);

	for (size_t i = 0; i < count; i++) {
		smd_display_print(&run->display, "warning: %s", warnings[i]);
	}
}

/* Places the replicas, writes down what was given, sets up what they run from, and builds the
 * contract. */
static int prepare(
	struct smd_run *run, const struct smd_local_run_options *options, struct smd_error *error)
{
	int ret = run->engine->ops->place(run->engine, run->job, &run->placement, error);

	smd_display_print(
		&run->display, "%s: job directory %s", run->job->display_name, run->dir.path);
	smd_jobdir_reserve(&run->dir, RESERVE_SIZE + run->count * RESERVE_PER_PROCESS);
	smd_run_record(run);
	ret = ret ? ret : place_output(run);
	ret = ret ? ret : keep_inputs(run, options);
	ret = ret ? ret
		  : smd_workspace_open(
			    &run->workspace, run->job, &run->dir, run->engine->agent, error);
	ret = ret ? ret : smd_contract_create(run->job, &run->placement, &run->contract);
	if (ret) {
		smd_workspace_close(&run->workspace);
		smd_placement_free(&run->placement);
		return smd_error_set(error, -ret, "%s: %s", run->dir.path, strerror(-ret));
	}
	show_warnings(run);
	return 0;
}

static int exit_code(const struct smd_run *run)
{
	if (run->outcome == SMD_OUTCOME_CANCELLED) {
		return run->interrupted_by == SIGINT ? EXIT_INTERRUPTED : EXIT_TERMINATED;
	}
	return run->outcome == SMD_OUTCOME_SUCCEEDED ? 0 : 1;
}

/* Whether standard output and standard error are one, such as a terminal. */
static int is_one_output(void)
{
	struct stat out, err;

	return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
	       out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

/* Where the stream is printed, it has said so already. */
static void tell_failure(const struct smd_run *run, const struct smd_local_run_options *options)
{
	if (!run->failure || options->tells_failure || (options->stream_logs && is_one_output())) {
		return;
	}
	fputc('\n', run->progress);
	fflush(run->progress);
	fputs(run->failure, stderr);
}

static int run_to_end(struct smd_run *run, const struct smd_local_run_options *options)
{
	int ret;

	smd_run_begin(run);
	while (run->phase != SMD_RUN_ENDED) {
		event_base_loop(run->base, EVLOOP_ONCE);
		smd_run_turn(run);
	}
	smd_display_close(&run->display);
	smd_run_print_summary(run, run->progress);
	ret = smd_run_write_summary(run);
	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s/summary.json: cannot be written: %s",
			run->dir.path, strerror(-ret));
	}
	tell_failure(run, options);
	return exit_code(run);
}

/* The runner's whole life. The program's exit code, or -errno with a text. */
static int run_job(
	struct smd_run *run, const struct smd_local_run_options *options, struct smd_error *error)
{
	const struct smd_local_options engine_options = {.oversubscribe = options->oversubscribe,
		.container_runtime = options->container_runtime};
	struct loop loop = {0};
	int ret = smd_engine_local_open(&run->engine, &engine_options, error);

	if (ret) {
		return ret;
	}
	ret = open_replicas(run);
	if (ret) {
		goto close_engine;
	}
	ret = open_display(run, options);
	if (ret) {
		goto close_replicas;
	}
	ret = prepare(run, options, error);
	if (ret) {
		smd_run_give_up(run, error->text);
		goto close_display;
	}
	/* Signals are the job's from here on. */
	ret = loop_open(&loop, run);
	if (!ret) {
		ret = run_to_end(run, options);
		loop_close(&loop, run);
	}
	smd_contract_free(run->contract);
	smd_workspace_close(&run->workspace);
	smd_placement_free(&run->placement);
close_display:
	free(run->failure);
	close_display(run);
close_replicas:
	close_replicas(run);
close_engine:
	run->engine->ops->close(run->engine);
	return ret < 0 ? smd_error_set(error, -ret, "runner: %s", strerror(-ret)) : ret;
}

int smd_local_run(const struct smd_job *job, const struct smd_local_run_options *options,
	struct smd_error *error)
{
	struct smd_run run = {.job = job,
		.dir = *options->dir,
		.grace_s = options->grace_s,
		.ready_timeout_s = options->ready_timeout_s,
		.container_runtime = options->container_runtime};
	int exit_code = EXIT_FAILURE;
	int ret;

	smd_timestamp(run.create_time);
	ret = smd_guard_open(&run.dir, &run.guard, &exit_code);
	if (ret == 0) {
		ret = run_job(&run, options, error);
		if (ret < 0) {
			fprintf(stderr, "summand: %s\n", error->text);
		}
		exit(ret < 0 ? EXIT_FAILURE : ret);
	}
	return ret == -ECHILD ? exit_code
			      : smd_error_set(error, -ret, "runner: %s", strerror(-ret));
}
