/* All-reduce of MPI, to compare with: openmpi_allreduce PLAN BUDGET_S [TOGETHER], started by
 * mpirun. With TOGETHER so many are begun before the first is awaited. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

#define TOGETHER_MAX 256

struct mpi_driver {
	struct driver base;
	float *data;
	int count; /* of an operation */
	MPI_Request requests[TOGETHER_MAX];
};

static void begin(struct driver *driver, float *data, size_t count)
{
	struct mpi_driver *mpi = (struct mpi_driver *)driver;

	mpi->data = data;
	mpi->count = (int)count / driver->together;
}

/* Errors end the program: MPI_ERRORS_ARE_FATAL is the default. */
static void allreduce(struct driver *driver)
{
	struct mpi_driver *mpi = (struct mpi_driver *)driver;

	MPI_Allreduce(MPI_IN_PLACE, mpi->data, mpi->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allreduce_together(struct driver *driver)
{
	struct mpi_driver *mpi = (struct mpi_driver *)driver;

	for (int k = 0; k < driver->together; k++) {
		MPI_Iallreduce(MPI_IN_PLACE, mpi->data + (size_t)k * (size_t)mpi->count, mpi->count,
			MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &mpi->requests[k]);
	}
	MPI_Waitall(driver->together, mpi->requests, MPI_STATUSES_IGNORE);
}

static void end(struct driver *driver)
{
	((struct mpi_driver *)driver)->data = NULL;
}

static double max(struct driver *driver, double value)
{
	(void)driver;
	MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return value;
}

int main(int argc, char **argv)
{
	struct mpi_driver mpi = {
		.base = {.begin = begin, .allreduce = allreduce, .end = end, .max = max},
	};

	MPI_Init(&argc, &argv);
	if (argc == 4) {
		mpi.base.together = atoi(argv[3]);
		mpi.base.allreduce = allreduce_together;
	}
	if (argc < 3 || argc > 4 ||
		(argc == 4 && (mpi.base.together < 1 || mpi.base.together > TOGETHER_MAX))) {
		fprintf(stderr,
			"openmpi_allreduce: must have PLAN BUDGET_S [TOGETHER], which is 1 to %d\n",
			TOGETHER_MAX);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &mpi.base.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &mpi.base.size);
	driver_run(&mpi.base, argv[1], atof(argv[2]));
	MPI_Finalize();
	return 0;
}
