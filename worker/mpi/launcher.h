/*
 * The launchers of MPI: Open MPI's orterun and MPICH's mpiexec.hydra, what they are called with and
 * which variables let them find the replicas.
 */
#ifndef SMD_MPI_LAUNCHER_H
#define SMD_MPI_LAUNCHER_H

#include "worker/mpi/nodes.h"
#include "worker/mpi/scratch.h"
#include "worker/mpi/verbs.h"

/* Writes the host lists, and sets the variables by which either launcher starts its daemons through
 * summand-mpi-start. 0 or -errno with the error. */
int smd_mpi_launcher_prepare(const struct smd_mpi_scratch *scratch,
	const struct smd_mpi_nodes *nodes, const struct smd_mpi_options *options,
	struct smd_error *error);

/* Two replicas that are on the same host; 0: there are none. */
int smd_mpi_launcher_find_shared(const struct smd_mpi_nodes *nodes, const char **a, const char **b);

/* The whole command line, which the caller frees, but not its words. -ENOENT with the error: none
 * is there. */
int smd_mpi_launcher_argv(const struct smd_mpi_options *options, int nranks, char **command,
	char ***out, struct smd_error *error);

#endif
