/*
 * A replica's private directory while its MPI job runs: host files, shared memory of its ranks, and
 * the note of the first rank that failed.
 */
#ifndef SMD_MPI_SCRATCH_H
#define SMD_MPI_SCRATCH_H

#include <stddef.h>

#include "reduction_server/base/error.h"

#define SMD_MPI_SCRATCH_SIZE 64

/* One that whoever started this program has made, and removes; or it is not set. */
#define SMD_MPI_FOLDER "SUMMAND_MPI_FOLDER"

/* Of the ranks below, to find it and the replica's output. */
#define SMD_MPI_SCRATCH   "SUMMAND_MPI_SCRATCH"
#define SMD_MPI_PID       "SUMMAND_MPI_PID"
#define SMD_MPI_DIRECTORY "SUMMAND_MPI_DIRECTORY"

struct smd_mpi_scratch {
	char path[SMD_MPI_SCRATCH_SIZE];
	int watch_fd; /* readable when a rank has failed */
};

/* Makes it, and sets the variables by which ranks find it. 0 or -errno with the error. */
int smd_mpi_scratch_make(struct smd_mpi_scratch *out, struct smd_error *error);

/* Writes the file in it. 0 or -errno. */
int smd_mpi_scratch_write(
	const struct smd_mpi_scratch *scratch, const char *name, const char *text, size_t length);

/* Makes this program have that name in it too. 0 or -errno. */
int smd_mpi_scratch_link(const struct smd_mpi_scratch *scratch, const char *name);

/* A rank's: notes that it failed with that exit code, unless one has before it. */
void smd_mpi_scratch_note_failure(int exit_code);

/* Takes what watch_fd has. The exit code of the first rank that failed; 0: none has. */
int smd_mpi_scratch_failure(const struct smd_mpi_scratch *scratch);

void smd_mpi_scratch_remove(struct smd_mpi_scratch *scratch);

#endif
