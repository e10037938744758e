/* Forks the runner, forwards signals to it, and ends what a killed runner leaves. */
#include "orchestrator/runner/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "orchestrator/runner/record.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"
#include "worker/agent/descendants.h"

#define PASS_NS          100000000 /* between two passes over what is left */
#define AGENTS_MAX_S     65 /* for agents to end their trees, removal of containers included, */
			    /* after the grace period */
#define EXIT_INTERRUPTED 130
#define EXIT_TERMINATED  143
#define MESSAGE_SIZE     128

struct guard {
	sigset_t signals; /* to wait for */
	pid_t runner;
	int ended;
	int status;    /* of the runner, once it has ended */
	int forwarded; /* the last signal that was forwarded; 0: none */
};

/* SIGHUP stays ignored if the caller ignores it, as nohup does. */
static void watched_signals(sigset_t *set)
{
	struct sigaction hangup;

	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaction(SIGHUP, NULL, &hangup);
	if (hangup.sa_handler != SIG_IGN) {
		sigaddset(set, SIGHUP);
	}
}

/*
 * The runner has a process group of its own, so a terminal's signals arrive once, from the guard.
 * Signals have their default actions: until the runner sets its own, they end it, and the guard
 * cleans up.
 */
static void become_runner(pid_t guard)
{
	sigset_t none;

	setpgid(0, 0);
	signal(SIGTTOU, SIG_IGN); /* it shows its progress from the background */
	signal(SIGPIPE, SIG_IGN); /* whoever reads that may go away: the job goes on */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SMD_GUARD_DEATH_SIGNAL);
	if (getppid() != guard) {
		raise(SMD_GUARD_DEATH_SIGNAL);
	}
}

/* Continues a stopped runner: nobody would supervise its job. */
static void guard_reap(struct guard *guard)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (WIFSTOPPED(status)) {
			kill(pid, SIGCONT);
		} else if (pid == guard->runner) {
			guard->ended = 1;
			guard->status = status;
		}
	}
}

/* Forwards to the whole group, so that what the runner waits for, such as pip, ends too. */
static void guard_wait(struct guard *guard)
{
	while (!guard->ended) {
		int signo = sigwaitinfo(&guard->signals, NULL);

		if (signo == SIGCHLD) {
			guard_reap(guard);
		} else if (signo > 0) {
			guard->forwarded = signo;
			kill(-guard->runner, signo);
		}
	}
}

/* Ends what the runner and its agents have left: the kernel has made it children of the guard. */
static void guard_end_orphans(struct guard *guard, unsigned grace_s)
{
	const struct timespec pass = {.tv_nsec = PASS_NS};
	uint64_t deadline = smd_clock_ns() + (uint64_t)(grace_s + AGENTS_MAX_S) * SMD_SECOND_NS;

	for (;;) {
		pid_t pid;
		int patient = smd_clock_ns() < deadline;

		do {
			pid = waitpid(-1, NULL, WNOHANG);
		} while (pid > 0);
		if (pid < 0) {
			return;
		}
		if (smd_children_kill(patient ? smd_child_is_agent : NULL, NULL) == 0 && !patient) {
			return; /* this process may not kill what is left */
		}
		sigtimedwait(&guard->signals, NULL, &pass);
	}
}

/* The exit code for a runner that was killed by a signal: by one of the user's before the runner
 * handled signals, or by one that should not have come. */
static int tell_death(
	const struct guard *guard, const struct smd_jobdir *dir, struct smd_entry *entry)
{
	int signo = WTERMSIG(guard->status);
	char message[MESSAGE_SIZE];

	if (signo == guard->forwarded) {
		smd_record_amend(dir, entry, SMD_OUTCOME_CANCELLED, "The job was cancelled.");
		return signo == SIGINT ? EXIT_INTERRUPTED : EXIT_TERMINATED;
	}
	snprintf(message, sizeof(message), "the job's runner was killed by signal %d (%s)", signo,
		strsignal(signo));
	smd_print_line(stderr, "summand: %s; nothing of the job is left\n", message);
	smd_record_amend(dir, entry, SMD_OUTCOME_FAILED, message);
	return EXIT_FAILURE;
}

int smd_guard_open(const struct smd_jobdir *dir, struct smd_entry *entry, unsigned grace_s,
	pid_t *guard_id, int *exit_code)
{
	struct guard guard = {.ended = 0};

	*guard_id = getpid();
	watched_signals(&guard.signals);
	/* They stay blocked for good: after the job the guard only returns. */
	sigprocmask(SIG_BLOCK, &guard.signals, NULL);
	signal(SIGCHLD, SIG_DFL); /* if it is ignored, the kernel keeps no exit status */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	fflush(NULL);
	guard.runner = fork();
	if (guard.runner < 0) {
		return -errno;
	}
	if (guard.runner == 0) {
		become_runner(*guard_id);
		return 0;
	}
	setpgid(guard.runner, guard.runner);
	guard_wait(&guard);
	guard_end_orphans(&guard, grace_s);
	*exit_code = WIFEXITED(guard.status) ? WEXITSTATUS(guard.status)
					     : tell_death(&guard, dir, entry);
	return -ECHILD;
}
