/* Runs a job in the foreground: sets up what it needs, runs the event loop, prints the result. */
#include "orchestrator/runner/local_run.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/contract/caller.h"
#include "orchestrator/runner/contracts.h"
#include "orchestrator/runner/guard.h"
#include "orchestrator/runner/guarded.h"
#include "orchestrator/runner/job_entry.h"
#include "orchestrator/runner/job_trace.h"
#include "orchestrator/runner/job_token.h"
#include "orchestrator/runner/layout.h"
#include "orchestrator/runner/run.h"
#include "orchestrator/runner/run_id.h"
#include "orchestrator/runner/run_metrics.h"
#include "orchestrator/runner/sessions.h"
#include "orchestrator/runner/summary.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"
#include "reduction_server/metrics/endpoint.h"
#include "worker/agent/program.h"

#define TICK_US             100000
#define RESERVE_SIZE        65536 /* for the last state.json and summary.json */
#define RESERVE_PER_PROCESS 1024
#define EXIT_INTERRUPTED    130
#define EXIT_TERMINATED     143

static const int watched_signals[] = {SIGINT, SIGTERM, SIGHUP};

#define WATCHED_SIGNALS (sizeof(watched_signals) / sizeof(watched_signals[0]))

/* The loop's own events: the signals and one tick for everything that depends on time. */
struct loop {
	struct event_base *base;
	struct event *signals[WATCHED_SIGNALS];
	struct event *tick;
};

/* A job and everything that it is run with. */
struct local_run {
	struct smd_run run;
	const struct smd_local_run_options *options;
	struct smd_jobdir dir;
	pid_t guard; /* guard.h */
	char *agent; /* summand-agent's path */
	struct smd_engine *engine;
	struct smd_placement placement;
	struct smd_contracts contracts;
	struct smd_workspace workspace;
	struct loop loop;
	struct smd_metrics_endpoint *metrics; /* or NULL */
};

/* Without its guard nobody waits for the job any more: it ends at once. */
static int has_lost_guard(struct local_run *local)
{
	int is_lost = getppid() != local->guard;

	if (is_lost) {
		smd_run_lose_guard(&local->run, local->guard);
	}
	return is_lost;
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
	struct local_run *local = arg;

	(void)what;
	if (!has_lost_guard(local)) {
		smd_run_interrupt(&local->run, (int)signo);
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct local_run *local = arg;

	(void)fd;
	(void)what;
	has_lost_guard(local);
	smd_display_tick(&local->run.display);
}

static void loop_close(struct loop *loop)
{
	for (size_t i = 0; i < WATCHED_SIGNALS; i++) {
		if (loop->signals[i]) {
			event_free(loop->signals[i]);
		}
	}
	if (loop->tick) {
		event_free(loop->tick);
	}
	event_base_free(loop->base);
}

static int loop_open(struct loop *loop, struct local_run *local)
{
	const struct timeval period = {.tv_usec = TICK_US};

	loop->base = event_base_new();
	if (!loop->base) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < WATCHED_SIGNALS; i++) {
		loop->signals[i] = evsignal_new(loop->base, watched_signals[i], on_signal, local);
		if (!loop->signals[i] || event_add(loop->signals[i], NULL)) {
			goto close_loop;
		}
	}
	loop->tick = event_new(loop->base, -1, EV_PERSIST, on_tick, local);
	if (!loop->tick || event_add(loop->tick, &period)) {
		goto close_loop;
	}
	return 0;
close_loop:
	loop_close(loop);
	return -ENOMEM;
}

static int open_display(struct local_run *local)
{
	struct smd_run *run = &local->run;
	int ret = smd_console_open(
		&run->console, local->options->view, local->options->color, &run->status);

	if (ret) {
		return ret;
	}
	ret = smd_stream_open(&run->stream, &local->dir, "logs/job.log", local->options->log_limit,
		&run->console);
	if (ret) {
		smd_console_close(&run->console);
		return ret;
	}
	smd_display_open(&run->display, &run->console, run->status.replicas, run->status.count);
	return 0;
}

static void close_display(struct local_run *local)
{
	smd_stream_close(&local->run.stream);
	smd_console_close(&local->run.console);
}

