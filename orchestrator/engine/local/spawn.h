/*
 * A child process that inherits exactly what it is given.
 */
#ifndef SMD_ENGINE_LOCAL_SPAWN_H
#define SMD_ENGINE_LOCAL_SPAWN_H

#include <sys/resource.h>

#include "orchestrator/engine/engine.h"

#define SMD_DESCRIPTOR_SET_SIZE 4

/* Descriptors with low numbers, through which children get theirs. It is opened while few
 * descriptors are open: the cost of starting a child grows with the set's highest number, not with
 * what else is open. */
struct smd_descriptor_set {
	int fds[SMD_DESCRIPTOR_SET_SIZE];
	int empty; /* /dev/null, which fills the set between two children */
};

/* 0 or -errno. */
int smd_descriptor_set_open(struct smd_descriptor_set *set);
void smd_descriptor_set_close(struct smd_descriptor_set *set);

struct smd_spawn {
	const struct smd_descriptor_set *descriptors;
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
