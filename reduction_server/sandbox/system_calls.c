/* The system calls that a reduction server makes, as a filter of the kernel's (seccomp). */
#include "reduction_server/sandbox/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* names memory for /proc/PID/maps */
#endif

/* What decides whether a file is made or changed; that of O_TMPFILE without O_DIRECTORY. */
#define OPENING (uint64_t)(O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

#define NUMBERS_MAX  512     /* above all that are in use */
#define TYPE_MASK    0xff00u /* of an ioctl */
#define TYPE_VERBS   (0x1bu << 8)
#define TYPE_FAULTFD (0xaau << 8)

/* ---- what is allowed ---- */

/* Whatever their arguments are. */
static const int always[] = {
	/* what lanes carry */
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(close),
	SCMP_SYS(fcntl),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockname),
	SCMP_SYS(getsockopt),
	SCMP_SYS(listen),
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	/* event loops and clocks */
	SCMP_SYS(clock_getres),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(eventfd2),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(nanosleep),
	SCMP_SYS(pipe2),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(pselect6),
	SCMP_SYS(select),
	SCMP_SYS(time),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	/* memory */
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(mincore),
	SCMP_SYS(mlock),
	SCMP_SYS(mremap),
	SCMP_SYS(munlock),
	SCMP_SYS(munmap),
	/* threads, signals, the end */
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(futex),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(membarrier),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rseq),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_yield),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(sigaltstack),
	/* questions */
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(getcpu),
	SCMP_SYS(getdents64),
	SCMP_SYS(getegid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getrandom),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(getuid),
	SCMP_SYS(lseek),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(pread64),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(stat),
	SCMP_SYS(statx),
	SCMP_SYS(sysinfo),
	SCMP_SYS(uname),
};

/* The libraries of RDMA open devices, and ask the kernel about them, when the first lane comes. */
static const int with_devices[] = {
	SCMP_SYS(mbind),
	SCMP_SYS(userfaultfd),
};

static int allow_each(scmp_filter_ctx filter, const int *calls, size_t n)
{
	int ret = 0;

	for (size_t i = 0; i < n && ret == 0; i++) {
		ret = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	}
	return ret;
}

/* Where one argument, and only the bits of `mask`, must be `value`. */
static int allow_where(
	scmp_filter_ctx filter, int call, unsigned argument, uint64_t mask, uint64_t value)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
		SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
}

/* No memory becomes code, no file is changed, no signal leaves the process, and only threads are
 * started. */
static int allow_by_argument(scmp_filter_ctx filter)
{
	const uint64_t thread = CLONE_VM | CLONE_THREAD;
	const struct {
		int call;
		unsigned argument;
		uint64_t mask;
		uint64_t value;
	} rules[] = {
		{SCMP_SYS(mmap), 2, PROT_EXEC, 0},
		{SCMP_SYS(mprotect), 2, PROT_EXEC, 0},
		{SCMP_SYS(open), 1, OPENING, O_RDONLY},
		{SCMP_SYS(openat), 2, OPENING, O_RDONLY},
		{SCMP_SYS(clone), 0, thread, thread},
		{SCMP_SYS(socket), 0, UINT32_MAX, AF_UNIX}, /* to meet workers of this host */
		{SCMP_SYS(tgkill), 0, UINT32_MAX, (uint64_t)getpid()},
		{SCMP_SYS(prctl), 0, UINT32_MAX, PR_SET_NAME},
		{SCMP_SYS(prctl), 0, UINT32_MAX, PR_SET_VMA},
		{SCMP_SYS(prlimit64), 2, UINT64_MAX, 0},
		{SCMP_SYS(ioctl), 1, UINT32_MAX, TCGETS},
		{SCMP_SYS(ioctl), 1, UINT32_MAX, FIONREAD},
		{SCMP_SYS(ioctl), 1, UINT32_MAX, FIONBIO},
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && ret == 0; i++) {
		ret = allow_where(
			filter, rules[i].call, rules[i].argument, rules[i].mask, rules[i].value);
	}
	/* Its flags lie in memory, which a filter cannot read; the C library then takes clone. */
	return ret ? ret : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int allow_devices(scmp_filter_ctx filter)
{
	int ret = allow_each(filter, with_devices, sizeof(with_devices) / sizeof(with_devices[0]));

	ret = ret ? ret : allow_where(filter, SCMP_SYS(open), 1, OPENING, O_RDWR);
	ret = ret ? ret : allow_where(filter, SCMP_SYS(openat), 2, OPENING, O_RDWR);
	ret = ret ? ret : allow_where(filter, SCMP_SYS(ioctl), 1, TYPE_MASK, TYPE_VERBS);
	ret = ret ? ret : allow_where(filter, SCMP_SYS(ioctl), 1, TYPE_MASK, TYPE_FAULTFD);
	return ret ? ret : allow_where(filter, SCMP_SYS(socket), 0, UINT32_MAX, AF_NETLINK);
}

/* ---- what is not ---- */

static char *names[NUMBERS_MAX]; /* a signal handler cannot ask the library */

static void learn_names(void)
{
	for (int i = 0; i < NUMBERS_MAX; i++) {
		if (!names[i]) {
			names[i] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
		}
	}
}

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0) {
		return; /* nobody is left to tell */
	}
}

/* The kernel has not made the call. The next SIGSYS ends the process. */
static void on_forbidden(int signal_number, siginfo_t *details, void *context)
{
	const char *name = NULL;

	(void)context;
	if (details->si_syscall >= 0 && details->si_syscall < NUMBERS_MAX) {
		name = names[details->si_syscall];
	}
	say("error sandbox: a reduction server makes no system call ");
	say(name ? name : "of another processor's");
	say(": ended (--seccomp=off would let it)\n");
	raise(signal_number);
}

static int watch_forbidden(void)
{
	const struct sigaction action = {
		.sa_sigaction = on_forbidden,
		.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER,
	};

	learn_names();
	return sigaction(SIGSYS, &action, NULL) == 0 ? 0 : -errno;
}

int smd_system_calls_limit(bool devices, struct smd_error *error)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
	int ret;

	if (!filter) {
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	ret = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	ret = ret ? ret : seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	ret = ret ? ret : allow_each(filter, always, sizeof(always) / sizeof(always[0]));
	ret = ret ? ret : allow_by_argument(filter);
	ret = ret || !devices ? ret : allow_devices(filter);
	ret = ret ? ret : watch_forbidden();
	ret = ret ? ret : seccomp_load(filter);
	seccomp_release(filter);
	if (ret) {
		return smd_error_set(
			error, ENOTSUP, "the kernel takes no filter: %s", strerror(-ret));
	}
	return 0;
}
