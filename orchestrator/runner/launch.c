/* Starts one replica: its variables, its command line, its log, its process. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/obituary.h"
#include "orchestrator/runner/run.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

/* What one launch needs beside the replica; all of it is gone when the process exists. */
struct launch {
	struct smd_environment environment;
	char **argv;
	char *log;
	char *exit_record;
	char *error_file;
	char *name;
};

static void launch_clear(struct launch *launch)
{
	free(launch->name);
	free(launch->error_file);
	free(launch->exit_record);
	free(launch->log);
	smd_argv_free(launch->argv);
	smd_environment_free(&launch->environment);
}

/* For people to look at: a replica does not depend on it. */
static void write_environment(const struct smd_run *run, const struct smd_replica *replica,
	const struct smd_environment *environment)
{
	char name[SMD_REPLICA_NAME_MAX + sizeof("env/.env")];
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	int ret;

	ret = file ? smd_environment_print(environment, file) : -ENOMEM;
	ret = (file && fclose(file)) || ret ? -ENOMEM : 0;
	snprintf(name, sizeof(name), "env/%s.env", replica->name);
	ret = ret ? ret : smd_jobdir_write(&run->dir, name, text, length);
	free(text);
	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s/%s: cannot be written: %s", run->dir.path, name,
			strerror(-ret));
	}
}

static int add_gpus(
	struct launch *launch, const struct smd_run *run, const struct smd_replica *replica)
{
	char *gpus;
	int ret = run->engine->ops->gpus(run->engine, replica->pool, replica->index, &gpus);

	if (ret) {
		return ret == -ENOENT ? 0 : ret;
	}
	ret = smd_environment_set(&launch->environment, "CUDA_VISIBLE_DEVICES", "%s", gpus);
	free(gpus);
	return ret;
}

/* What only a runner knows. The spec's own word on the error file stands. */
static int add_runner_variables(
	struct launch *launch, const struct smd_run *run, const struct smd_replica *replica)
{
	struct smd_environment *environment = &launch->environment;
	int ret = smd_environment_set(
		environment, "SUMMAND_RESTARTS", "%u", run->restarts + replica->restarts);

	if (!ret && !smd_environment_get(environment, "TORCHELASTIC_ERROR_FILE")) {
		ret = smd_environment_set(
			environment, "TORCHELASTIC_ERROR_FILE", "%s", launch->error_file);
	}
	return ret;
}

char *smd_run_launch_name(const struct smd_replica *replica)
{
	char *name;

	return asprintf(&name, "summand-%d-%s", (int)getpid(), replica->name) < 0 ? NULL : name;
}

static int make_paths(
	struct launch *launch, const struct smd_run *run, const struct smd_replica *replica)
{
	launch->log = smd_jobdir_path(&run->dir, "logs/%s.log", replica->name);
	launch->exit_record = smd_jobdir_path(&run->dir, "exits/%s.json", replica->name);
	launch->error_file = smd_jobdir_path(&run->dir, SMD_OBITUARY_ERROR_FILE, replica->name);
	if (!launch->log || !launch->exit_record || !launch->error_file) {
		return -ENOMEM;
	}
	launch->name = smd_run_launch_name(replica);
	if (!launch->name) {
		return -ENOMEM;
	}
	unlink(launch->exit_record); /* of an earlier run in the same directory */
	unlink(launch->error_file);
	return 0;
}

/* Reduction servers are Summand's own program, whatever their image. */
static const char *image_of(const struct smd_run *run, const struct smd_replica *replica)
{
	return run->container_runtime && replica->role != SMD_ROLE_REDUCTION_SERVER
		       ? run->job->pools[replica->pool].image_uri
		       : NULL;
}

static int launch_prepare(
	struct launch *launch, const struct smd_run *run, struct smd_replica *replica)
{
	int ret = make_paths(launch, run, replica);
	const char *image;

