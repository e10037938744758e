/*
 * A child process that inherits exactly what it is given.
 */
#ifndef SMD_ENGINE_LOCAL_SPAWN_H
#define SMD_ENGINE_LOCAL_SPAWN_H

#include <sys/resource.h>

#include "orchestrator/engine/engine.h"

#define SMD_DOCK_FDS 4

/* Descriptors with low numbers, over which children get theirs. It is opened before there are many
 * descriptors: what starting a child costs depends on the dock's numbers and not on what else is
 * open. */
struct smd_dock {
	int fds[SMD_DOCK_FDS];
	int empty; /* /dev/null, which is in them between two children */
};

/* 0 or -errno. */
int smd_dock_open(struct smd_dock *dock);
void smd_dock_close(struct smd_dock *dock);

struct smd_spawn {
	const struct smd_dock *dock;
	const char *program; /* a path */
	char *const *argv;
	char *const *envp;
	const char *directory;    /* NULL: the caller's own */
	struct rlimit open_files; /* the child's own limit */
};

/* Starts the program in a session of its own, with /dev/null as standard input and pipes as
 * standard output, standard error and notify pipe. All signals are blocked, and the program's to
 * set right. The kernel kills it when the calling thread ends. 0, or -errno; then nothing was
 * started. */
int smd_spawn(const struct smd_spawn *spawn, struct smd_process *out);

#endif
