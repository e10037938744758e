/* Keeps the process that tells a webhook. */
#include "orchestrator/service/sender.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "orchestrator/service/spawn.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define PAUSE_S 5

void smd_sender_reap(struct smd_sender *sender)
{
	int status;

	if (sender->pid && waitpid(sender->pid, &status, WNOHANG) == sender->pid) {
		smd_log(SMD_LOG_WARN, "webhook", "its sender has ended, and is started again");
		sender->pid = 0;
		sender->ended_ns = smd_clock_ns();
	}
}

void smd_sender_keep(struct smd_sender *sender)
{
	pid_t pid;

	if (!sender->words || sender->pid ||
		(sender->ended_ns &&
			smd_clock_ns() - sender->ended_ns < PAUSE_S * SMD_SECOND_NS)) {
		return;
	}
	pid = smd_spawn_sender(sender->words);
	if (pid < 0) {
		smd_log(SMD_LOG_WARN, "webhook", "its sender: %s", strerror((int)-pid));
		sender->ended_ns = smd_clock_ns();
		return;
	}
	sender->pid = pid;
}

void smd_sender_end(struct smd_sender *sender)
{
	if (sender->pid) {
		kill(sender->pid, SIGTERM);
		waitpid(sender->pid, NULL, 0);
		sender->pid = 0;
	}
}
