/* Ends the processes below this one, child by child. */
#include "worker/agent/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The parent of `pid` by /proc/PID/stat, or -1. The second field, the name, may hold anything, so
 * the rest is found from the last parenthesis. */
static pid_t parent_of(pid_t pid)
{
	char path[32];
	char text[512];
	const char *rest;
	size_t length;
	FILE *stat;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	stat = fopen(path, "re");
	if (!stat) {
		return -1;
	}
	length = fread(text, 1, sizeof(text) - 1, stat);
	fclose(stat);
	text[length] = '\0';
	rest = strrchr(text, ')');
	return rest && sscanf(rest, ") %*c %d", &parent) == 1 ? parent : -1;
}

size_t smd_children_kill(smd_child_fn *is_spared, void *arg)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t count = 0;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0 && parent_of(pid) == getpid() && !(is_spared && is_spared(pid, arg)) &&
			kill(pid, SIGKILL) == 0) {
			count++;
		}
	}
	if (proc) {
		closedir(proc);
	}
	return count;
}

int smd_child_is_agent(pid_t pid, void *arg)
{
	char path[32];
	char name[32] = "";
	FILE *file;

	(void)arg;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = fopen(path, "re");
	if (file) {
		name[fread(name, 1, sizeof(name) - 1, file)] = '\0';
		fclose(file);
	}
	if (strcmp(name, SMD_AGENT_PROGRAM "\n") != 0) {
		return 0;
	}
	kill(pid, SIGCONT);
	return 1;
}

void smd_descendants_kill(void)
{
	pid_t pid;

	for (;;) {
		/* What has ended by itself is reaped first: in the common case nothing is left. */
		do {
			pid = waitpid(-1, NULL, WNOHANG);
		} while (pid > 0);
		if (pid < 0 || smd_children_kill(NULL, NULL) == 0) {
			return; /* nothing is left, or what is left may not be killed */
		}
		waitpid(-1, NULL, 0);
	}
}
