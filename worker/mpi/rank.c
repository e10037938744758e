/* One rank's command: in its replica's directory and log, with PyTorch's variables for its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/exit_record.h"
#include "worker/mpi/mismatch.h"
#include "worker/mpi/nested.h"
#include "worker/mpi/scratch.h"
#include "worker/mpi/verbs.h"

static volatile sig_atomic_t asked; /* by the signal, to end */
static pid_t child;

static void forward(int signo)
{
	int err = errno;

	asked = signo;
	if (child > 0) {
		kill(child, signo);
	}
	errno = err;
}

/* mpirun would carry what a rank prints to the chief; it belongs into the replica's own log. Where
 * that is no pipe, mpirun carries it: a file opened again has another place to write to. */
static void take_output(int fd)
{
	const char *pid = getenv(SMD_MPI_PID);
	struct stat kind;
	char path[64];
	int output;

	if (!pid || strspn(pid, "0123456789") != strlen(pid)) {
		return;
	}
	snprintf(path, sizeof(path), "/proc/%.16s/fd/%d", pid, fd);
	if (stat(path, &kind) || !S_ISFIFO(kind.st_mode)) {
		return;
	}
	output = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
	if (output >= 0) {
		dup2(output, fd);
		close(output);
	}
}

static void take_directory(void)
{
	const char *directory = getenv(SMD_MPI_DIRECTORY);

	if (directory && chdir(directory)) {
		fprintf(stderr, SMD_MPI_PROGRAM ": %s: %m\n", directory);
	} else if (directory) {
		setenv("PWD", directory, 1);
	}
}

/* The launcher's word for it; of Open MPI, else of MPICH. */
static const char *place(const char *openmpi, const char *mpich)
{
	const char *value = getenv(openmpi);

	return value ? value : getenv(mpich);
}

/* Where the job has a master, programs that read PyTorch's variables find their place too. */
static void set_place(void)
{
	const struct {
		const char *name;
		const char *value;
	} variables[] = {
		{"RANK", place("OMPI_COMM_WORLD_RANK", "PMI_RANK")},
		{"WORLD_SIZE", place("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")},
		{"LOCAL_RANK", place("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")},
		{"LOCAL_WORLD_SIZE", place("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")},
	};

	for (size_t i = 0; getenv("MASTER_ADDR") && i < sizeof(variables) / sizeof(variables[0]);
		i++) {
		if (variables[i].value) {
			setenv(variables[i].name, variables[i].value, 1);
		}
	}
}

static void become(char **command, const sigset_t *mask)
{
	static const char *const ours[] = {SMD_MPI_SCRATCH, SMD_MPI_PID, SMD_MPI_DIRECTORY};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		unsetenv(ours[i]);
	}
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	fprintf(stderr, SMD_MPI_PROGRAM ": %s: %m\n", command[0]);
	_exit(errno == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE);
}

static int wait_for_child(void)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	return WIFSIGNALED(status) ? SMD_EXIT_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
}

static void tell_mismatch(
	const struct smd_mpi_mismatch *mismatch, const char *rank, const char *size)
{
	fprintf(stderr,
		SMD_MPI_PROGRAM ": rank %s of %s: the launcher must be of the MPI that the program "
				"was built with, got a program of %s under the launcher of %s; set "
				"summand-mpi-launcher: %s in the job's labels\n",
		rank, size, mismatch->program, mismatch->launcher, mismatch->label);
}

static void tell_nested(const char *launcher, const char *rank, const char *size)
{
	fprintf(stderr,
		SMD_MPI_PROGRAM ": rank %s of %s: each rank would start a world of its own, got a "
				"command that runs %s; have the program alone as the job's command, "
				"which Summand starts as that many ranks, or %s as its first word\n",
		rank, size, launcher, launcher);
}

/* It stays above the command to say which rank failed: mpirun names a host for a signal only. */
int smd_mpi_rank(char **command)
{
	const struct sigaction forwarding = {.sa_handler = forward};
	const char *rank = place("OMPI_COMM_WORLD_RANK", "PMI_RANK");
	const char *size = place("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
	struct smd_mpi_mismatch mismatch;
	struct smd_mpi_nested nested;
	char launcher[SMD_MPI_LAUNCHER_SIZE];
	sigset_t ends;
	sigset_t before;
	int code;

	take_output(STDOUT_FILENO);
	take_output(STDERR_FILENO);
	take_directory();
	set_place();
	smd_mpi_mismatch_watch(&mismatch);
	smd_mpi_nested_watch(&nested);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, &before);
	sigaction(SIGTERM, &forwarding, NULL);
	sigaction(SIGINT, &forwarding, NULL);
	child = fork();
	if (child == 0) {
		become(command, &before);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	code = child < 0 ? SMD_EXIT_NOT_EXECUTABLE : wait_for_child();
	if (smd_mpi_mismatch_found(&mismatch)) {
		tell_mismatch(&mismatch, rank ? rank : "?", size ? size : "?");
		code = code > 0 ? code : EXIT_FAILURE; /* it may go on alone */
	}
	if (smd_mpi_nested_found(&nested, launcher)) {
		tell_nested(launcher, rank ? rank : "?", size ? size : "?");
		code = code > 0 ? code : EXIT_FAILURE;
	}
	if (code > 0 && !asked) {
		smd_mpi_scratch_note_failure(code);
		fprintf(stderr, SMD_MPI_PROGRAM ": rank %s of %s failed with exit code %d\n",
			rank ? rank : "?", size ? size : "?", code);
	}
	return code;
}
