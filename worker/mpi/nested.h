/*
 * A launcher that a rank starts, as a script does that brings its own mpirun: each rank would begin
 * a world of its own, and train alone. Programs of the launchers' names refuse that.
 */
#ifndef SMD_MPI_NESTED_H
#define SMD_MPI_NESTED_H

#include "worker/mpi/scratch.h"

#define SMD_MPI_LAUNCHER_SIZE 32

/* Of one rank. */
struct smd_mpi_nested {
	char trace[2 * SMD_MPI_SCRATCH_SIZE]; /* the file that is there once one was started; or empty */
};

/* Makes the programs, for the ranks of this replica. 0 or -errno with the error. */
int smd_mpi_nested_make(const struct smd_mpi_scratch *scratch, struct smd_error *error);

/* Sets the variables by which a launcher that the rank starts is refused. */
void smd_mpi_nested_watch(struct smd_mpi_nested *out);

/* Whether one was, also where the rank made nothing of it; its name. */
int smd_mpi_nested_found(struct smd_mpi_nested *nested, char launcher[SMD_MPI_LAUNCHER_SIZE]);

/* Whether this program goes by the name of a launcher; if so, the whole run is
 * smd_mpi_nested_refuse(), which gives the exit code. */
int smd_mpi_nested_is(const char *name);
int smd_mpi_nested_refuse(char **argv);

#endif
