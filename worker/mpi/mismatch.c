/* An Open MPI without its launcher reads a file for a server's address; an MPICH talks to PMI_FD.
 * Both fail by what they find there, and both leave a trace of having looked. */
#include "worker/mpi/mismatch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "worker/mpi/scratch.h"

#define PMI_FD    "PMI_FD"
#define SINGLETON "OMPI_MCA_ess_singleton_server"
#define NO_FD     "2147483647"
#define NO_FILE   "file:/the-launcher-must-be-of-Open-MPI-as-this-program-is"
#define INHERITED 960 /* high: a program that closes it does not open it again as something else   \
		       */
#define FILE_PLACE "file:"

/* What is written is read here after the end; reading fails for the program. */
static void watch_mpich(struct smd_mpi_mismatch *out)
{
	char number[16];
	int ends[2];

	setenv(PMI_FD, NO_FD, 1);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		return;
	}
	out->inherited_fd = fcntl(ends[1], F_DUPFD, INHERITED);
	close(ends[1]);
	if (out->inherited_fd < 0) { /* fewer may be open */
		close(ends[0]);
		return;
	}
	out->asked_fd = ends[0];
	snprintf(number, sizeof(number), "%d", out->inherited_fd);
	setenv(PMI_FD, number, 1);
}

static void watch_openmpi(struct smd_mpi_mismatch *out)
{
	const char *scratch = getenv(SMD_MPI_SCRATCH);
	char place[sizeof(out->file) + sizeof(FILE_PLACE)];
	int fd;

	setenv(SINGLETON, NO_FILE, 1);
	if (!scratch || snprintf(out->file, sizeof(out->file), "%s/singleton.%d", scratch,
				(int)getpid()) >= (int)sizeof(out->file)) {
		out->file[0] = '\0';
		return;
	}
	fd = open(out->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		out->file[0] = '\0';
		return;
	}
	close(fd);
	out->asked_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (out->asked_fd >= 0) {
		inotify_add_watch(out->asked_fd, out->file, IN_OPEN);
	}
	snprintf(place, sizeof(place), FILE_PLACE "%s", out->file);
	setenv(SINGLETON, place, 1);
}

void smd_mpi_mismatch_watch(struct smd_mpi_mismatch *out)
{
	*out = (struct smd_mpi_mismatch){.asked_fd = -1, .inherited_fd = -1};
	if (getenv("OMPI_COMM_WORLD_RANK")) {
		out->launcher = "Open MPI (orterun)";
		out->program = "MPICH";
		out->label = "mpich";
		watch_mpich(out);
	} else if (getenv("PMI_RANK")) {
		out->launcher = "MPICH (mpiexec.hydra)";
		out->program = "Open MPI";
		out->label = "openmpi";
		watch_openmpi(out);
	}
}

int smd_mpi_mismatch_found(struct smd_mpi_mismatch *mismatch)
{
	char trace[4096];
	int found = mismatch->asked_fd >= 0 && read(mismatch->asked_fd, trace, sizeof(trace)) > 0;

	if (mismatch->asked_fd >= 0) {
		close(mismatch->asked_fd);
	}
	if (mismatch->inherited_fd >= 0) {
		close(mismatch->inherited_fd);
	}
	if (mismatch->file[0]) {
		unlink(mismatch->file);
	}
	mismatch->asked_fd = -1;
	mismatch->inherited_fd = -1;
	mismatch->file[0] = '\0';
	return found;
}

void smd_mpi_mismatch_forbid(void)
{
	setenv(PMI_FD, NO_FD, 1);
	setenv(SINGLETON, NO_FILE, 1);
}
