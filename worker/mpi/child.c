/* Starts, signals and reaps a command. */
#include "worker/mpi/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker/agent/descendants.h"

#define END_STEPS      200 /* of 10 ms: mpirun and its daemons take some to clean up */
#define END_STEP_NS    10000000
#define EXIT_SIGNALLED 128

static void taken_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

int smd_mpi_signals_open(void)
{
	sigset_t set;
	int fd;

	taken_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int smd_mpi_signals_take(int fd)
{
	struct signalfd_siginfo taken;

	return read(fd, &taken, sizeof(taken)) == (ssize_t)sizeof(taken) ? (int)taken.ssi_signo : 0;
}

static void become(char *const *argv, const int fds[3], pid_t parent, int failure_fd)
{
	sigset_t none;
	int err;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(EXIT_FAILURE);
	}
	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0 && dup2(fds[i], i) < 0) {
			_exit(EXIT_FAILURE);
		}
	}
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	err = errno;
	if (write(failure_fd, &err, sizeof(err)) < 0) {
		_exit(EXIT_FAILURE);
	}
	_exit(EXIT_FAILURE);
}

int smd_mpi_child_start(struct smd_mpi_child *out, char *const *argv, const int fds[3])
{
	pid_t self = getpid();
	int failure[2];
	int err = 0;

	*out = (struct smd_mpi_child){.pid = -1};
	if (pipe2(failure, O_CLOEXEC)) {
		return -errno;
	}
	out->pid = fork();
	if (out->pid == 0) {
		become(argv, fds, self, failure[1]);
	}
	err = out->pid < 0 ? errno : 0;
	close(failure[1]);
	if (out->pid > 0) {
		setpgid(out->pid, out->pid); /* whoever comes first */
		if (read(failure[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
			waitpid(out->pid, NULL, 0);
			out->has_ended = 1;
		}
	}
	close(failure[0]);
	return -err;
}

void smd_mpi_child_reap(struct smd_mpi_child *child)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == child->pid && !child->has_ended) {
			child->has_ended = 1;
			child->exit_code = WIFSIGNALED(status) ? EXIT_SIGNALLED + WTERMSIG(status)
							       : WEXITSTATUS(status);
		}
	}
}

void smd_mpi_child_signal(const struct smd_mpi_child *child, int signo)
{
	if (child->pid > 0 && !child->has_ended) {
		kill(-child->pid, signo);
	}
}

void smd_mpi_child_end(struct smd_mpi_child *child)
{
	const struct timespec step = {.tv_nsec = END_STEP_NS};

	smd_mpi_child_signal(child, SIGTERM);
	for (int i = 0; i < END_STEPS && child->pid > 0 && !child->has_ended; i++) {
		nanosleep(&step, NULL);
		smd_mpi_child_reap(child);
	}
	smd_descendants_kill();
}
