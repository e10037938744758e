/* The engine that is always there: replicas as processes on this machine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "orchestrator/engine/engine.h"
#include "orchestrator/engine/gpu.h"
#include "orchestrator/engine/port.h"
#include "orchestrator/engine/spawn.h"
#include "orchestrator/engine/variables.h"
#include "worker/agent/descendants.h"

#define AGENT          "summand-agent"
#define AGENT_ARGS_MAX 4 /* the agent, its two options, "--" */
#define OPTION_SIZE    32

struct local_engine {
	struct smd_engine engine;
	struct smd_dock dock;
	struct smd_ports ports;
	struct smd_gpus gpus;
	int oversubscribe;
	struct rlimit open_files; /* as the caller had it; replicas get it back */
	char *program_dir;
	char *agent;
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

static int place_pool(struct local_engine *local, const struct smd_pool *pool, char ***endpoints,
	struct smd_error *error)
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
	struct smd_spawn spawn = {.dock = &local->dock,
		.program = local->agent,
		.argv = argv,
		.directory = launch->directory,
		.open_files = local->open_files};
	char **envp = smd_variables_merge(
		environ, launch->environment, local->program_dir, SMD_ENGINE_NOTIFY_FD);
	int ret;

	if (!envp) {
		return -ENOMEM;
	}
	spawn.envp = envp;
	ret = smd_spawn(&spawn, out);
	smd_argv_free(envp);
	return ret;
}

static int local_start(
	struct smd_engine *engine, const struct smd_launch *launch, struct smd_process *out)
{
	char grace[OPTION_SIZE];
	char *record = NULL;
	size_t count = 0;
	char **argv;
	int ret = -ENOMEM;

	while (launch->argv[count]) {
		count++;
	}
	argv = calloc(AGENT_ARGS_MAX + count + 1, sizeof(*argv));
	if (!argv || asprintf(&record, "--exit-record=%s", launch->exit_record) < 0) {
		goto free_argv;
	}
	snprintf(grace, sizeof(grace), "--grace=%u", launch->grace_s);
	argv[0] = (char[]){AGENT};
	argv[1] = record;
	argv[2] = grace;
	argv[3] = (char[]){"--"};
	memcpy(argv + AGENT_ARGS_MAX, launch->argv, count * sizeof(*argv));
	ret = local_spawn(local_from(engine), argv, launch, out);
	free(record);
free_argv:
	free(argv);
	return ret;
}

/* The agent itself must live to end its tree, so what means "at once" to it is SIGHUP. */
static void local_signal(struct smd_engine *engine, pid_t pid, int signo)
{
	(void)engine;
	kill(pid, signo == SIGKILL ? SIGHUP : signo);
}

static void local_close(struct smd_engine *engine)
{
	struct local_engine *local = local_from(engine);

	/* Trees whose agent was killed have come to this process. */
	smd_descendants_kill();
	smd_ports_release(&local->ports);
	smd_gpus_clear(&local->gpus);
	smd_dock_close(&local->dock);
	setrlimit(RLIMIT_NOFILE, &local->open_files);
	free(local->agent);
	free(local->program_dir);
	free(local);
}

static const struct smd_engine_ops local_ops = {
	.name = "local",
	.place = local_place,
	.gpus = local_gpus,
	.start = local_start,
	.signal = local_signal,
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

/* Every replica takes five descriptors here, so the soft limit is no limit. */
static void raise_open_files(struct rlimit *before)
{
	struct rlimit raised;

	getrlimit(RLIMIT_NOFILE, before);
	raised = *before;
	raised.rlim_cur = raised.rlim_max;
	setrlimit(RLIMIT_NOFILE, &raised);
}

int smd_engine_local_open(struct smd_engine **out, int oversubscribe, struct smd_error *error)
{
	struct local_engine *local = calloc(1, sizeof(*local));
	int ret;

	if (!local) {
		return smd_error_set(error, ENOMEM, "engine: %s", strerror(ENOMEM));
	}
	local->engine.ops = &local_ops;
	local->oversubscribe = oversubscribe;
	ret = find_agent(local, error);
	if (ret) {
		goto free_local;
	}
	ret = smd_gpus_find(&local->gpus, getenv("CUDA_VISIBLE_DEVICES"));
	if (ret) {
		smd_error_set(error, -ret, "GPUs: %s", strerror(-ret));
		goto free_local;
	}
	ret = smd_dock_open(&local->dock);
	if (ret) {
		smd_error_set(error, -ret, "/dev/null: %s", strerror(-ret));
		goto free_local;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	raise_open_files(&local->open_files);
	*out = &local->engine;
	return 0;
free_local:
	smd_gpus_clear(&local->gpus);
	free(local->agent);
	free(local->program_dir);
	free(local);
	return ret;
}
