/* Runs one command as a replica, and leaves nothing of it behind. */
#include "worker/agent/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "worker/agent/cleanup.h"
#include "worker/agent/descendants.h"
#include "worker/agent/exit_record.h"
#include "worker/agent/oom.h"

struct keeper {
	const struct smd_keeper_options *options;
	long oom_kills; /* of the kernel, when the command was started */
	pid_t command;
	int ended;            /* the command has been reaped; `end` says how */
	uint64_t deadline_ns; /* when the tree is killed; 0: not asked to end */
	struct smd_exit end;
};

/* Signals the keeper waits for. They stay blocked and are taken one at a time. */
static void watched_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/* Between fork and exec: a new session, and signals as a program expects them. */
static void become_command(
	const struct keeper *keeper, char *const *argv, pid_t self, int failure_fd)
{
	sigset_t none;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != self) {
		_exit(EXIT_FAILURE); /* the keeper died before it could be watched */
	}
	setsid();
	if (keeper->options->has_terminal) {
		ioctl(STDIN_FILENO, TIOCSCTTY, 0);
	}
	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	err = errno;
	if (write(failure_fd, &err, sizeof(err)) < 0) {
		_exit(EXIT_FAILURE);
	}
	_exit(err == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE);
}

static void keeper_set_failure(struct keeper *keeper, int err)
{
	keeper->ended = 1;
	smd_timestamp(keeper->end.end_time);
	keeper->end.kind = SMD_EXIT_ERRNO;
	keeper->end.value = err;
}

/* Starts the command. The pipe closes when exec succeeds, and carries errno when it does not. */
static void keeper_start(struct keeper *keeper, char *const *argv)
{
	pid_t self = getpid();
	int failure[2];
	int err;

	smd_timestamp(keeper->end.start_time);
	if (pipe2(failure, O_CLOEXEC)) {
		keeper_set_failure(keeper, errno);
		return;
	}
	keeper->command = fork();
	if (keeper->command == 0) {
		become_command(keeper, argv, self, failure[1]);
	}
	err = errno;
	close(failure[1]);
	if (keeper->command < 0) {
		keeper_set_failure(keeper, err);
	} else if (read(failure[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
		waitpid(keeper->command, NULL, 0);
		keeper_set_failure(keeper, err);
	}
	close(failure[0]);
}

static void keeper_record_end(struct keeper *keeper, int status)
{
	keeper->ended = 1;
	smd_timestamp(keeper->end.end_time);
	if (WIFSIGNALED(status)) {
		keeper->end.kind = SMD_EXIT_SIGNAL;
		keeper->end.value = WTERMSIG(status);
		keeper->end.core_dumped = WCOREDUMP(status);
		keeper->end.oom_killed = WTERMSIG(status) == SIGKILL && !keeper->deadline_ns &&
					smd_oom_kills() > keeper->oom_kills;
	} else {
		keeper->end.kind = SMD_EXIT_CODE;
		keeper->end.value = WEXITSTATUS(status);
	}
}

/* Reaps the command and every orphan that came to the keeper. */
static void keeper_reap(struct keeper *keeper)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == keeper->command) {
			keeper_record_end(keeper, status);
		}
	}
}

static void keeper_take_signal(struct keeper *keeper, int signo)
{
	uint64_t now = smd_clock_ns();

	switch (signo) {
	case SIGCHLD:
		keeper_reap(keeper);
		break;
	case SIGHUP:
		keeper->deadline_ns = now + (uint64_t)keeper->options->linger_s * SMD_SECOND_NS;
		break;
	default:
		kill(-keeper->command, signo);
		kill(-keeper->command, SIGCONT); /* a stopped one would not notice */
		if (keeper->deadline_ns == 0) {
			keeper->deadline_ns = now + (uint64_t)keeper->options->grace_s * SMD_SECOND_NS;
		}
	}
}

/* Waits until the command has ended or its time is up. */
static void keeper_wait(struct keeper *keeper, const sigset_t *signals)
{
	while (!keeper->ended) {
		struct timespec left = {.tv_sec = 3600};
		int signo;

		if (keeper->deadline_ns) {
			uint64_t now = smd_clock_ns();

			if (now >= keeper->deadline_ns) {
				return;
			}
			left.tv_sec = (time_t)((keeper->deadline_ns - now) / SMD_SECOND_NS);
			left.tv_nsec = (long)((keeper->deadline_ns - now) % SMD_SECOND_NS);
		}
		signo = sigtimedwait(signals, NULL, &left);
		if (signo > 0) {
			keeper_take_signal(keeper, signo);
		}
	}
}

/* Kills what is left; the command first and separately, so that its status is not lost. */
static void keeper_finish(struct keeper *keeper)
{
	int status;

	if (!keeper->ended) {
		kill(-keeper->command, SIGKILL);
		while (waitpid(keeper->command, &status, 0) < 0 && errno == EINTR) {
		}
		keeper_record_end(keeper, status);
	}
	smd_descendants_kill();
	smd_clean_up(keeper->options->cleanup);
	smd_descendants_kill();
}

static int keeper_exit_code(const struct keeper *keeper)
{
	switch (keeper->end.kind) {
	case SMD_EXIT_CODE:
		return keeper->end.value;
	case SMD_EXIT_SIGNAL:
		return SMD_EXIT_SIGNALLED + keeper->end.value;
	case SMD_EXIT_ERRNO:
		break;
	}
	return keeper->end.value == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE;
}

/* In a host's agent the standard error is the replica's: whoever reads its log sees why. */
static void keeper_tell_end(const struct keeper *keeper, char *const *argv)
{
	const struct smd_keeper_options *options = keeper->options;
	int ret = 0;

	if (keeper->end.kind == SMD_EXIT_ERRNO) {
		fprintf(stderr, "summand-agent: %s: %s\n", argv[0], strerror(keeper->end.value));
	}
	if (options->record_fd >= 0) {
		smd_exit_record_send(options->record_fd, &keeper->end);
	}
	if (options->exit_record) {
		ret = smd_exit_record_write(options->exit_record, &keeper->end);
	}
	if (ret) {
		fprintf(stderr, "summand-agent: %s: cannot be written: %s\n", options->exit_record,
			strerror(-ret));
	}
}

int smd_keeper_run(const struct smd_keeper_options *options, char *const *argv)
{
	struct keeper keeper = {.options = options};
	sigset_t signals;

	/* Undo what the caller has blocked or ignored. */
	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	watched_signals(&signals);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Replaces the SIGKILL that a host's agent sets first. */
	prctl(PR_SET_PDEATHSIG, SIGHUP);
	keeper.oom_kills = smd_oom_kills();
	keeper_start(&keeper, argv);
	keeper_wait(&keeper, &signals);
	keeper_finish(&keeper);
	keeper_tell_end(&keeper, argv);
	return keeper_exit_code(&keeper);
}
