/*
 * A rank of a test's world: sums rank + 1 over all, and over those of its host, and says what it
 * found, as one line of JSON.
 *
 *   world [exit RANK CODE | abort RANK CODE | sleep FILE]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

int main(int argc, char **argv)
{
	char directory[4096];
	char file[4096];
	int rank;
	int size;
	int part;
	int sum = 0;
	int neighbours = 0;
	MPI_Comm replica;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	part = rank + 1;
	MPI_Allreduce(&part, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &replica);
	MPI_Allreduce(&part, &neighbours, 1, MPI_INT, MPI_SUM, replica);
	if (!getcwd(directory, sizeof(directory))) {
		return 1;
	}
	printf("{\"rank\": %d, \"size\": %d, \"sum\": %d, \"neighbours\": %d, \"replica\": \"%s\", "
	       "\"directory\": \"%s\", "
	       "\"torch\": \"%s of %s, local %s\"}\n",
		rank, size, sum, neighbours, variable("SUMMAND_REPLICA"), directory,
		variable("RANK"), variable("WORLD_SIZE"), variable("LOCAL_RANK"));
	fflush(stdout);
	if (argc == 4 && strcmp(argv[1], "exit") == 0 && rank == atoi(argv[2])) {
		exit(atoi(argv[3]));
	}
	if (argc == 4 && strcmp(argv[1], "abort") == 0 && rank == atoi(argv[2])) {
		MPI_Abort(MPI_COMM_WORLD, atoi(argv[3]));
	}
	if (argc == 3 && strcmp(argv[1], "sleep") == 0) {
		snprintf(file, sizeof(file), "%s.%d", argv[2], rank);
		fclose(fopen(file, "w"));
		sleep(120);
	}
	MPI_Finalize();
	return 0;
}
