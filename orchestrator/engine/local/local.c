/* The local engine: replicas as processes on this machine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "orchestrator/engine/engine.h"
#include "orchestrator/engine/local/container.h"
#include "orchestrator/engine/local/gpu.h"
#include "orchestrator/engine/local/port.h"
#include "orchestrator/engine/local/spawn.h"
#include "orchestrator/engine/local/variables.h"
#include "worker/agent/cleanup.h"
#include "worker/agent/descendants.h"

#define AGENT          SMD_AGENT_PROGRAM
#define PLUGIN         "libnccl-net-summand.so"
#define AGENT_ARGS_MAX 5 /* the agent, its three options, "--" */
#define OPTION_SIZE    32

/* How long an agent may take to end a tree, and to remove a container after that. */
#define TREE_MAX_S      5
#define CONTAINER_MAX_S 60

struct local_engine {
	struct smd_engine engine;
	struct smd_descriptor_set descriptors;
	struct smd_ports ports;
	struct smd_gpus gpus;
	int oversubscribe;
	const struct smd_container_runtime *runtime; /* NULL: there are no containers */
	struct rlimit open_files; /* as the caller had it; replicas get it back */
	char *program_dir;
	char *agent;
	char *plugin_dir; /* with NCCL's plugin; NULL: it is not installed here */
};

static struct local_engine *local_from(struct smd_engine *engine)
{
	return (struct local_engine *)engine;
}