static void close_replicas(struct smd_job_status *status)
{
	for (size_t i = 0; i < status->count; i++) {
		smd_replica_clear(&status->replicas[i]);
	}
	free(status->replicas);
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

static int open_replicas(struct smd_job_status *status)
{
	const struct smd_job *job = status->job;

	status->capacity = count_processes(job);
	if (smd_job_has_servers(job)) {
		status->nservers = job->pools[2].replica_count;
		status->capacity += SMD_JOB_SERVERS_MAX; /* that are added, or reducers */
	}
	status->replicas = calloc(status->capacity, sizeof(*status->replicas));
	if (!status->replicas) {
		return -ENOMEM;
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int processes = smd_job_processes(job, pool);

		for (int i = 0; i < job->pools[pool].replica_count * processes; i++) {
			if (smd_replica_init(&status->replicas[status->count], &job->pools[pool],
				    i / processes, i % processes, processes)) {
				close_replicas(status);
				return -ENOMEM;
			}
			status->count++;
		}
	}
	return 0;
}

static void show_warnings(struct local_run *local)
{
	char *const *warnings;
	size_t count = smd_contract_warnings(local->contracts.contract, &warnings);

	for (size_t i = 0; i < count; i++) {
		smd_display_print(&local->run.display, "warning: %s", warnings[i]);
	}
}

/* Left in a shell they send the job's gradients where nobody meant them to go. */
static int say_callers_servers(struct local_run *local)
{
	struct smd_environment environment;
	const char *servers;
	int ret = smd_contract_environment(local->contracts.contract, 0, 0, 0, &environment);
	int length = ret ? 0 : smd_caller_servers(environ, &environment, &servers);

	if (length > 0 && local->options->engine == SMD_LOCAL_RUN_SSH) {
		smd_display_print(&local->run.display,
			"reduction servers: none: the caller's SUMMAND_REDUCTION_SERVERS stays on "
			"this machine; hosts get it from the spec's env");
	} else if (length > 0) {
		smd_display_print(&local->run.display,
			"reduction servers: from the caller's SUMMAND_REDUCTION_SERVERS, %.*s",
			length, servers);
	}
	if (!ret) {
		smd_environment_free(&environment);
	}
	return ret;
}

/* The token of the job's own reduction servers; hosts that share no files with this one get it from
 * their agents. */
static int renew_token(struct local_run *local, struct smd_error *error)
{
	const struct smd_job *job = local->run.status.job;
	char *token;
	int ret;

	if (local->options->engine == SMD_LOCAL_RUN_HERE) {
		ret = smd_job_token_renew(&local->dir, job, error);
		return ret || !local->options->container_runtime
			       ? ret
			       : smd_jobdir_share(&local->dir, SMD_JOB_TOKEN_FILE);
	}
	ret = smd_job_token_create(job, &token, error);
	if (!ret && token) {
		smd_hosts_send_file(&local->run.hosts, SMD_JOB_TOKEN_FILE, token);
	}
	smd_job_token_forget(token);
	return ret;
}

/* Records spec and plan, and sets up the workspace. */
static int prepare(struct local_run *local, struct smd_error *error)
{
	struct smd_run *run = &local->run;
	const struct smd_job *job = run->status.job;
	int ret;

	if (run->record.entry) {
		smd_display_print(&run->display, "%s: job %" PRId64, job->display_name,
			run->record.entry->id);
	}
	smd_display_print(
		&run->display, "%s: job directory %s", job->display_name, local->dir.path);
	smd_jobdir_reserve(&local->dir, RESERVE_SIZE + run->status.count * RESERVE_PER_PROCESS);
	smd_record_write(&run->record, &run->status);
	ret = smd_layout_make(&local->dir, &run->status, local->options, &local->placement);
	if (!ret && local->placement.output_dir) {
		smd_display_print(&run->display, "output goes to %s in place of %s",
			local->placement.output_dir, job->output_uri);
	}
	ret = ret ? ret : smd_run_id_draw(job, &local->placement.job_id, error);
	ret = ret ? ret
		  : smd_contracts_open(&local->contracts, job, local->options->secrets_folder,
			    local->options->show_secrets, error);
	ret = ret ? ret
		  : smd_layout_keep_inputs(&local->dir, local->options,
			    smd_contracts_shown(&local->contracts)->resolved);
	ret = ret ? ret
		  : smd_workspace_open(&local->workspace, job, &local->dir, local->agent,
			    smd_console_words(&run->console), error);
	if (!ret && local->options->container_runtime) {
		ret = smd_layout_share(&local->dir);
	}
	if (ret) {
		smd_contracts_close(&local->contracts);
		smd_workspace_close(&local->workspace);
		smd_placement_free(&local->placement);
		return smd_error_set(error, -ret, "%s: %s", local->dir.path, strerror(-ret));
	}
	return 0;
}

/* It is known where the replicas run. */
static int prepare_attempt(void *arg, struct smd_error *error)
{
	struct local_run *local = arg;
	struct smd_launcher *launcher = &local->run.hosts.launcher;
	int ret = renew_token(local, error);

	if (ret) {
		return ret;
	}
	local->run.status.ntold = local->run.status.nservers;
	local->placement.nabsent = smd_job_status_gap(&local->run.status);
	ret = smd_contracts_make(&local->contracts,
		local->run.status.nservers + local->placement.nabsent, &local->placement);
	if (!ret && local->run.status.restarts == 0) {
		ret = say_callers_servers(local);
	}
	if (ret) {
		return smd_error_set(error, -ret, "contract: %s", strerror(-ret));
	}
	launcher->contract = local->contracts.contract;
	launcher->shown_contract = local->contracts.shown_contract;
	launcher->attempt = local->run.status.restarts;
	if (local->run.status.restarts == 0) {
		show_warnings(local);
	}
	return 0;
}

static int exit_code(const struct smd_run *run)
{
	if (run->status.outcome == SMD_OUTCOME_CANCELLED) {
		return run->interrupted_by == SIGINT ? EXIT_INTERRUPTED : EXIT_TERMINATED;
	}
	return run->status.outcome == SMD_OUTCOME_SUCCEEDED ? 0 : 1;
}

/* A printed stream has the failure already. */
static void tell_failure(const struct local_run *local)
{
	const struct smd_console *console = &local->run.console;
	const char *failure = local->run.status.failure;

	if (!failure || local->options->tells_failure ||
		(console->view == SMD_VIEW_STREAM && console->out == console->err)) {
		return;
	}
	fputc('\n', smd_console_words(console));
	fflush(smd_console_words(console));
	fputs(failure, console->err->file);
}

static void summarize(const struct local_run *local)
{
	const struct smd_run *run = &local->run;
	int ret;

	smd_summary_print(
		&run->status, &local->dir, run->grace_s, smd_console_words(&run->console));
	ret = smd_summary_write(&run->status, &local->dir);
	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s/summary.json: cannot be written: %s",
			local->dir.path, strerror(-ret));
	}
}

