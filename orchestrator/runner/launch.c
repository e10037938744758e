/* Prepares the launch of one replica: its variables, its command line, its files. */
#include "orchestrator/runner/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/runner/obituary.h"
#include "reduction_server/base/log.h"

/* For people to look at: a replica does not depend on it. */
static void write_environment(const struct smd_launcher *launcher,
	const struct smd_replica *replica, const struct smd_environment *environment)
{
	const struct smd_jobdir *dir = launcher->dir;
	char name[SMD_REPLICA_NAME_MAX + sizeof("env/.env")];
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	int ret;

	ret = file ? smd_environment_print(environment, environ, !launcher->show_secrets, file)
		   : -ENOMEM;
	ret = (file && fclose(file)) || ret ? -ENOMEM : 0;
	snprintf(name, sizeof(name), "env/%s.env", replica->name);
	ret = ret ? ret : smd_jobdir_write(dir, name, text, length);
	free(text);
	if (ret) {
		smd_log(SMD_LOG_WARN, "runner", "%s/%s: cannot be written: %s", dir->path, name,
			strerror(-ret));
	}
}

static int add_gpus(struct smd_environment *environment, const struct smd_launch_host *host,
	const struct smd_replica *replica)
{
	char *gpus;
	int ret;

	if (host->gpus->wanted == 0) {
		return 0; /* replicas see all there are */
	}
	gpus = smd_gpus_of(host->gpus, replica->pool, replica->index - host->first);
	ret = gpus ? smd_environment_set(environment, "CUDA_VISIBLE_DEVICES", "%s", gpus) : -ENOMEM;
	free(gpus);
	return ret;
}

/* What a launch's environment is made of. */
struct origin {
	const struct smd_launcher *launcher;
	const struct smd_replica *replica;
	const struct smd_launch_host *host;
	const char *error_file;
	unsigned restarts;
};

/* What only a runner knows. The spec's own value of the error file stands. */
static int add_runner_variables(const struct origin *origin, struct smd_environment *environment)
{
	const char *error_file = origin->error_file;
	unsigned restarts = origin->restarts;
	int ret = smd_environment_set(environment, "SUMMAND_RESTARTS", "%u", restarts);

	ret = ret ? ret
		  : smd_environment_set(
			    environment, "SUMMAND_ATTEMPT", "%u", origin->launcher->attempt);
	if (!ret && smd_environment_get(environment, "TORCHELASTIC_RUN_ID")) {
		ret = smd_environment_set(
			environment, "TORCHELASTIC_RESTART_COUNT", "%u", restarts);
	}
	if (!ret && !smd_environment_get(environment, "TORCHELASTIC_ERROR_FILE")) {
		ret = smd_environment_set(environment, "TORCHELASTIC_ERROR_FILE", "%s", error_file);
	}
	return ret;
}

/* Reduction servers and reducers are Summand's own program, whatever their image: they use no file
 * of the user's, so their host needs none. */
static int is_own_program(const struct smd_replica *replica)
{
	return replica->role == SMD_ROLE_REDUCTION_SERVER;
}

static const char *image_of(const struct smd_launcher *launcher, const struct smd_replica *replica)
{
	return launcher->container_runtime && !is_own_program(replica)
		       ? launcher->job->pools[replica->pool].image_uri
		       : NULL;
}

/* Where it runs. A container without code of the job begins where its image says. */
static int make_directory(struct smd_prepared_launch *launch, const struct smd_launcher *launcher,
	const struct smd_replica *replica, const struct smd_launch_host *host)
{
	int is_own = is_own_program(replica);

	if (host->folder && is_own) {
		launch->directory = strdup(host->folder);
	} else if (launcher->workspace->code) {
		launch->directory = strdup(launcher->workspace->code);
	} else if (host->folder && !image_of(launcher, replica)) {
		launch->directory = getcwd(NULL, 0);
	} else {
		return 0;
	}
	return launch->directory ? 0 : -ENOMEM;
}

/* Where a host sees the job directory, its files are there; else the agent brings them. */
static int make_paths(struct smd_prepared_launch *launch, const struct smd_launcher *launcher,
	const struct smd_replica *replica, const struct smd_launch_host *host)
{
	const struct smd_jobdir *dir = launcher->dir;

	if (asprintf(&launch->log, "logs/%s.log", replica->name) < 0) {
		launch->log = NULL;
	}
	if (asprintf(&launch->name, "summand-%d-%s", (int)getpid(), replica->name) < 0) {
		launch->name = NULL;
	}
	launch->brings_error_file = host->folder != NULL;
	if (!host->folder) {
		launch->error_file = smd_jobdir_path(dir, SMD_OBITUARY_ERROR_FILE, replica->name);
		launch->errors = smd_jobdir_path(dir, "errors");
	} else if (asprintf(&launch->error_file, "%s/" SMD_OBITUARY_ERROR_FILE, host->folder,
			   replica->name) < 0) {
		launch->error_file = NULL;
	} else if (asprintf(&launch->errors, "%s/errors", host->folder) < 0) {
		launch->errors = NULL;
	}
	if (!launch->log || !launch->error_file || !launch->errors || !launch->name ||
		make_directory(launch, launcher, replica, host)) {
		return -ENOMEM;
	}
	return 0;
}

