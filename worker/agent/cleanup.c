/* Runs a shell command that removes what another command has left. */
#include "worker/agent/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/exit_record.h"

#define CLEANUP_MAX_S 60

static void become_shell(const char *command)
{
	static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++) {
		signal(signo, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Slurm sends these to all that runs in a step, and to this in the middle of its work. */
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		signal(ends[i], SIG_IGN);
	}
	alarm(CLEANUP_MAX_S);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(SMD_EXIT_NOT_FOUND);
}

pid_t smd_clean_up_begin(const char *command)
{
	pid_t pid = command && *command ? fork() : 0;

	if (pid == 0 && command && *command) {
		become_shell(command);
	}
	return pid > 0 ? pid : 0;
}

void smd_clean_up(const char *command)
{
	pid_t pid = smd_clean_up_begin(command);

	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
}