static int reserve_endpoint(struct local_engine *local, char **endpoint, struct smd_error *error)
{
	uint16_t port;
	int ret = smd_ports_reserve(&local->ports, &port, error);

	if (ret) {
		return ret;
	}
	if (asprintf(endpoint, "127.0.0.1:%u", (unsigned)port) < 0) {
		*endpoint = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int place_pool(struct local_engine *local, const struct smd_job_pool *pool,
	char ***endpoints, struct smd_error *error)
{
	int ret = 0;

	if (pool->replica_count == 0) {
		return 0;
	}
	*endpoints = calloc((size_t)pool->replica_count + 1, sizeof(**endpoints));
	if (!*endpoints) {
		return -ENOMEM;
	}
	for (int i = 0; !ret && i < pool->replica_count; i++) {
		ret = reserve_endpoint(local, &(*endpoints)[i], error);
	}
	return ret;
}

static int local_place(struct smd_engine *engine, const struct smd_job *job,
	struct smd_placement *out, struct smd_error *error)
{
	struct local_engine *local = local_from(engine);
	struct smd_placement placement = {0};
	uint16_t master_port;
	int ret = smd_gpus_deal(&local->gpus, job, local->oversubscribe, error);

	if (ret) {
		return ret;
	}
	for (int i = 0; !ret && i < SMD_JOB_POOLS_MAX; i++) {
		ret = place_pool(local, &job->pools[i], &placement.endpoints[i], error);
	}
	ret = ret ? ret : smd_ports_reserve(&local->ports, &master_port, error);
	if (!ret) {
		placement.interface = strdup("lo");
		ret = placement.interface ? 0 : -ENOMEM;
	}
	if (ret) {
		smd_placement_free(&placement);
		return smd_error_set(error, -ret, "placement: %s", strerror(-ret));
	}
	placement.master_port = master_port;
	*out = placement;
	return 0;
}

static int local_gpus(struct smd_engine *engine, int pool, int index, char **out)
{
	const struct smd_gpus *gpus = &local_from(engine)->gpus;

	if (gpus->wanted == 0) {
		return -ENOENT;
	}
	*out = smd_gpus_of(gpus, pool, index);
	return *out ? 0 : -ENOMEM;
}

static int local_spawn(struct local_engine *local, char *const *argv,
	const struct smd_launch *launch, struct smd_process *out)
{
	struct smd_spawn spawn = {.descriptors = &local->descriptors,
		.program = local->agent,
		.argv = argv,
		.directory = launch->image ? NULL : launch->directory,
		.open_files = local->open_files};
	struct smd_environment environment = *launch->environment;
	/* A container has folders of its own, and a plugin in its image or none. */
	int wants_plugin = !launch->image && smd_environment_get(&environment, "NCCL_NET_PLUGIN");
	char **envp;
	int ret =
		launch->image ? smd_container_environment(local->runtime, launch, &environment) : 0;

	if (ret) {
		return ret;
	}
	envp = smd_variables_merge(environ, &environment, local->program_dir,
		wants_plugin ? local->plugin_dir : NULL, SMD_ENGINE_NOTIFY_FD);
	if (launch->image) {
		free(environment.variables);
	}
	if (!envp) {
		return -ENOMEM;
	}
	spawn.envp = envp;
	ret = smd_spawn(&spawn, out);
	smd_argv_free(envp);
	return ret;
}

/* Runs argv through the agent, which runs `cleanup` when nothing of argv is left. */
static int start_agent(struct local_engine *local, char *const *argv, const char *cleanup,
	const struct smd_launch *launch, struct smd_process *out)
{
	char grace[OPTION_SIZE];
	char *record = NULL;
	char *after = NULL;
	size_t count = 0;
	char **words;
	int ret = -ENOMEM;

	while (argv[count]) {
		count++;
	}
	words = calloc(AGENT_ARGS_MAX + count + 1, sizeof(*words));
	if (!words || asprintf(&record, "--exit-record=%s", launch->exit_record) < 0) {
		goto free_words;
	}
	if (asprintf(&after, "--cleanup=%s", cleanup) < 0) {
		goto free_record;
	}
	snprintf(grace, sizeof(grace), "--grace=%u", launch->grace_s);
	words[0] = (char[]){AGENT};
	words[1] = record;
	words[2] = grace;
	words[3] = after;
	words[4] = (char[]){"--"};
	memcpy(words + AGENT_ARGS_MAX, argv, count * sizeof(*words));
	ret = local_spawn(local, words, launch, out);
	free(after);
free_record:
	free(record);
free_words:
	free(words);
	return ret;
}

static int start_container(
	struct local_engine *local, const struct smd_launch *launch, struct smd_process *out)
{
	char **argv = smd_container_argv(local->runtime, launch);
	char *cleanup = smd_container_cleanup(local->runtime, launch->name);
	int ret = -ENOMEM;

	if (argv && cleanup) {
		ret = start_agent(local, argv, cleanup, launch, out);
	}
	free(cleanup);
	smd_argv_free(argv);
	return ret;
}

static int local_start(
	struct smd_engine *engine, const struct smd_launch *launch, struct smd_process *out)
{
	struct local_engine *local = local_from(engine);

	int ret = launch->image ? start_container(local, launch, out)
				: start_agent(local, launch->argv, "", launch, out);

	out->ending_max_s = TREE_MAX_S + (launch->image ? CONTAINER_MAX_S : 0);
	return ret;
}

/* The agent must live to end its tree, so SIGHUP tells it to do that at once. SIGCONT wakes an
 * agent that a replica has stopped. */
static void local_signal(struct smd_engine *engine, pid_t pid, int signo)
{
	(void)engine;
	kill(pid, signo == SIGKILL ? SIGHUP : signo);
	kill(pid, SIGCONT);
}

static void local_abandon(struct smd_engine *engine, pid_t pid)
{
	(void)engine;
	kill(pid, SIGKILL);
}

static void local_clean_up(struct smd_engine *engine, const char *name)
{
	const struct smd_container_runtime *runtime = local_from(engine)->runtime;
	char *command = runtime ? smd_container_cleanup(runtime, name) : NULL;

	smd_clean_up(command);
	free(command);
}

static void local_close(struct smd_engine *engine)
{
	struct local_engine *local = local_from(engine);

	/* Trees whose agent was killed are children of this process now. */
	smd_descendants_kill();
	smd_ports_release(&local->ports);
	smd_gpus_clear(&local->gpus);
	smd_descriptor_set_close(&local->descriptors);
	setrlimit(RLIMIT_NOFILE, &local->open_files);
	free(local->agent);
	free(local->plugin_dir);
	free(local->program_dir);
	free(local);
}

static const struct smd_engine_ops local_ops = {
	.name = "local",
	.place = local_place,
	.gpus = local_gpus,
	.start = local_start,
	.signal = local_signal,
	.abandon = local_abandon,
	.clean_up = local_clean_up,
	.close = local_close,
};

/* The directory with the agent: the running program's own, or bin/ beside it. */
static int find_agent(struct local_engine *local, struct smd_error *error)
{
	static const char *const places[] = {".", "../bin"};
	char *program = realpath("/proc/self/exe", NULL);
	char *slash = program ? strrchr(program, '/') : NULL;
	int ret = -ENOENT;

	if (!slash) {
		free(program);
		return smd_error_set(error, ENOENT, "/proc/self/exe: must name this program");
	}
	*slash = '\0';
	for (size_t i = 0; ret == -ENOENT && i < sizeof(places) / sizeof(places[0]); i++) {
		char *path;

		if (asprintf(&path, "%s/%s/" AGENT, program, places[i]) < 0) {
			ret = -ENOMEM;
			break;
		}
		local->agent = realpath(path, NULL);
		free(path);
		ret = local->agent ? 0 : -ENOENT;
	}
	if (ret == 0) {
		local->program_dir =
			strndup(local->agent, (size_t)(strrchr(local->agent, '/') - local->agent));
		ret = local->program_dir ? 0 : -ENOMEM;
	} else {
		smd_error_set(error, -ret, AGENT ": must be beside the program, in %s", program);
	}
	free(program);
	return ret;
}

/* Programs and libraries are in sibling folders, in a build tree and in an installed copy. */
static int find_plugin(struct local_engine *local)
{
	static const char *const places[] = {"../lib", "../" LIBRARY_DIR};

	for (size_t i = 0; !local->plugin_dir && i < sizeof(places) / sizeof(places[0]); i++) {
		char *path;

		if (asprintf(&path, "%s/%s/" PLUGIN, local->program_dir, places[i]) < 0) {
			return -ENOMEM;
		}
		local->plugin_dir = realpath(path, NULL);
		free(path);
	}
	if (local->plugin_dir) {
		*strrchr(local->plugin_dir, '/') = '\0';
	}
	return 0;
}

static int find_runtime(struct local_engine *local, const char *name, struct smd_error *error)
{
	if (!name) {
		return 0;
	}
	local->runtime = smd_container_runtime_find(name);
	return local->runtime
		       ? 0
		       : smd_error_set(error, EINVAL,
				 "container runtime: must be podman, docker or apptainer, got %s",
				 name);
}

/* Every replica takes five descriptors here, so the soft limit is raised to the hard one. */
static void raise_open_files(struct rlimit *before)
{
	struct rlimit raised;

	getrlimit(RLIMIT_NOFILE, before);
	raised = *before;
	raised.rlim_cur = raised.rlim_max;
	setrlimit(RLIMIT_NOFILE, &raised);
}

int smd_engine_local_open(
	struct smd_engine **out, const struct smd_local_options *options, struct smd_error *error)
{
	struct local_engine *local = calloc(1, sizeof(*local));
	int ret;

	if (!local) {
		return smd_error_set(error, ENOMEM, "engine: %s", strerror(ENOMEM));
	}
	local->engine.ops = &local_ops;
	local->oversubscribe = options->oversubscribe;
	ret = find_runtime(local, options->container_runtime, error);
	ret = ret ? ret : find_agent(local, error);
	if (ret) {
		goto free_local;
	}
	ret = find_plugin(local);
	if (ret) {
		smd_error_set(error, -ret, PLUGIN ": %s", strerror(-ret));
		goto free_local;
	}
	ret = smd_gpus_find(&local->gpus, getenv("CUDA_VISIBLE_DEVICES"));
	if (ret) {
		smd_error_set(error, -ret, "GPUs: %s", strerror(-ret));
		goto free_local;
	}
	ret = smd_descriptor_set_open(&local->descriptors);
	if (ret) {
		smd_error_set(error, -ret, "/dev/null: %s", strerror(-ret));
		goto free_local;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	raise_open_files(&local->open_files);
	local->engine.agent = local->agent;
	*out = &local->engine;
	return 0;
free_local:
	smd_gpus_clear(&local->gpus);
	free(local->agent);
	free(local->plugin_dir);
	free(local->program_dir);
	free(local);
	return ret;
}
