/* Forks and executes, with nothing inherited by accident. */
#include "orchestrator/engine/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CANNOT_EXECUTE 126

enum { READ_END, WRITE_END };

/* What the child's descriptors become, in the order of their numbers. */
enum { CHILD_STDIN, CHILD_STDOUT, CHILD_STDERR, CHILD_NOTIFY, CHILD_FDS };

_Static_assert(CHILD_NOTIFY == SMD_ENGINE_NOTIFY_FD, "the number that replicas are told");

/* The sources are moved above the targets first, so that no dup2 overwrites one still needed. */
static int place_descriptors(int fds[CHILD_FDS])
{
	for (int i = 0; i < CHILD_FDS; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, CHILD_FDS);
		if (fds[i] < 0) {
			return -errno;
		}
	}
	for (int i = 0; i < CHILD_FDS; i++) {
		if (dup2(fds[i], i) < 0) {
			return -errno;
		}
	}
	return close_range(CHILD_FDS, ~0U, 0) ? -errno : 0;
}

static void become_program(const struct smd_spawn *spawn, pid_t parent, int fds[CHILD_FDS])
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || place_descriptors(fds)) {
		_exit(CANNOT_EXECUTE);
	}
	setsid();
	setrlimit(RLIMIT_NOFILE, &spawn->open_files);
	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(spawn->program, spawn->argv, spawn->envp);
	_exit(CANNOT_EXECUTE);
}

/* Signals are blocked around fork: until the child has given up this process's handlers, one of
 * them would report the child's signal as this process's own. */
static pid_t fork_program(const struct smd_spawn *spawn, int fds[CHILD_FDS])
{
	pid_t parent = getpid();
	sigset_t all, before;
	pid_t pid;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0) {
		become_program(spawn, parent, fds);
	}
	err = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -err : pid;
}

static void close_pair(int pair[2])
{
	close(pair[READ_END]);
	close(pair[WRITE_END]);
}

static int open_pipe(int pair[2])
{
	if (pipe2(pair, O_CLOEXEC)) {
		return -errno;
	}
	/* The flag belongs to the reading end alone: programs expect blocking writes. */
	if (fcntl(pair[READ_END], F_SETFL, O_NONBLOCK)) {
		int err = errno;

		close_pair(pair);
		return -err;
	}
	return 0;
}

static int open_pipes(int pipes[CHILD_FDS][2])
{
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		int ret = open_pipe(pipes[i]);

		if (ret) {
			while (--i >= CHILD_STDOUT) {
				close_pair(pipes[i]);
			}
			return ret;
		}
	}
	return 0;
}

int smd_spawn(const struct smd_spawn *spawn, struct smd_process *out)
{
	int pipes[CHILD_FDS][2];
	int fds[CHILD_FDS];
	int ret;
	pid_t pid;

	fds[CHILD_STDIN] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fds[CHILD_STDIN] < 0) {
		return -errno;
	}
	ret = open_pipes(pipes);
	if (ret) {
		goto close_stdin;
	}
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		fds[i] = pipes[i][WRITE_END];
	}
	pid = fork_program(spawn, fds);
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		close(pipes[i][WRITE_END]);
	}
	if (pid < 0) {
		ret = (int)pid;
		goto close_pipes;
	}
	*out = (struct smd_process){.pid = pid,
		.stdout_fd = pipes[CHILD_STDOUT][READ_END],
		.stderr_fd = pipes[CHILD_STDERR][READ_END],
		.notify_fd = pipes[CHILD_NOTIFY][READ_END]};
	goto close_stdin;
close_pipes:
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		close(pipes[i][READ_END]);
	}
close_stdin:
	close(fds[CHILD_STDIN]);
	return ret;
}
