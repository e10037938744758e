/*
 * A command below one of the programs here: in a process group of its own, so that what is sent to
 * the replica's group comes to it once, from its parent.
 */
#ifndef SMD_MPI_CHILD_H
#define SMD_MPI_CHILD_H

#include <sys/types.h>

struct smd_mpi_child {
	pid_t pid;
	int has_ended;
	int exit_code; /* 128 and the signal that ended it */
};

/* Blocks the signals that the programs here wait for; a descriptor that is readable when one has
 * come. -errno. */
int smd_mpi_signals_open(void);

/* The next one, or 0. */
int smd_mpi_signals_take(int fd);

/* Starts the command; fds are its standard streams, or -1 where it has its parent's. 0 or -errno,
 * also that of exec. */
int smd_mpi_child_start(struct smd_mpi_child *out, char *const *argv, const int fds[3]);

/* Reaps it if it has ended, and every orphan. */
void smd_mpi_child_reap(struct smd_mpi_child *child);

void smd_mpi_child_signal(const struct smd_mpi_child *child, int signo);

/* Asks it to end, gives it a while, and leaves no descendant of this process. */
void smd_mpi_child_end(struct smd_mpi_child *child);

#endif
