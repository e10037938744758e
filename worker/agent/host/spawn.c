/* Makes child processes that inherit nothing by accident. */
#include "worker/agent/host/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/agent/wire/launch.h"

#define PATIENCE_MS 100 /* between two looks whether the child is there */

enum { READ_END, WRITE_END };

/* What the child's descriptors become, in the order of their numbers. */
enum { CHILD_STDIN, CHILD_STDOUT, CHILD_STDERR, CHILD_NOTIFY, CHILD_RECORD, CHILD_FDS };

_Static_assert(CHILD_NOTIFY == SMD_NOTIFY_FD, "the number that replicas are told");
_Static_assert(CHILD_RECORD == SMD_RECORD_FD, "the number that keepers are told");
_Static_assert(CHILD_FDS == SMD_DESCRIPTOR_SET_SIZE, "one for each of a child's descriptors");

static int highest(const struct smd_descriptor_set *set)
{
	int max = set->ready[WRITE_END];

	for (int i = 0; i < SMD_DESCRIPTOR_SET_SIZE; i++) {
		max = set->fds[i] > max ? set->fds[i] : max;
	}
	return max;
}

/* The child shares the parent's descriptor table until close_range() copies it: only the part up to
 * the set, so the cost does not grow with the number of open descriptors. */
static int leave_table(const struct smd_descriptor_set *set)
{
	return close_range((unsigned)highest(set) + 1, ~0U, CLOSE_RANGE_UNSHARE) ? -errno : 0;
}

/* Makes the set's descriptors the child's 0 to 4. */
static int take_descriptors(const struct smd_descriptor_set *set)
{
	for (int i = 0; i < CHILD_FDS; i++) {
		if (dup2(set->fds[i], i) < 0) {
			return -errno;
		}
	}
	return fcntl(CHILD_RECORD, F_SETFD, FD_CLOEXEC) ? -errno : 0;
}

static void say(const struct smd_descriptor_set *set, int result)
{
	if (write(set->ready[WRITE_END], &result, sizeof(result)) != sizeof(result)) {
		_exit(EXIT_FAILURE);
	}
}

/* The parent waits for one word of the child's: until that the set is the child's. */
static void become_child(const struct smd_spawn *spawn, pid_t parent)
{
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = getppid() == parent ? leave_table(spawn->descriptors) : -ESRCH;
	if (!ret && spawn->directory && chdir(spawn->directory)) {
		ret = -errno;
	}
	ret = ret ? ret : take_descriptors(spawn->descriptors);
	say(spawn->descriptors, ret);
	if (ret || close_range(CHILD_FDS, ~0U, 0)) {
		_exit(EXIT_FAILURE);
	}
	setsid();
	setrlimit(RLIMIT_NOFILE, &spawn->open_files);
	environ = spawn->envp;
	_exit(spawn->run(spawn->arg));
}

/* The child's word. One that is killed says nothing. */
static int hear(const struct smd_descriptor_set *set, pid_t pid)
{
	struct pollfd ready = {.fd = set->ready[READ_END], .events = POLLIN};
	int result;

	while (poll(&ready, 1, PATIENCE_MS) != 1) {
		siginfo_t end = {.si_pid = 0};

		if (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
			end.si_pid == pid && poll(&ready, 1, 0) != 1) {
			return -ESRCH;
		}
	}
	return read(ready.fd, &result, sizeof(result)) == sizeof(result) ? result : -EIO;
}

/* As fork(), but the table of descriptors is shared until the child has left it. Signals stay
 * blocked in the child: a handler of this process's has no business there. */