/* Those of an earlier run in the same directory. */
static void remove_records(const struct smd_launcher *launcher, const struct smd_replica *replica)
{
	const struct smd_jobdir *dir = launcher->dir;
	char name[SMD_REPLICA_NAME_MAX + 32];

	snprintf(name, sizeof(name), "exits/%s.json", replica->name);
	smd_jobdir_remove(dir, name);
	snprintf(name, sizeof(name), SMD_OBITUARY_ERROR_FILE, replica->name);
	smd_jobdir_remove(dir, name);
}

static void add_mount(struct smd_prepared_launch *launch, const char *path, int writable)
{
	if (path) {
		launch->mounts[launch->nmounts++] = (struct smd_mount){path, writable};
	}
}

/* Of the job directory a container sees what its programs use, and no records or logs. */
static void add_mounts(struct smd_prepared_launch *launch, const struct smd_launcher *launcher,
	const struct smd_replica *replica)
{
	launch->nmounts = 0;
	if (!is_own_program(replica)) {
		add_mount(launch, launcher->workspace->code, 1);
		add_mount(launch, launcher->workspace->packages, 1);
		add_mount(launch, launcher->placement->output_dir, 1);
		add_mount(launch, launcher->placement->metrics_dir, 1);
	}
	add_mount(launch, launch->errors, 1);
	add_mount(launch,
		smd_placement_token_file(launcher->placement, replica->pool, replica->index), 0);
}

static int make_environment(const struct origin *origin, const struct smd_contract *contract,
	struct smd_environment *out)
{
	const struct smd_replica *replica = origin->replica;
	int ret = smd_contract_environment(
		contract, replica->pool, replica->index, replica->process, out);

	ret = ret ? ret : add_runner_variables(origin, out);
	ret = ret ? ret : add_gpus(out, origin->host, replica);
	return ret ? ret : smd_workspace_add(origin->launcher->workspace, out);
}

/* Records what the replica gets, but for its secrets. */
static void record_environment(
	const struct origin *origin, const struct smd_environment *environment)
{
	const struct smd_contract *shown_contract = origin->launcher->shown_contract;
	struct smd_environment shown = {0};

	if (!shown_contract) {
		write_environment(origin->launcher, origin->replica, environment);
	} else if (make_environment(origin, shown_contract, &shown) == 0) {
		write_environment(origin->launcher, origin->replica, &shown);
	}
	smd_environment_free(&shown);
}

int smd_launch_prepare(struct smd_prepared_launch *launch, const struct smd_launcher *launcher,
	const struct smd_replica *replica, const struct smd_launch_host *host, unsigned restarts)
{
	int ret = make_paths(launch, launcher, replica, host);
	const struct origin origin = {.launcher = launcher,
		.replica = replica,
		.host = host,
		.error_file = launch->error_file,
		.restarts = restarts};

	ret = ret ? ret : make_environment(&origin, launcher->contract, &launch->environment);
	ret = ret ? ret
		  : smd_contract_argv(launcher->contract, replica->pool, replica->index,
			    &launch->environment, &launch->argv);
	if (ret) {
		return ret;
	}
	remove_records(launcher, replica);
	add_mounts(launch, launcher, replica);
	launch->image = image_of(launcher, replica);
	launch->program = launch->image ? launcher->container_runtime : launch->argv[0];
	if (!launch->program) {
		return -EINVAL;
	}
	record_environment(&origin, &launch->environment);
	return 0;
}

static int add_terminal(struct smd_environment *environment, const struct smd_terminal *terminal)
{
	return terminal->rows ? smd_environment_set(environment, "TERM", "%s", terminal->type) : 0;
}

int smd_launch_prepare_session(struct smd_prepared_launch *launch,
	const struct smd_launcher *launcher, const struct smd_replica *replica,
	const struct smd_launch_host *host, unsigned restarts, const struct smd_terminal *terminal)
{
	int ret = make_paths(launch, launcher, replica, host);
	const struct origin origin = {.launcher = launcher,
		.replica = replica,
		.host = host,
		.error_file = launch->error_file,
		.restarts = restarts};

	ret = ret ? ret : make_environment(&origin, launcher->contract, &launch->environment);
	launch->image = image_of(launcher, replica);
	return ret ? ret : add_terminal(&launch->environment, terminal);
}

void smd_launch_clear(struct smd_prepared_launch *launch)
{
	free(launch->name);
	free(launch->error_file);
	free(launch->errors);
	free(launch->directory);
	free(launch->log);
	smd_argv_free(launch->argv);
	smd_environment_free(&launch->environment);
}

struct smd_launch smd_launch_request(const struct smd_prepared_launch *launch,
	const struct smd_launcher *launcher, const struct smd_replica *replica)
{
	return (struct smd_launch){.argv = launch->argv,
		.environment = &launch->environment,
		.image = launch->image,
		.runtime = launcher->container_runtime,
		.has_command = launcher->job->pools[replica->pool].ncommand > 0,
		.name = launch->name,
		.mounts = launch->mounts,
		.nmounts = launch->nmounts,
		.directory = launch->directory,
		.error_file = launch->brings_error_file ? launch->error_file : NULL,
		.grace_s = launcher->grace_s};
}
