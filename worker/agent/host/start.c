/* Builds what a keeper's process is made with. */
#include "worker/agent/host/start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/agent/host/container.h"
#include "worker/agent/host/pyxis.h"
#include "worker/agent/host/variables.h"

#define MPI_FOLDER      "SUMMAND_MPI_FOLDER"
#define MPI_FOLDER_SIZE 64
#define MARK_SIZE       32

static const struct smd_container_runtime *runtime_of(const struct smd_launch *launch)
{
	return launch->image ? smd_container_runtime_find(launch->runtime) : NULL;
}

/* ---- variables ---- */

static int make_variables(
	struct smd_start *start, struct smd_hosts_own *own, const struct smd_launch *launch)
{
	const struct smd_container_runtime *runtime = runtime_of(launch);
	struct smd_environment environment = *launch->environment;
	/* A container has folders of its own, and a plugin in its image or none. */
	int wants_plugin = !launch->image && smd_environment_get(&environment, "NCCL_NET_PLUGIN");
	int ret;

	if (runtime && runtime->is_step) {
		start->envp = smd_pyxis_environment(launch);
		return start->envp ? 0 : -ENOMEM;
	}
	ret = launch->image ? smd_container_environment(runtime, launch, &environment) : 0;
	if (ret) {
		return ret;
	}
	start->envp = smd_variables_merge(environ, &environment, own->program_dir,
		wants_plugin ? own->plugin_dir : NULL, SMD_NOTIFY_FD);
	if (launch->image) {
		free(environment.variables);
	}
	return start->envp ? 0 : -ENOMEM;
}

/* ---- words ---- */

/* Files of one start, so that a container that comes too late finds none; in the folder of the
 * agent's that containers see. */
static int make_step(struct smd_start *start, struct smd_hosts_own *own,
	const struct smd_launch *launch, struct smd_error *error)
{
	struct smd_pyxis_place place = {.program_dir = own->program_dir};
	char *prefix;
	int ret;

	if (asprintf(&prefix, "%s/" SMD_HOSTED_ERRORS "/%s.%u", own->folder, launch->name,
		    own->nsteps++) < 0) {
		return -ENOMEM;
	}
	place.prefix = prefix;
	ret = smd_pyxis_prepare(launch, &place, &start->container, error);
	start->cleanup = ret ? NULL : smd_pyxis_cleanup(prefix);
	start->argv = start->container;
	free(prefix);
	return ret || start->cleanup ? ret : -ENOMEM;
}

static int make_container_session(struct smd_start *start, struct smd_hosts_own *own,
	const struct smd_launch *launch, struct smd_error *error)
{
	const struct smd_container_runtime *runtime = runtime_of(launch);
	char mark[MARK_SIZE];

	if (!runtime || !runtime->remove) {
		return smd_error_set(error, ENOTSUP,
			"%s: a command beside a replica needs a runtime whose containers have "
			"names: podman or docker",
			launch->runtime);
	}
	snprintf(mark, sizeof(mark), "%d-%u.", (int)getpid(), own->nsteps++);
	start->cleanup = smd_container_exec_cleanup(runtime, launch, mark);
	start->container = smd_container_exec_argv(runtime, launch, mark);
	start->argv = start->container;
	return start->cleanup && start->container ? 0 : -ENOMEM;
}

static int make_words(struct smd_start *start, struct smd_hosts_own *own,
	const struct smd_launch *launch, struct smd_error *error)
{
	const struct smd_container_runtime *runtime = runtime_of(launch);

	start->argv = launch->argv;
	if (launch->is_session && launch->image) {
		return make_container_session(start, own, launch, error);
	}
	if (!launch->image) {
		start->cleanup = strdup("");
		return start->cleanup ? 0 : -ENOMEM;
	}
	if (!runtime) {
		return -EINVAL;
	}
	if (runtime->is_step) {
		return make_step(start, own, launch, error);
	}
	start->cleanup = smd_container_cleanup(runtime, launch->name);
	start->container = smd_container_argv(runtime, launch);
	start->argv = start->container;
	if (!start->cleanup || !start->container) {
		return -ENOMEM;
	}
	return smd_container_share(own->folder, launch);
}

/* ---- MPI's folder ---- */

static int is_mpi(const struct smd_environment *environment)
{
	return smd_environment_get(environment, "SUMMAND_MPI_NODES") ||
	       smd_environment_get(environment, "SUMMAND_MPI_TOKEN_FILE");
}

/* summand-mpi cannot remove what it leaves when it is killed, so its folder is made and removed
 * from here. Without one it makes its own. */
static void make_folder(char path[MPI_FOLDER_SIZE])
{
	static const char *const places[] = {"/dev/shm", "/tmp"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, MPI_FOLDER_SIZE, "%s/summand-mpi-XXXXXX", places[i]);
		if (mkdtemp(path)) {
			return;
		}
	}
	path[0] = '\0';
}

static int remove_folder_too(struct smd_start *start, const char *path)
{
	char *both;

	if (asprintf(&both, "%s%srm -rf -- '%s'", start->cleanup, *start->cleanup ? "; " : "",
		    path) < 0) {
		return -ENOMEM;
	}
	free(start->cleanup);
	start->cleanup = both;
	return 0;
}

/* ---- all of it ---- */

static int make(struct smd_start *start, struct smd_hosts_own *own, const struct smd_launch *launch,
	struct smd_error *error)
{
	int ret = make_words(start, own, launch, error);

	return ret ? ret : make_variables(start, own, launch);
}

static int make_with_folder(struct smd_start *start, struct smd_hosts_own *own,
	const struct smd_launch *launch, struct smd_error *error)
{
	const struct smd_environment *before = launch->environment;
	struct smd_environment environment = *before;
	struct smd_launch extended = *launch;
	char path[MPI_FOLDER_SIZE];
	char name[] = MPI_FOLDER;
	int ret;

	make_folder(path);
	if (!path[0]) {
		return make(start, own, launch, error);
	}
	environment.variables = calloc(before->count + 1, sizeof(*environment.variables));
	if (!environment.variables) {
		rmdir(path);
		return -ENOMEM;
	}
	for (size_t i = 0; i < before->count; i++) {
		environment.variables[i] = before->variables[i];
	}
	environment.variables[environment.count++] =
		(struct smd_variable){.name = name, .value = path};
	extended.environment = &environment;
	ret = make(start, own, &extended, error);
	ret = ret ? ret : remove_folder_too(start, path);
	free(environment.variables);
	if (ret) {
		rmdir(path);
	}
	return ret;
}

int smd_start_make(struct smd_start *start, struct smd_hosts_own *own,
	const struct smd_launch *launch, struct smd_error *error)
{
	*start = (struct smd_start){.argv = NULL};
	if (!launch->is_session && is_mpi(launch->environment) && !smd_environment_get(launch->environment, MPI_FOLDER)) {
		return make_with_folder(start, own, launch, error);
	}
	return make(start, own, launch, error);
}

void smd_start_clear(struct smd_start *start)
{
	smd_argv_free(start->container);
	smd_argv_free(start->envp);
	free(start->cleanup);
}
