/*
 * What a node does for one connection: a daemon of the launcher's from its start to its end, or the
 * word of the chief that all is over.
 */
#ifndef SMD_MPI_SESSION_H
#define SMD_MPI_SESSION_H

#include "worker/mpi/link.h"
#include "worker/mpi/scratch.h"

/* Serves the accepted socket to its end. A session that learns how the job ended writes the exit
 * code of the node to over_fd, one byte. 0 or -errno with the error. */
int smd_mpi_session_run(int fd, const struct smd_mpi_party *party,
	const struct smd_mpi_scratch *scratch, int over_fd, struct smd_error *error);

#endif
