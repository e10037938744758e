/* Forks a process into a session of its own. */
#include "orchestrator/cli/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Whoever waits for the end of a pipe that the caller has inherited, must not wait for the job. */
static void close_others(const int *kept, int count)
{
	unsigned first = STDERR_FILENO + 1;

	while (first != 0) {
		unsigned next = 0; /* the kept one that comes first */

		for (int i = 0; i < count; i++) {
			if ((unsigned)kept[i] >= first && (next == 0 || (unsigned)kept[i] < next)) {
				next = (unsigned)kept[i];
			}
		}
		if (next != first) {
			close_range(first, next ? next - 1 : ~0u, 0);
		}
		first = next ? next + 1 : 0;
	}
}

static int become_detached(int log, const int *kept, int count)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (setsid() < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
		dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
		return -errno;
	}
	close_others(kept, count);
	return 0;
}

pid_t smd_detach(int log, const int *kept, int count)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		return -errno;
	}
	if (pid == 0 && become_detached(log, kept, count)) {
		_exit(EXIT_FAILURE); /* the job's lock is free then: readers end the job */
	}
	return pid;
}