	ret = ret ? ret
		  : smd_contract_environment(run->contract, replica->pool, replica->index,
			    replica->process, &launch->environment);
	ret = ret ? ret : add_runner_variables(launch, run, replica);
	ret = ret ? ret : add_gpus(launch, run, replica);
	ret = ret ? ret : smd_workspace_add(&run->workspace, &launch->environment);
	ret = ret ? ret
		  : smd_contract_argv(run->contract, replica->pool, replica->index,
			    &launch->environment, &launch->argv);
	if (ret) {
		return ret;
	}
	image = image_of(run, replica);
	if (!launch->argv[0] && !image) {
		return -EINVAL;
	}
	replica->program = strdup(image ? run->container_runtime : launch->argv[0]);
	if (!replica->program) {
		return -ENOMEM;
	}
	write_environment(run, replica, &launch->environment);
	return 0;
}

static void take_ready(struct smd_replica *replica, const char *address)
{
	struct smd_run *run = replica->run;

	if (replica->state != SMD_REPLICA_STARTING) {
		return;
	}
	smd_run_apply(run, replica, SMD_REPLICA_EVENT_READY);
	smd_display_change(&run->display, replica, "ready%s%s", *address ? " at " : "", address);
}

static void take_notice(void *arg, const struct smd_runner_notice *notice)
{
	struct smd_replica *replica = arg;

	switch (notice->kind) {
	case SMD_RUNNER_NOTICE_READY:
		take_ready(replica, notice->text);
		break;
	case SMD_RUNNER_NOTICE_STATUS:
		snprintf(replica->status, sizeof(replica->status), "%s", notice->text);
		replica->status_is_new = 1;
		break;
	case SMD_RUNNER_NOTICE_RESULT:
		if (smd_replica_set_result(replica, notice->key, notice->text)) {
			fprintf(replica->output.log, "result %s %s\n", notice->key, notice->text);
		}
		break;
	}
}

static int launch_start(
	const struct launch *launch, struct smd_run *run, struct smd_replica *replica)
{
	const struct smd_output_sinks sinks = {.log_path = launch->log,
		.append = run->restarts + replica->restarts > 0,
		.stream = &run->stream,
		.task = replica->name,
		.tail = &replica->tail,
		.take_notice = take_notice,
		.arg = replica};
	const struct smd_launch request = {.argv = launch->argv,
		.environment = &launch->environment,
		.image = image_of(run, replica),
		.has_command = run->job->pools[replica->pool].ncommand > 0,
		.name = launch->name,
		.job_dir = run->dir.path,
		.directory = run->workspace.code,
		.exit_record = launch->exit_record,
		.grace_s = run->grace_s};
	struct smd_process process;
	int ret = smd_output_open(&replica->output, &sinks);

	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s: cannot be opened: %s", launch->log,
			strerror(-ret));
		return ret;
	}
	ret = run->engine->ops->start(run->engine, &request, &process);
	if (ret) {
		smd_output_close(&replica->output);
		return ret;
	}
	replica->pid = process.pid;
	replica->ending_max_s = process.ending_max_s;
	/* A replica that cannot be heard is still there; it is asked to end, and its end is a
	 * failure. */
	if (smd_output_attach(&replica->output, run->base, &process)) {
		smd_run_end(run, replica, SIGTERM);
	}
	return 0;
}

void smd_run_launch(struct smd_run *run, struct smd_replica *replica)
{
	struct launch launch = {0};
	int ret = launch_prepare(&launch, run, replica);

	replica->started_ns = smd_clock_ns();
	ret = ret ? ret : launch_start(&launch, run, replica);
	launch_clear(&launch);
	if (ret) {
		replica->end = (struct smd_exit){.kind = SMD_EXIT_ERRNO, .value = -ret};
		smd_timestamp(replica->end.end_time);
		smd_run_take_end(run, replica);
		return;
	}
	smd_run_apply(run, replica, SMD_REPLICA_EVENT_LAUNCHED);
	smd_display_change(&run->display, replica, "started");
	if (replica->role != SMD_ROLE_REDUCTION_SERVER) {
		smd_run_apply(run, replica, SMD_REPLICA_EVENT_READY);
	}
}
