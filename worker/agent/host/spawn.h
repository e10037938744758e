/*
 * A child process that goes on in this program, and inherits exactly what it is given.
 */
#ifndef SMD_AGENT_HOST_SPAWN_H
#define SMD_AGENT_HOST_SPAWN_H

#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/types.h>

#define SMD_DESCRIPTOR_SET_SIZE 5

/* Descriptors with low numbers, through which children get theirs. It is opened while few
 * descriptors are open: the cost of starting a child grows with the set's highest number, not with
 * what else is open. */
struct smd_descriptor_set {
	int fds[SMD_DESCRIPTOR_SET_SIZE];
	int empty;    /* /dev/null, which fills the set between two children */
	int ready[2]; /* a pipe: through it a child says how far it has come */
};

/* 0 or -errno. */
int smd_descriptor_set_open(struct smd_descriptor_set *set);
void smd_descriptor_set_close(struct smd_descriptor_set *set);

/* A started child. The descriptors are non-blocking, and the caller closes them: the reading ends of
 * pipes, of which each has ended at the latest when the child has, and the writing end of its
 * standard input. -1: there is none. */
struct smd_process {
	pid_t pid;
	int stdin_fd;
	int stdout_fd; /* of a child with a terminal: that terminal */
	int stderr_fd;
	int notify_fd;
	int record_fd;
};

/* What a child has as standard input, output and error. */
enum smd_spawn_stdio {
	SMD_SPAWN_OUTPUT,   /* /dev/null and two pipes; and a notify pipe */
	SMD_SPAWN_PIPES,    /* three pipes */
	SMD_SPAWN_TERMINAL, /* a terminal of its own */
};

#define SMD_RECORD_FD 4 /* the record pipe's number in the child, which hands it to nobody */

struct smd_spawn {
	const struct smd_descriptor_set *descriptors;
	enum smd_spawn_stdio stdio;
	struct winsize size;      /* of the terminal */
	const char *directory;    /* NULL: the caller's own */
	struct rlimit open_files; /* the child's own limit */
	char **envp;              /* the child's environment */
	int (*run)(void *arg);    /* the child's life; its value is the exit status */
	void *arg;
};

/* Makes a child in a session of its own, with a record pipe. All signals are blocked, and the child's to
 * set right. The kernel kills it when the caller ends. 0, or -errno; then nothing was started. */
int smd_spawn(const struct smd_spawn *spawn, struct smd_process *out);

#endif
