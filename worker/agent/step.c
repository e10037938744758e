/* Runs srun, and stands between it and the agent. */
#include "worker/agent/step.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/exit_record.h"

#define NOTIFY_FD 3
#define PATH_SIZE 4096

struct step {
	const char *prefix;
	pid_t srun;
	int notify_fd; /* what the container writes to */
	int signal_fd;
	int status; /* of srun; -1: it has not ended */
};

static int path_of(const struct step *step, const char *suffix, char path[PATH_SIZE])
{
	return snprintf(path, PATH_SIZE, "%s.%s", step->prefix, suffix) < PATH_SIZE ? 0
										    : -ENAMETOOLONG;
}

/* Open for writing too, so that it never ends and a container's opening never waits. */
static int open_notify(struct step *step)
{
	char path[PATH_SIZE];

	if (path_of(step, "notify", path) || mkfifo(path, 0600)) {
		return -1;
	}
	step->notify_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	return step->notify_fd < 0 ? -1 : 0;
}

static void hand_on_notices(const struct step *step)
{
	char bytes[4096];
	ssize_t count;

	while ((count = read(step->notify_fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < count;) {
			ssize_t written = write(NOTIFY_FD, bytes + at, (size_t)(count - at));

			if (written < 0 && errno != EINTR) {
				return; /* nobody listens any more */
			}
			at += written > 0 ? written : 0;
		}
	}
}

/* The first process of the container, which is in this process's namespace; 0: it has not begun. */
static pid_t container_of(const struct step *step)
{
	char path[PATH_SIZE];
	FILE *file = path_of(step, "pid", path) ? NULL : fopen(path, "re");
	int pid = 0;

	if (file) {
		if (fscanf(file, "%d", &pid) != 1 || pid < 2) {
			pid = 0;
		}
		fclose(file);
	}
	return pid;
}

/* SIGTERM makes srun kill its step at once, which is right only for one that has not begun. */
static void ask_to_end(const struct step *step, int signo)
{
	pid_t container = container_of(step);

	if (container == 0) {
		kill(step->srun, SIGTERM);
		return;
	}
	kill(-container, signo);
	kill(-container, SIGCONT);
}

static void take_signals(struct step *step)
{
	struct signalfd_siginfo info;

	while (read(step->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD) {
			ask_to_end(step, (int)info.ssi_signo);
		} else if (waitpid(step->srun, &step->status, WNOHANG) != step->srun) {
			step->status = -1;
		}
	}
}

/* A session of its own: the keeper's signals to its process group are for this process alone. */
static void become_srun(char *const *argv)
{
	sigset_t none;

	setsid();
	close(NOTIFY_FD);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	fprintf(stderr, "summand-agent: %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE);
}

static int start(struct step *step, char *const *argv)
{
	sigset_t watched;

	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigprocmask(SIG_BLOCK, &watched, NULL);
	step->signal_fd = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
	if (step->signal_fd < 0 || open_notify(step)) {
		return -1;
	}
	step->srun = fork();
	if (step->srun == 0) {
		become_srun(argv);
	}
	return step->srun < 0 ? -1 : 0;
}

/* srun ends with 128 + N when signal N has ended the container, as a shell does. */
int smd_step_run(const char *prefix, char *const *argv)
{
	struct step step = {.prefix = prefix, .notify_fd = -1, .signal_fd = -1, .status = -1};

	if (start(&step, argv)) {
		fprintf(stderr, "summand-agent: %s: %s\n", prefix, strerror(errno));
		return SMD_EXIT_NOT_EXECUTABLE;
	}
	while (step.status == -1) {
		struct pollfd ready[] = {{.fd = step.signal_fd, .events = POLLIN},
			{.fd = step.notify_fd, .events = POLLIN}};

		poll(ready, 2, -1);
		hand_on_notices(&step);
		take_signals(&step);
	}
	hand_on_notices(&step);
	return WIFEXITED(step.status) ? WEXITSTATUS(step.status)
				      : SMD_EXIT_SIGNALLED + WTERMSIG(step.status);
}