static pid_t make_child(const struct smd_spawn *spawn)
{
	pid_t parent = getpid();
	sigset_t all, before;
	int result = 0;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		become_child(spawn, parent);
	}
	pid = pid < 0 ? -errno : pid;
	if (pid > 0) {
		result = hear(spawn->descriptors, pid);
	}
	if (pid > 0 && result) {
		waitpid(pid, NULL, 0);
		pid = result;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static void close_set(struct smd_descriptor_set *set, int count)
{
	for (int i = 0; i < count; i++) {
		close(set->fds[i]);
	}
	close(set->empty);
	close(set->ready[READ_END]);
	close(set->ready[WRITE_END]);
}

/* Numbers that no child's descriptor has. */
static int open_ready(int ready[2])
{
	int low[2];
	int ret;

	if (pipe2(low, O_CLOEXEC)) {
		return -errno;
	}
	ready[READ_END] = fcntl(low[READ_END], F_DUPFD_CLOEXEC, CHILD_FDS);
	ready[WRITE_END] = fcntl(low[WRITE_END], F_DUPFD_CLOEXEC, CHILD_FDS);
	ret = ready[READ_END] < 0 || ready[WRITE_END] < 0 ? -errno : 0;
	close(low[READ_END]);
	close(low[WRITE_END]);
	return ret;
}

int smd_descriptor_set_open(struct smd_descriptor_set *set)
{
	int empty = open("/dev/null", O_RDWR | O_CLOEXEC);
	int ret;

	if (empty < 0) {
		return -errno;
	}
	set->empty = empty;
	ret = open_ready(set->ready);
	if (ret) {
		close(empty);
		return ret;
	}
	for (int i = 0; i < SMD_DESCRIPTOR_SET_SIZE; i++) {
		set->fds[i] = fcntl(empty, F_DUPFD_CLOEXEC, CHILD_FDS);
		if (set->fds[i] < 0) {
			int err = errno;

			close_set(set, i);
			return -err;
		}
	}
	return 0;
}

void smd_descriptor_set_close(struct smd_descriptor_set *set)
{
	close_set(set, SMD_DESCRIPTOR_SET_SIZE);
}

/* Puts the child's descriptors into the set; NULL puts /dev/null back. */
static int fill_set(const struct smd_descriptor_set *set, const int fds[CHILD_FDS])
{
	for (int i = 0; i < CHILD_FDS; i++) {
		if (dup3(fds ? fds[i] : set->empty, set->fds[i], O_CLOEXEC) < 0) {
			return -errno;
		}
	}
	return 0;
}

static pid_t start_child(const struct smd_spawn *spawn, const int fds[CHILD_FDS])
{
	pid_t pid = fill_set(spawn->descriptors, fds);

	pid = pid ? pid : make_child(spawn);
	fill_set(spawn->descriptors, NULL);
	return pid;
}

/* The ends of all that parent and child have in common; -1: none. */
struct spawn_ends {
	int mine[CHILD_FDS];
	int child[CHILD_FDS];
};

static void close_all(int fds[CHILD_FDS])
{
	for (int i = 0; i < CHILD_FDS; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
		fds[i] = -1;
	}
}

/* 0 or -errno. The flag belongs to this process's end alone: programs expect blocking ones. */
static int open_pipe(struct spawn_ends *ends, int which)
{
	int pair[2];
	int own = which == CHILD_STDIN ? WRITE_END : READ_END;

	if (pipe2(pair, O_CLOEXEC)) {
		return -errno;
	}
	ends->mine[which] = pair[own];
	ends->child[which] = pair[own == READ_END ? WRITE_END : READ_END];
	return fcntl(pair[own], F_SETFL, O_NONBLOCK) ? -errno : 0;
}

#define TERMINAL_PATH_SIZE 64

static int open_terminal(struct spawn_ends *ends, const struct winsize *size)
{
	char path[TERMINAL_PATH_SIZE];
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	ends->mine[CHILD_STDOUT] = fd;
	if (fd < 0 || grantpt(fd) || unlockpt(fd) || ptsname_r(fd, path, sizeof(path)) ||
		ioctl(fd, TIOCSWINSZ, size)) {
		return -errno;
	}
	for (int i = CHILD_STDIN; i <= CHILD_STDERR; i++) {
		ends->child[i] = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (ends->child[i] < 0) {
			return -errno;
		}
	}
	ends->mine[CHILD_STDIN] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return ends->mine[CHILD_STDIN] < 0 ? -errno : 0;
}

static int open_ends(struct spawn_ends *ends, const struct smd_spawn *spawn)
{
	static const int piped[][CHILD_FDS] = {
		[SMD_SPAWN_OUTPUT] = {0, 1, 1, 1, 1},
		[SMD_SPAWN_PIPES] = {1, 1, 1, 0, 1},
		[SMD_SPAWN_TERMINAL] = {0, 0, 0, 0, 1},
	};
	int ret = 0;

	for (int i = 0; i < CHILD_FDS && !ret; i++) {
		ret = piped[spawn->stdio][i] ? open_pipe(ends, i) : 0;
	}
	if (!ret && spawn->stdio == SMD_SPAWN_TERMINAL) {
		ret = open_terminal(ends, &spawn->size);
	}
	return ret;
}

/* The rest is /dev/null. */
static pid_t start_with(const struct smd_spawn *spawn, const struct spawn_ends *ends)
{
	int fds[CHILD_FDS];

	for (int i = 0; i < CHILD_FDS; i++) {
		fds[i] = ends->child[i] >= 0 ? ends->child[i] : spawn->descriptors->empty;
	}
	return start_child(spawn, fds);
}

int smd_spawn(const struct smd_spawn *spawn, struct smd_process *out)
{
	struct spawn_ends ends = {.mine = {-1, -1, -1, -1, -1}, .child = {-1, -1, -1, -1, -1}};
	int ret = open_ends(&ends, spawn);
	pid_t pid = ret ? ret : start_with(spawn, &ends);

	close_all(ends.child);
	if (pid < 0) {
		close_all(ends.mine);
		return (int)pid;
	}
	*out = (struct smd_process){.pid = pid,
		.stdin_fd = ends.mine[CHILD_STDIN],
		.stdout_fd = ends.mine[CHILD_STDOUT],
		.stderr_fd = ends.mine[CHILD_STDERR],
		.notify_fd = ends.mine[CHILD_NOTIFY],
		.record_fd = ends.mine[CHILD_RECORD]};
	return 0;
}
