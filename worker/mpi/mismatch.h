/*
 * A program of another MPI than the launcher's: by itself every rank of it would be rank 0 of 1,
 * and the job would succeed.
 */
#ifndef SMD_MPI_MISMATCH_H
#define SMD_MPI_MISMATCH_H

#include <limits.h>

/* What shows, in one rank, that its program asks the other MPI for its place. */
struct smd_mpi_mismatch {
	const char *launcher; /* the MPI that has started the rank; NULL: none has */
	const char *program;  /* the other one */
	const char *label;    /* the value of summand-mpi-launcher that names that */
	int asked_fd;         /* readable when it is asked; -1: cannot be known */
	int inherited_fd;     /* the program's; -1: it has none */
	char file[PATH_MAX];  /* that a singleton of Open MPI reads; empty: none */
};

/* A rank's, before its command: sets the variables with which the other MPI fails in MPI_Init. */
void smd_mpi_mismatch_watch(struct smd_mpi_mismatch *out);

/* After the command's end: whether the other MPI was asked. */
int smd_mpi_mismatch_found(struct smd_mpi_mismatch *mismatch);

/* The same variables for ranks that an mpirun of the user's own starts: the launcher that a program
 * belongs to replaces them, or does not look at them. */
void smd_mpi_mismatch_forbid(void);

#endif
