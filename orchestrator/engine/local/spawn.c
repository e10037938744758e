/* Starts a program in a child process that inherits nothing by accident. */
#include "orchestrator/engine/local/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT_EXECUTE 126
#define STACK_SIZE     65536 /* of a child, until it is the program */

/* What a child shares with its parent until it executes the program. The thread sanitizer keeps its
 * state in the process's memory, so that must be a copy then; only the stack is shared. */
#ifdef __SANITIZE_THREAD__
#define SHARED CLONE_VFORK
#else
#define SHARED (CLONE_VM | CLONE_VFORK | CLONE_FILES)
#endif

enum { READ_END, WRITE_END };

/* What the child's descriptors become, in the order of their numbers. */
enum { CHILD_STDIN, CHILD_STDOUT, CHILD_STDERR, CHILD_NOTIFY, CHILD_FDS };

_Static_assert(CHILD_NOTIFY == SMD_ENGINE_NOTIFY_FD, "the number that replicas are told");

_Static_assert(CHILD_FDS == SMD_DESCRIPTOR_SET_SIZE, "one for each of a child's descriptors");

/* What the child is given and what it answers; it lies below the child's stack, which both
 * processes see. */
struct child_arguments {
	const struct smd_spawn *spawn;
	pid_t parent;
	int error; /* why there is no program; 0: there is */
};

static int highest(const struct smd_descriptor_set *set)
{
	int max = 0;

	for (int i = 0; i < SMD_DESCRIPTOR_SET_SIZE; i++) {
		max = set->fds[i] > max ? set->fds[i] : max;
	}
	return max;
}

/* Makes the set's descriptors the child's 0 to 3. The child shares the parent's descriptor table
 * until close_range() copies it: only the part up to the set, so the cost does not grow with the
 * number of open descriptors. */
static int take_descriptors(const struct smd_descriptor_set *set)
{
	if (close_range((unsigned)highest(set) + 1, ~0U, CLOSE_RANGE_UNSHARE)) {
		return -errno;
	}
	for (int i = 0; i < CHILD_FDS; i++) {
		if (dup2(set->fds[i], i) < 0) {
			return -errno;
		}
	}
	return close_range(CHILD_FDS, ~0U, 0) ? -errno : 0;
}

static int become_program(void *arg)
{
	struct child_arguments *arguments = arg;
	const struct smd_spawn *spawn = arguments->spawn;
	int ret;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = getppid() == arguments->parent ? take_descriptors(spawn->descriptors) : -ESRCH;
	if (!ret && spawn->directory && chdir(spawn->directory)) {
		ret = -errno;
	}
	if (!ret) {
		setsid();
		setrlimit(RLIMIT_NOFILE, &spawn->open_files);
		execve(spawn->program, spawn->argv, spawn->envp);
		ret = -errno;
	}
	arguments->error = ret;
	_exit(CANNOT_EXECUTE);
}

/*
 * As vfork() does: the child runs in this process's memory and this thread waits until the child
 * has executed the program; copying the memory would cost more than everything else. Signals stay
 * blocked in the child: a handler of this process would run in the shared memory, and resetting
 * the handlers would write to it.
 */
static pid_t make_child(const struct smd_spawn *spawn)
{
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	struct child_arguments *arguments = (struct child_arguments *)stack;
	sigset_t all, before;
	pid_t pid;

	if (stack == MAP_FAILED) {
		return -errno;
	}
	*arguments = (struct child_arguments){.spawn = spawn, .parent = getpid()};
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = clone(become_program, stack + STACK_SIZE, SHARED | SIGCHLD, arguments);
	pid = pid < 0 ? -errno : pid;
	if (pid > 0 && arguments->error) {
		waitpid(pid, NULL, 0);
		pid = arguments->error;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_SIZE);
	return pid;
}

int smd_descriptor_set_open(struct smd_descriptor_set *set)
{
	int empty = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (empty < 0) {
		return -errno;
	}
	for (int i = 0; i < SMD_DESCRIPTOR_SET_SIZE; i++) {
		set->fds[i] = fcntl(empty, F_DUPFD_CLOEXEC, CHILD_FDS);
		if (set->fds[i] < 0) {
			int err = errno;

			while (--i >= 0) {
				close(set->fds[i]);
			}
			close(empty);
			return -err;
		}
	}
	set->empty = empty;
	return 0;
}

void smd_descriptor_set_close(struct smd_descriptor_set *set)
{
	for (int i = 0; i < SMD_DESCRIPTOR_SET_SIZE; i++) {
		close(set->fds[i]);
	}
	close(set->empty);
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

static pid_t start_program(const struct smd_spawn *spawn, const int fds[CHILD_FDS])
{
	pid_t pid = fill_set(spawn->descriptors, fds);

	pid = pid ? pid : make_child(spawn);
	fill_set(spawn->descriptors, NULL);
	return pid;
}

static void close_pair(int pair[2])
{
	close(pair[READ_END]);
	close(pair[WRITE_END]);
}

static int open_pipe(int pair[2])
{
	if (pipe2(pair, O_CLOEXEC)) {
		return -errno;
	}
	/* The flag belongs to the reading end alone: programs expect blocking writes. */
	if (fcntl(pair[READ_END], F_SETFL, O_NONBLOCK)) {
		int err = errno;

		close_pair(pair);
		return -err;
	}
	return 0;
}

static int open_pipes(int pipes[CHILD_FDS][2])
{
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		int ret = open_pipe(pipes[i]);

		if (ret) {
			while (--i >= CHILD_STDOUT) {
				close_pair(pipes[i]);
			}
			return ret;
		}
	}
	return 0;
}

int smd_spawn(const struct smd_spawn *spawn, struct smd_process *out)
{
	int pipes[CHILD_FDS][2];
	int fds[CHILD_FDS];
	int ret;
	pid_t pid;

	ret = open_pipes(pipes);
	if (ret) {
		return ret;
	}
	fds[CHILD_STDIN] = spawn->descriptors->empty;
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		fds[i] = pipes[i][WRITE_END];
	}
	pid = start_program(spawn, fds);
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		close(pipes[i][WRITE_END]);
	}
	if (pid < 0) {
		ret = (int)pid;
		goto close_pipes;
	}
	*out = (struct smd_process){.pid = pid,
		.stdout_fd = pipes[CHILD_STDOUT][READ_END],
		.stderr_fd = pipes[CHILD_STDERR][READ_END],
		.notify_fd = pipes[CHILD_NOTIFY][READ_END]};
	return 0;
close_pipes:
	for (int i = CHILD_STDOUT; i < CHILD_FDS; i++) {
		close(pipes[i][READ_END]);
	}
	return ret;
}
