/* The filter of system calls: what a reduction server does goes on, anything else ends it and is
 * named. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/sandbox/system_calls.h"

#define WENT_ON     7
#define NOT_LIMITED 77
#define VERBS_IOCTL 0x1b01u
#define CODE_BYTES  4096u

/* ---- what is tried: 0 when it went well ---- */

static int execute(void)
{
	return execl("/bin/true", "true", (char *)NULL);
}

static int trace(void)
{
	return (int)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static int open_packets(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0) < 0;
}

static int open_connection(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static int open_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0) < 0;
}

static int make_code(void)
{
	return mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static int make_file(void)
{
	return open("/tmp", O_RDWR | O_TMPFILE, 0600) < 0;
}

static int truncate_file(void)
{
	return open("/dev/null", O_RDWR | O_TRUNC) < 0;
}

static int open_device(void)
{
	return open("/dev/null", O_RDWR) < 0;
}

static int type_into_terminal(void)
{
	return ioctl(STDIN_FILENO, TIOCSTI, "x") != 0;
}

static int signal_other(void)
{
	return kill(1, 0);
}

static int have_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		_exit(0);
	}
	return child < 0;
}

static int become_root(void)
{
	return setuid(0);
}

static void *do_nothing(void *arg)
{
	return arg;
}

static int start_thread(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, do_nothing, NULL) || pthread_join(thread, NULL);
}

static int read_file(void)
{
	char line[64];
	FILE *file = fopen("/proc/self/status", "r");
	int ret = !file || !fgets(line, sizeof(line), file);

	if (file) {
		fclose(file);
	}
	return ret;
}

static int take_memory(void)
{
	size_t size = 64u << 20;
	char *memory = malloc(size);
	int ret = !memory;

	if (memory) {
		memset(memory, 1, size);
		free(memory);
	}
	return ret;
}

static int draw_number(void)
{
	uint64_t number;

	return getrandom(&number, sizeof(number), 0) != sizeof(number);
}

static int ask_device(void)
{
	return ioctl(-1, VERBS_IOCTL) == 0 || errno != EBADF;
}

/* ---- in a child ---- */

struct end {
	int status;
	char said[512];
};

static void limit_or_leave(bool devices)
{
	struct smd_error error = {""};

	if (smd_system_calls_limit(devices, &error)) {
		fprintf(stderr, "%s\n", error.text);
		_exit(NOT_LIMITED);
	}
}

struct trial {
	int (*act)(void);
	int begin[2]; /* a byte comes when the filter is there */
};

static void *act_later(void *arg)
{
	struct trial *trial = arg;
	char byte;

	if (read(trial->begin[0], &byte, 1) == 1) {
		_exit(trial->act() == 0 ? WENT_ON : 1);
	}
	return NULL;
}

/* In a thread that ran before there was a filter. */
static void act_in_old_thread(int (*act)(void), bool devices)
{
	struct trial trial = {.act = act};
	pthread_t thread;

	if (pipe(trial.begin) != 0 || pthread_create(&thread, NULL, act_later, &trial) != 0) {
		_exit(1);
	}
	limit_or_leave(devices);
	if (write(trial.begin[1], "x", 1) == 1) {
		pthread_join(thread, NULL);
	}
	_exit(1);
}

static struct end attempt(int (*act)(void), bool devices, bool old_thread)
{
	struct end end = {0};
	ssize_t size;
	int said[2];
	pid_t child;

	assert_int_equal(pipe(said), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(said[1], STDERR_FILENO);
		if (old_thread) {
			act_in_old_thread(act, devices);
		}
		limit_or_leave(devices);
		_exit(act() == 0 ? WENT_ON : 1);
	}
	close(said[1]);
	assert_int_equal(waitpid(child, &end.status, 0), child);
	size = read(said[0], end.said, sizeof(end.said) - 1);
	close(said[0]);
	end.said[size > 0 ? size : 0] = '\0';
	if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == NOT_LIMITED) {
		print_message("skipped: system calls are not limited: %s", end.said);
		exit(77);
	}
	return end;
}

static void assert_ended(int (*act)(void), bool devices, bool old_thread, const char *call)
{
	struct end end = attempt(act, devices, old_thread);
	char expected[128];

	snprintf(expected, sizeof(expected), "a reduction server makes no system call %s: ended",
		call);
	if (!WIFSIGNALED(end.status) || WTERMSIG(end.status) != SIGSYS ||
		!strstr(end.said, expected)) {
		fail_msg("%s must end with SIGSYS, got status %#x: %s", call, (unsigned)end.status,
			end.said);
	}
}

static void assert_goes_on(int (*act)(void), bool devices)
{
	struct end end = attempt(act, devices, false);

	if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != WENT_ON) {
		fail_msg("must go on, got status %#x: %s", (unsigned)end.status, end.said);
	}
}

/* ---- tests ---- */

static void forbidden_calls_end_it(void **state)
{
	const struct {
		int (*act)(void);
		const char *call;
	} forbidden[] = {
		{execute, "execve"},
		{trace, "ptrace"},
		{open_packets, "socket"},
		{open_connection, "socket"},
		{make_code, "mmap"},
		{make_file, "openat"},
		{truncate_file, "openat"},
		{type_into_terminal, "ioctl"},
		{signal_other, "kill"},
		{have_child, "clone"},
		{become_root, "setuid"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		assert_ended(forbidden[i].act, false, false, forbidden[i].call);
		assert_ended(forbidden[i].act, true, false, forbidden[i].call);
	}
}

static void threads_that_run_already_are_limited(void **state)
{
	(void)state;
	assert_ended(execute, false, true, "execve");
	assert_ended(open_packets, true, true, "socket");
}

static void needed_calls_go_on(void **state)
{
	int (*const needed[])(void) = {start_thread, read_file, take_memory, draw_number};

	(void)state;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		assert_goes_on(needed[i], false);
		assert_goes_on(needed[i], true);
	}
}

static void devices_are_for_who_has_them(void **state)
{
	(void)state;
	assert_goes_on(open_device, true);
	assert_goes_on(open_netlink, true);
	assert_goes_on(ask_device, true);
	assert_ended(open_device, false, false, "openat");
	assert_ended(open_netlink, false, false, "socket");
	assert_ended(ask_device, false, false, "ioctl");
}

static int end_by_assertion(void)
{
	abort();
}

/* What ends a server otherwise keeps its own signal, so that it is found. */
static void abort_stays_abort(void **state)
{
	struct end end = attempt(end_by_assertion, false, false);

	(void)state;
	assert_true(WIFSIGNALED(end.status));
	assert_int_equal(WTERMSIG(end.status), SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forbidden_calls_end_it),
		cmocka_unit_test(threads_that_run_already_are_limited),
		cmocka_unit_test(needed_calls_go_on),
		cmocka_unit_test(devices_are_for_who_has_them),
		cmocka_unit_test(abort_stays_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
