/* Reads what userfaultfd tells of unmapped memory, and keeps it for who asks. */
#include "reduction_server/transport/rdma/memory_watch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/thread.h"

#define YIELDS     16u /* before a wait sleeps: the thread it waits for may have a lower priority */
#define SLEEP_NS   20000
#define PAUSES_MAX 2000u /* about a tenth of a second */

/* A slot is overwritten while readers may look at it; they find out by the number. */
struct unmapped_range {
	_Atomic uintptr_t begin;
	_Atomic uintptr_t end;
};

static struct {
	pthread_mutex_t starting; /* never taken by the thread */
	_Atomic int fd;
	_Atomic pid_t pid;       /* whose watch it is; 0: there is none */
	_Atomic uint64_t turn;   /* odd: events are being read that have not been told yet */
	_Atomic uint64_t number; /* of ranges that were told */
	struct unmapped_range told[SMD_MEMORY_WATCH_TOLD]; /* the last ones */
} watch = {.starting = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* ---- the thread ---- */

/*
 * It must not allocate, free, unmap or take a lock: the thread that unmaps may be inside free(),
 * and waits for us.
 */

static void watch_tell(uintptr_t begin, uintptr_t end)
{
	uint64_t number = atomic_load(&watch.number);
	struct unmapped_range *told = &watch.told[number % SMD_MEMORY_WATCH_TOLD];

	atomic_store(&told->begin, begin);
	atomic_store(&told->end, end);
	atomic_store(&watch.number, number + 1);
}

static void watch_take(const struct uffd_msg *message)
{
	switch (message->event) {
	case UFFD_EVENT_UNMAP:
	case UFFD_EVENT_REMOVE:
		watch_tell(
			(uintptr_t)message->arg.remove.start, (uintptr_t)message->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		watch_tell((uintptr_t)message->arg.remap.from,
			(uintptr_t)(message->arg.remap.from + message->arg.remap.len));
		break;
	default: /* no other was asked for */
		break;
	}
}

/*
 * Who unmaps goes on as soon as its event has been read, before we can tell of it: so readers see
 * an odd turn from before that until it is told.
 */
static int watch_read(int fd)
{
	struct uffd_msg messages[16];
	ssize_t got;
	int err;

	atomic_fetch_add(&watch.turn, 1);
	got = read(fd, messages, sizeof(messages));
	err = got < 0 ? -errno : 0;
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(messages[0]); i++) {
		watch_take(&messages[i]);
	}
	if (err && err != -EAGAIN && err != -EINTR) {
		/* Someone has closed the descriptor: all that was watched no longer is. */
		atomic_store(&watch.pid, 0);
		atomic_fetch_add(&watch.number, SMD_MEMORY_WATCH_TOLD);
	} else {
		err = 0;
	}
	atomic_fetch_add(&watch.turn, 1);
	return err;
}

static void *watch_main(void *arg)
{
	struct pollfd ready = {.fd = atomic_load(&watch.fd), .events = POLLIN};

	(void)arg;
	do {
		poll(&ready, 1, -1);
	} while (watch_read(ready.fd) == 0);
	return NULL;
}

/* ---- starting ---- */

static int watch_open(struct smd_error *error)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP |
			    UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP,
	};
	/* Nothing is ever trapped, so no privilege to trap the kernel's accesses is needed. */
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	int err;

	if (fd < 0) {
		err = errno;
		return smd_error_set(error, err,
			"memory watch: userfaultfd must be allowed by the kernel's configuration "
			"and by a container's seccomp profile, got: %s",
			strerror(err));
	}
	if (ioctl(fd, UFFDIO_API, &api) != 0) {
		err = errno;
		close(fd);
		return smd_error_set(error, err,
			"memory watch: userfaultfd must have the write-protect mode (Linux 5.11 on "
			"x86-64, 6.10 on AArch64), got: %s",
			strerror(err));
	}
	return fd;
}

/* No handler of the program's signals may run on it: that might allocate. */
static int watch_thread(void)
{
	pthread_t thread;
	int ret = smd_thread_start(&thread, NULL, watch_main, NULL);

	if (ret) {
		return ret;
	}
	pthread_setname_np(thread, "memory-watch");
	pthread_detach(thread);
	return 0;
}

