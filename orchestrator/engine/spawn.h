/*
 * A child process that inherits exactly what it is given.
 */
#ifndef SMD_ENGINE_SPAWN_H
#define SMD_ENGINE_SPAWN_H

#include <sys/resource.h>

#include "orchestrator/engine/engine.h"

struct smd_spawn {
	const char *program; /* a path */
	char *const *argv;
	char *const *envp;
	struct rlimit open_files; /* the child's own limit */
};

/* Starts the program in a session of its own, with default signals, /dev/null as standard input and
 * pipes as standard output, standard error and notify pipe. The kernel kills it when the calling
 * thread ends. 0, or -errno; then nothing was started. */
int smd_spawn(const struct smd_spawn *spawn, struct smd_process *out);

#endif
