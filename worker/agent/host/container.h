/*
 * A replica's command in a container: the command line of podman, docker or apptainer that runs it.
 */
#ifndef SMD_AGENT_HOST_CONTAINER_H
#define SMD_AGENT_HOST_CONTAINER_H

#include "worker/agent/wire/launch.h"

/* A container runtime, and how it differs from the others. */
struct smd_container_runtime {
	const char *name;        /* the program, or Slurm's plugin */
	const char *preserve_fd; /* option to hand on the notify pipe; NULL: it always is, or cannot
				    be */
	const char *gpus;        /* option for all GPUs; CUDA_VISIBLE_DEVICES chooses among them */
	const char *remove; /* command to remove a container, less its name; NULL: nothing stays */
	int maps_root;            /* to the user who runs it, unless that is root itself */
	int inherits_environment; /* containers get its own variables; else each must be an option
				   */
	int is_step;              /* of Slurm, by srun: pyxis.h builds its command line */
};

/* Finds a runtime by name; NULL: unknown. */
const struct smd_container_runtime *smd_container_runtime_find(const char *name);

/* The known name nearest to a misspelt one; NULL: none is near. */
const char *smd_container_runtime_suggest(const char *name);

/* Whether its program is in a directory of PATH. */
int smd_container_runtime_is_installed(const struct smd_container_runtime *runtime);

/* Lets the user of a container, who may be another one, use what of the agent's own folder is mounted
 * there; nobody else on the host gets into that folder. 0 or -errno. */
int smd_container_share(const char *folder, const struct smd_launch *launch);

/* The command line that runs launch->image with the host's network and the launch's mounts. No
 * value of a variable is on it, but for those that would be the runtime's own settings. The caller
 * frees it with smd_argv_free(). NULL: out of memory. */
char **smd_container_argv(
	const struct smd_container_runtime *runtime, const struct smd_launch *launch);

/* The command line that runs a session's command in the container of its replica, which has all
 * variables of that one already. `mark` is a word that no other session on this host has. As above. */
char **smd_container_exec_argv(const struct smd_container_runtime *runtime,
	const struct smd_launch *launch, const char *mark);

/* The shell command that ends what is left of that session in the container: the runtime's own
 * process does not take it along. As above. */
char *smd_container_exec_cleanup(const struct smd_container_runtime *runtime,
	const struct smd_launch *launch, const char *mark);

/* The variables that the runtime must be run with: all that its command line only names. The caller
 * frees out->variables alone, as names and values are the launch's. 0 or -ENOMEM. */
int smd_container_environment(const struct smd_container_runtime *runtime,
	const struct smd_launch *launch, struct smd_environment *out);

/* The shell command that removes the container of that name; "" if the runtime leaves none. The
 * caller frees it. NULL: out of memory. */
char *smd_container_cleanup(const struct smd_container_runtime *runtime, const char *name);

#endif
