/* summand-agent: runs one command as a replica, and leaves nothing of it behind. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/options.h"
#include "worker/agent/cleanup.h"
#include "worker/agent/descendants.h"
#include "worker/agent/exit_record.h"
#include "worker/agent/oom.h"

#define EXIT_USAGE      2
#define GRACE_DEFAULT_S 30
#define CLEANUP_MAX_S   60

struct agent {
	const char *exit_record; /* NULL: none is written */
	const char *cleanup;     /* a shell's command; NULL or "": none */
	int grace_s;
	long oom_kills; /* of the kernel, when the command was started */
	pid_t command;
	int ended;            /* the command has been reaped; `end` says how */
	uint64_t deadline_ns; /* when the tree is killed; 0: not asked to end */
	struct smd_exit end;
};

/* Signals the agent waits for. They stay blocked and are taken one at a time. */
static void watched_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

/* Between fork and exec: a new session, and signals as a program expects them. */
static void become_command(char **argv, pid_t agent, int failure_fd)
{
	sigset_t none;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != agent) {
		_exit(EXIT_FAILURE); /* the agent died before it could be watched */
	}
	setsid();
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

static void agent_set_failure(struct agent *agent, int err)
{
	agent->ended = 1;
	smd_timestamp(agent->end.end_time);
	agent->end.kind = SMD_EXIT_ERRNO;
	agent->end.value = err;
}

/* Starts the command. The pipe closes when exec succeeds, and carries errno when it does not. */
static void agent_start(struct agent *agent, char **argv)
{
	pid_t self = getpid();
	int failure[2];
	int err;

	smd_timestamp(agent->end.start_time);
	if (pipe2(failure, O_CLOEXEC)) {
		agent_set_failure(agent, errno);
		return;
	}
	agent->command = fork();
	if (agent->command == 0) {
		become_command(argv, self, failure[1]);
	}
	err = errno;
	close(failure[1]);
	if (agent->command < 0) {
		agent_set_failure(agent, err);
	} else if (read(failure[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
		waitpid(agent->command, NULL, 0);
		agent_set_failure(agent, err);
	}
	close(failure[0]);
}

static void agent_record_end(struct agent *agent, int status)
{
	agent->ended = 1;
	smd_timestamp(agent->end.end_time);
	if (WIFSIGNALED(status)) {
		agent->end.kind = SMD_EXIT_SIGNAL;
		agent->end.value = WTERMSIG(status);
		agent->end.core_dumped = WCOREDUMP(status);
		agent->end.oom_killed = WTERMSIG(status) == SIGKILL && !agent->deadline_ns &&
					smd_oom_kills() > agent->oom_kills;
	} else {
		agent->end.kind = SMD_EXIT_CODE;
		agent->end.value = WEXITSTATUS(status);
	}
}

/* Reaps the command and every orphan that came to the agent. */
static void agent_reap(struct agent *agent)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == agent->command) {
			agent_record_end(agent, status);
		}
	}
}

static void agent_take_signal(struct agent *agent, int signo)
{
	uint64_t now = smd_clock_ns();

	switch (signo) {
	case SIGCHLD:
		agent_reap(agent);
		break;
	case SIGHUP:
		agent->deadline_ns = now;
		break;
	default:
		kill(-agent->command, signo);
		kill(-agent->command, SIGCONT); /* a stopped one would not notice */
		if (agent->deadline_ns == 0) {
			agent->deadline_ns = now + (uint64_t)agent->grace_s * SMD_SECOND_NS;
		}
	}
}

/* Waits until the command has ended or its time is up. */
static void agent_wait(struct agent *agent, const sigset_t *signals)
{
	while (!agent->ended) {
		struct timespec left = {.tv_sec = 3600};
		int signo;

		if (agent->deadline_ns) {
			uint64_t now = smd_clock_ns();

			if (now >= agent->deadline_ns) {
				return;
			}
			left.tv_sec = (time_t)((agent->deadline_ns - now) / SMD_SECOND_NS);
			left.tv_nsec = (long)((agent->deadline_ns - now) % SMD_SECOND_NS);
		}
		signo = sigtimedwait(signals, NULL, &left);
		if (signo > 0) {
			agent_take_signal(agent, signo);
		}
	}
}

