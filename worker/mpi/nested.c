/* Stands first in a rank's PATH under the names of launchers, and leaves a trace of having been run. A
 * launcher that is started by its path finds a list of hosts that is not there, whose name says why. */
#include "worker/mpi/nested.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/mpi/verbs.h"

#define TRACE    "SUMMAND_MPI_TRACE" /* where it is left */
#define NO_HOSTS "/each-rank-of-the-job-would-start-a-world-of-its-own"

static const char *const launchers[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "srun"};

#define LAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

int smd_mpi_nested_make(const struct smd_mpi_scratch *scratch, struct smd_error *error)
{
	int ret = 0;

	for (size_t i = 0; i < LAUNCHERS && !ret; i++) {
		ret = smd_mpi_scratch_link(scratch, launchers[i]);
	}
	return ret ? smd_error_set(error, -ret, "%s: must be writable, got: %s", scratch->path,
			     strerror(-ret))
		   : 0;
}

static void stand_first_in_path(const char *folder)
{
	const char *path = getenv("PATH");
	char *longer;

	if (asprintf(&longer, "%s:%s", folder, path ? path : "/usr/local/bin:/usr/bin:/bin") >= 0) {
		setenv("PATH", longer, 1);
		free(longer);
	}
}

void smd_mpi_nested_watch(struct smd_mpi_nested *out)
{
	const char *scratch = getenv(SMD_MPI_SCRATCH);

	out->trace[0] = '\0';
	setenv("HYDRA_HOST_FILE", NO_HOSTS, 1);
	setenv("OMPI_MCA_orte_default_hostfile", NO_HOSTS, 1);
	if (scratch && snprintf(out->trace, sizeof(out->trace), "%s/nested.%d", scratch,
			       (int)getpid()) < (int)sizeof(out->trace)) {
		setenv(TRACE, out->trace, 1);
		stand_first_in_path(scratch);
	}
}

int smd_mpi_nested_found(struct smd_mpi_nested *nested, char launcher[SMD_MPI_LAUNCHER_SIZE])
{
	int fd = nested->trace[0] ? open(nested->trace, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t length = fd >= 0 ? read(fd, launcher, SMD_MPI_LAUNCHER_SIZE - 1) : 0;

	launcher[length > 0 ? length : 0] = '\0';
	if (fd >= 0) {
		close(fd);
		unlink(nested->trace);
	}
	return fd >= 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int smd_mpi_nested_is(const char *name)
{
	for (size_t i = 0; i < LAUNCHERS; i++) {
		if (strcmp(launchers[i], last_part(name)) == 0) {
			return 1;
		}
	}
	return 0;
}

/* Programs look for launchers by such questions, and start nothing. */
static int is_question(char **argv)
{
	static const char *const questions[] = {
		"--version", "-version", "-V", "-info", "--help", "-help", "-h"};

	for (size_t i = 0; argv[1] && i < sizeof(questions) / sizeof(questions[0]); i++) {
		if (strcmp(argv[1], questions[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

int smd_mpi_nested_refuse(char **argv)
{
	const char *name = last_part(argv[0]);
	const char *trace = getenv(TRACE);
	int fd = trace && !is_question(argv)
			 ? open(trace, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
			 : -1;

	if (fd >= 0) {
		(void)!write(fd, name, strlen(name));
		close(fd);
	}
	fprintf(stderr,
		SMD_MPI_PROGRAM ": %s: must not be started by a rank of the job, which is one of a "
				"world already\n",
		name);
	return EXIT_FAILURE;
}
