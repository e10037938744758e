/* What summand-mpi does: one function per program of an MPI job. */
#ifndef SMD_MPI_VERBS_H
#define SMD_MPI_VERBS_H

#include "reduction_server/base/error.h"

#define SMD_MPI_PROGRAM "summand-mpi"
#define SMD_MPI_STARTER "summand-mpi-start" /* its name where mpirun wants a program like ssh */

/* The launcher that is taken where the job names none: the first one that is there. */
enum smd_mpi_launcher { SMD_MPI_ANY, SMD_MPI_OPENMPI, SMD_MPI_MPICH };

#define SMD_MPI_NOT_BOUND "none"

struct smd_mpi_options {
	int launcher;
	int processes;      /* ranks of each replica */
	const char *binding; /* of each rank: SMD_MPI_NOT_BOUND, "core", "numa" or "socket" */
	int is_launcher;    /* the command starts ranks itself */
	int wait_s;         /* how long the chief waits for the other replicas */
	const char *listen; /* a node's address */
};

/* Each is a program's whole run: its exit code. */
int smd_mpi_launch(const struct smd_mpi_options *options, char **command);
int smd_mpi_node(const struct smd_mpi_options *options);
int smd_mpi_start(char **argv);
int smd_mpi_rank(char **command);

/* Says what has failed, after the replica's name, and gives back the exit code. */
int smd_mpi_fail(int exit_code, const struct smd_error *error);

#endif