/* Kills what is left; the command first and separately, so that its status is not lost. */
static void agent_finish(struct agent *agent)
{
	int status;

	if (!agent->ended) {
		kill(-agent->command, SIGKILL);
		while (waitpid(agent->command, &status, 0) < 0 && errno == EINTR) {
		}
		agent_record_end(agent, status);
	}
	smd_descendants_kill();
	smd_clean_up(agent->cleanup);
	smd_descendants_kill();
}

static int agent_exit_code(const struct agent *agent)
{
	switch (agent->end.kind) {
	case SMD_EXIT_CODE:
		return agent->end.value;
	case SMD_EXIT_SIGNAL:
		return SMD_EXIT_SIGNALLED + agent->end.value;
	case SMD_EXIT_ERRNO:
		break;
	}
	return agent->end.value == ENOENT ? SMD_EXIT_NOT_FOUND : SMD_EXIT_NOT_EXECUTABLE;
}

static int agent_run(struct agent *agent, char **argv)
{
	sigset_t signals;
	int ret;

	/* Undo what the caller has blocked or ignored. */
	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	watched_signals(&signals);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Replaces the SIGKILL that the runner sets before it executes the agent. */
	prctl(PR_SET_PDEATHSIG, SIGHUP);
	agent->oom_kills = smd_oom_kills();
	agent_start(agent, argv);
	agent_wait(agent, &signals);
	agent_finish(agent);
	if (agent->end.kind == SMD_EXIT_ERRNO) {
		fprintf(stderr, "summand-agent: %s: %s\n", argv[0], strerror(agent->end.value));
	}
	if (agent->exit_record) {
		ret = smd_exit_record_write(agent->exit_record, &agent->end);
		if (ret) {
			fprintf(stderr, "summand-agent: %s: cannot be written: %s\n",
				agent->exit_record, strerror(-ret));
		}
	}
	return agent_exit_code(agent);
}

/* The index of the command: the words after "--", which the parser of options does not see. */
static int find_command(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			return i + 1;
		}
	}
	return argc;
}

int main(int argc, char **argv)
{
	struct agent agent = {.grace_s = GRACE_DEFAULT_S};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("The end of the command"),
		{"exit-record", "FILE", "write to FILE how the command ended, as JSON",
			smd_option_set_string, &agent.exit_record},
		{"cleanup", "COMMAND", "run this shell command when nothing else is left",
			smd_option_set_string, &agent.cleanup},
		{"grace", "SECONDS", "the time from SIGTERM to SIGKILL (default 30)",
			smd_option_set_int, &agent.grace_s},
	};
	const struct smd_command command = {
		.synopsis = "summand-agent [OPTION...] -- COMMAND [ARG...]",
		.summary = "Runs one command as a replica, and leaves nothing of it behind.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = "Exit codes: the command's; 2 the agent's command line is wrong, 126 the "
			 "command could not be executed, 127 it was not found, 128 + N signal N "
			 "ended it.",
	};
	struct smd_error error = {{0}};
	int start = find_command(argc, argv);
	int noperands = 0;
	int ret;

	ret = smd_options_parse(
		&command, start < argc ? start - 1 : argc, argv, &noperands, &error);
	if (ret == -ENOEXEC) {
		return EXIT_SUCCESS;
	}
	if (ret == 0 && (noperands > 0 || start >= argc)) {
		ret = smd_error_set(&error, EINVAL,
			"summand-agent: a command must follow --, got %s",
			noperands > 0 ? argv[1] : "none");
	}
	if (ret) {
		fprintf(stderr, "%s\n", error.text);
		return EXIT_USAGE;
	}
	return agent_run(&agent, argv + start);
}