/* Nothing of the job runs any more; whoever reads may take the rest slowly. A signal ends that. */
static void wait_for_reader(struct local_run *local)
{
	struct smd_console *console = &local->run.console;
	int interruptions = local->run.status.interruptions;

	smd_console_flush(console);
	while (smd_console_is_pending(console) &&
		local->run.status.interruptions == interruptions && getppid() == local->guard) {
		event_base_loop(local->loop.base, EVLOOP_ONCE);
		smd_console_flush(console);
	}
}

static int open_hosts(struct local_run *local)
{
	const struct smd_local_run_options *options = local->options;
	struct smd_run *run = &local->run;
	const struct smd_entry *entry = run->record.entry;

	run->prepare_attempt = prepare_attempt;
	run->arg = local;
	run->hosts = (struct smd_hosts){
		.launcher = {.job = run->status.job,
			.show_secrets = options->show_secrets,
			.placement = &local->placement,
			.dir = &local->dir,
			.workspace = &local->workspace,
			.container_runtime = options->container_runtime,
			.grace_s = run->grace_s},
		.base = local->loop.base,
		.engine = local->engine,
		.stream = &run->stream,
		.console = &run->console,
		.log_limit = options->log_limit,
		.redaction = &local->contracts.redaction,
		.replicas = run->status.replicas,
		.count = run->status.count,
		.capacity = run->status.capacity,
		.machines = options->machines,
		.interface = options->interface,
		.silence_s = options->host_timeout_s,
		.join_timeout_s = options->join_timeout_s,
		.may_share = options->oversubscribe,
		.cool_down = {.state_dir = options->engine == SMD_LOCAL_RUN_SSH && entry
						   ? entry->state_dir
						   : NULL,
			.failures = options->host_failures,
			.lasts_s = options->host_cool_down_s},
		.placement = &local->placement,
		.take_event = smd_run_take_event,
		.arg = run};
	return smd_hosts_open(&run->hosts);
}

/* For others to watch the job by. 0, or -errno with a text. */
static int open_watching(struct local_run *local, struct smd_error *error)
{
	const struct smd_local_run_options *options = local->options;
	struct smd_run *run = &local->run;
	int ret = 0;

	smd_job_trace_open(run, options);
	if (options->metrics) {
		ret = smd_metrics_open(local->loop.base, options->metrics, smd_run_metrics_write,
			&run->status, &local->metrics, error);
	}
	if (!ret && options->metrics) {
		smd_display_print(&run->display, "metrics: http://%s/metrics",
			smd_metrics_address(local->metrics));
	}
	return ret;
}

static void close_watching(struct local_run *local)
{
	smd_job_trace_close(&local->run, local->options);
	smd_metrics_close(local->metrics);
}