/* A plugin that is unloaded must leave the thread's code where it is. */
static void watch_stay_loaded(void)
{
	Dl_info self;

	if (dladdr(&watch, &self)) {
		dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
	}
}

static int watch_begin(struct smd_error *error)
{
	int fd = watch_open(error);
	int ret;

	if (fd < 0) {
		return fd;
	}
	atomic_store(&watch.fd, fd);
	atomic_store(&watch.turn, 0);
	atomic_store(&watch.pid, getpid());
	watch_stay_loaded();
	ret = watch_thread();
	if (ret) {
		atomic_store(&watch.pid, 0);
		close(fd);
		return smd_error_set(
			error, -ret, "memory watch: a thread must be had, got: %s", strerror(-ret));
	}
	return 0;
}

int smd_memory_watch_start(struct smd_error *error)
{
	int ret = 0;

	pthread_mutex_lock(&watch.starting);
	if (atomic_load(&watch.pid) != getpid()) {
		ret = watch_begin(error);
	}
	pthread_mutex_unlock(&watch.starting);
	return ret;
}

/* ---- watching ---- */

int smd_memory_watch_add(const void *address, size_t length)
{
	/* Memory of hugetlbfs is watched in its huge pages; other memory in the first of these. */
	const uintptr_t pages[] = {(uintptr_t)sysconf(_SC_PAGESIZE), 2u << 20, 1u << 30};
	int err = EINVAL;

	if (atomic_load(&watch.pid) != getpid()) {
		return -ENOSYS;
	}
	for (unsigned i = 0; i < sizeof(pages) / sizeof(pages[0]) && err == EINVAL; i++) {
		uintptr_t begin = (uintptr_t)address & ~(pages[i] - 1);
		uintptr_t end = ((uintptr_t)address + length + pages[i] - 1) & ~(pages[i] - 1);
		struct uffdio_register range = {
			.range = {.start = begin, .len = end - begin},
			.mode = UFFDIO_REGISTER_MODE_WP,
		};

		err = ioctl(atomic_load(&watch.fd), UFFDIO_REGISTER, &range) == 0 ? 0 : errno;
	}
	return -err;
}

/* ---- readers ---- */

/* False: this has gone on for too long. */
static bool watch_pause(unsigned *pauses)
{
	const struct timespec some = {.tv_nsec = SLEEP_NS};

	if (*pauses < YIELDS) {
		sched_yield();
	} else {
		nanosleep(&some, NULL);
	}
	return (*pauses)++ < PAUSES_MAX;
}

/*
 * From before memory is unmapped until its event has been read, the kernel refuses every
 * write-protection with EAGAIN, even this one of nothing, which it refuses with EINVAL otherwise.
 */
static bool watch_is_unmapping(void)
{
	struct uffdio_writeprotect nothing = {.range = {.len = 0}};

	return ioctl(atomic_load(&watch.fd), UFFDIO_WRITEPROTECT, &nothing) != 0 && errno == EAGAIN;
}

bool smd_memory_watch_settle(void)
{
	bool settled = true;
	unsigned pauses = 0;
	uint64_t turn;

	if (atomic_load(&watch.pid) == 0) {
		return true;
	}
	while (settled && watch_is_unmapping()) {
		settled = watch_pause(&pauses);
	}
	turn = atomic_load(&watch.turn);
	while (settled && turn % 2 == 1 && atomic_load(&watch.turn) == turn) {
		settled = watch_pause(&pauses);
	}
	return settled;
}

bool smd_memory_watch_next(uint64_t *cursor, struct smd_memory_range *range)
{
	const struct unmapped_range *told = &watch.told[*cursor % SMD_MEMORY_WATCH_TOLD];
	uint64_t number = atomic_load(&watch.number);

	if (*cursor == number) {
		return false;
	}
	range->begin = atomic_load(&told->begin);
	range->end = atomic_load(&told->end);
	number = atomic_load(&watch.number);
	if (number - *cursor < SMD_MEMORY_WATCH_TOLD) {
		(*cursor)++;
		return true;
	}
	*range = (struct smd_memory_range){.begin = 0, .end = UINTPTR_MAX};
	*cursor = number;
	return true;
}
