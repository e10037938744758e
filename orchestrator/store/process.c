/* Marks processes, and signals them by their mark. */
#include "orchestrator/store/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START_FIELD 20 /* the 22nd of /proc/PID/stat: so many blanks after the name's end */

/* The name, which is in parentheses, may have blanks and parentheses in it. */
static int read_start(int64_t pid, int64_t *start)
{
	char path[48];
	char text[1024];
	const char *at;
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	file = fopen(path, "re");
	if (!file) {
		return -ESRCH;
	}
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	at = strrchr(text, ')');
	for (int i = 0; at && i < START_FIELD; i++) {
		at = strchr(at + 1, ' ');
	}
	return at && sscanf(at, " %" SCNd64, start) == 1 ? 0 : -ESRCH;
}

static int mark_of(int64_t pid, struct smd_process_mark *mark)
{
	int ret = smd_boot_id(mark->boot);

	mark->pid = pid;
	return ret ? ret : read_start(pid, &mark->start);
}

int smd_process_mark_own(struct smd_process_mark *mark)
{
	return mark_of(getpid(), mark);
}

/* The descriptor holds the process: if its mark is right after that, no other is signalled. */
int smd_process_signal(const struct smd_process_mark *mark, int signo)
{
	struct smd_process_mark now;
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)mark->pid, 0);
	int ret;

	if (fd < 0) {
		return errno == EINVAL ? -ESRCH : -errno;
	}
	ret = mark_of(mark->pid, &now);
	if (!ret && (now.start != mark->start || strcmp(now.boot, mark->boot) != 0)) {
		ret = -ESRCH;
	}
	if (!ret && syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0)) {
		ret = -errno;
	}
	close(fd);
	return ret;
}