/* From here on signals interrupt the job. */
static int run_to_end(struct local_run *local, struct smd_error *error)
{
	struct smd_run *run = &local->run;
	int ret = loop_open(&local->loop, local);

	if (ret) {
		return ret;
	}
	ret = open_watching(local, error);
	ret = ret ? ret : open_hosts(local);
	if (ret) {
		goto close_loop;
	}
	ret = smd_console_attach(&run->console, local->loop.base);
	if (ret) {
		goto close_hosts;
	}
	smd_sessions_open(&run->hosts);
	smd_run_begin(run);
	while (run->status.phase != SMD_PHASE_ENDED) {
		event_base_loop(local->loop.base, EVLOOP_ONCE);
		smd_run_turn(run);
		smd_sessions_turn(run->hosts.sessions);
	}
	smd_sessions_close(&run->hosts);
	smd_console_end_output(&run->console);
	smd_display_close(&run->display);
	summarize(local);
	tell_failure(local);
	wait_for_reader(local);
	ret = exit_code(run);
	smd_console_abandon(&run->console);
close_hosts:
	smd_console_detach(&run->console);
	smd_hosts_close(&run->hosts);
close_loop:
	close_watching(local);
	loop_close(&local->loop);
	return ret;
}

static int open_engine(struct local_run *local, struct smd_error *error)
{
	const struct smd_local_run_options *options = local->options;
	const struct smd_ssh_options ssh = {.hosts = options->hosts,
		.command = options->ssh_command,
		.agent = local->agent,
		.copies = options->copies_agent,
		.has_servers = smd_job_has_servers(local->run.status.job),
		.has_mpi = local->run.status.job->launch == SMD_LAUNCH_MPIRUN};
	struct smd_slurm_options slurm = options->slurm;

	slurm.agent = local->agent;
	switch (options->engine) {
	case SMD_LOCAL_RUN_SSH:
		return smd_engine_ssh_open(&local->engine, &ssh, error);
	case SMD_LOCAL_RUN_SLURM:
		return smd_engine_slurm_open(&local->engine, &slurm, error);
	case SMD_LOCAL_RUN_HERE:
		break;
	}
	return smd_engine_local_open(&local->engine, local->agent, error);
}

static void remove_files(struct local_run *local)
{
	smd_job_token_remove(&local->dir);
	smd_jobdir_remove(&local->dir, SMD_SERVER_LIST);
}

/* The runner's whole life. The program's exit code, or -errno with a text. */
static int run_job(struct local_run *local, struct smd_error *error)
{
	struct smd_run *run = &local->run;
	int ret = smd_program_find_agent(&local->agent, error);

	if (ret) {
		return ret;
	}
	ret = open_engine(local, error);
	if (ret) {
		goto free_agent;
	}
	ret = open_replicas(&run->status);
	if (ret) {
		goto close_engine;
	}
	ret = open_display(local);
	if (ret) {
		goto close_replicas;
	}
	run->status.started_ns = smd_clock_ns();
	ret = prepare(local, error);
	if (ret) {
		smd_run_give_up(run, error->text);
		summarize(local); /* the caller tells the failure */
		goto close_display;
	}
	ret = run_to_end(local, error);
	remove_files(local);
	smd_contracts_close(&local->contracts);
	smd_workspace_close(&local->workspace);
	smd_placement_free(&local->placement);
close_display:
	free(run->status.failure);
	free(run->status.left_out);
	close_display(local);
close_replicas:
	close_replicas(&run->status);
close_engine:
	local->engine->ops->close(local->engine);
free_agent:
	free(local->agent);
	return ret < 0 ? smd_error_set(error, -ret, "runner: %s", strerror(-ret)) : ret;
}

static int run_in_child(void *arg, pid_t guard, struct smd_error *error)
{
	struct local_run *local = arg;
	int ret;

	local->guard = guard;
	ret = run_job(local, error);
	if (ret < 0 && local->options->complaints) {
		dprintf(local->options->complaints, "%s\n",
			error->text[0] ? error->text : strerror(-ret));
	}
	return ret;
}

int smd_local_run(const struct smd_job *job, const struct smd_local_run_options *options,
	struct smd_error *error)
{
	struct smd_entry own;
	struct smd_entry *entry = smd_job_entry_get(job, options, &own);
	struct local_run local = {.options = options,
		.dir = *options->dir,
		.run = {.status = {.job = job, .name = entry ? entry->name : NULL},
			.dir = &local.dir,
			.record = {.dir = &local.dir, .entry = entry},
			.grace_s = options->grace_s,
			.ready_timeout_s = options->ready_timeout_s}};
	int ret;

	smd_timestamp(local.run.status.create_time);
	if (entry) {
		memcpy(local.run.status.create_time, entry->create_time,
			sizeof(entry->create_time));
	}
	ret = smd_guarded_run(&local.dir, entry, options->grace_s, run_in_child, &local, error);
	if (entry == &own) {
		smd_entry_close(&own);
	}
	return ret;
}
