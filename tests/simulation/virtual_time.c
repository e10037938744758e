/* Stands in front of the C library's clock, waits and threads, and gives turns by a seed. */
#include "tests/simulation/virtual_time.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/random.h"
#include "tests/simulation/fiber.h"
#include "worker/libsummand/context.h"

#define NEVER           UINT64_MAX
#define TASKS_MAX       256
#define CLOCK_STEP_NS   20u    /* a look at the clock */
#define TURN_STEP_NS    20000u /* at most, a turn */
#define LOCK_TURNS      8      /* one lock in so many gives the turn away */
#define TAKEN_LOCKS_MAX 256u   /* locks at once, each as often as it is held */

enum wait { RUNS, EPOLL, CONDITION, SLEEP, JOIN, OVER };

struct task {
	enum wait wait;
	uint64_t deadline_ns;
	int epoll;
	const void *awaited; /* condition, or task */
	bool signalled;
	unsigned process;
	unsigned weight;
	bool readable; /* in EPOLL: when it was last looked at */
	struct fiber fiber;
	struct smd_error last_error; /* while another task runs */
	void *(*run)(void *arg);
	void *arg;
	void *result;
};

void (*virtual_on_stuck)(const char *what);
bool (*virtual_on_limit)(void);

struct taken_lock {
	const pthread_mutex_t *mutex;
	const struct task *by;
};

static struct task tasks[TASKS_MAX];
static struct taken_lock taken_locks[TAKEN_LOCKS_MAX];
static unsigned ntaken_locks;
static unsigned ntasks;
static uint64_t now_ns;
static uint64_t limit;
static uint64_t steps;
static uint64_t random_state;
static bool weighted;
static bool frozen[VIRTUAL_PROCESSES_MAX];
static bool written;      /* so an epoll may have become readable since all were looked at */
static struct task *self; /* that has the turn; NULL: nothing is simulated */

/* ---- the C library's own ---- */

static struct {
	int (*clock_gettime)(clockid_t clock, struct timespec *out);
	int (*epoll_wait)(int epoll, struct epoll_event *events, int most, int timeout_ms);
	int (*epoll_ctl)(int epoll, int operation, int fd, struct epoll_event *event);
	ssize_t (*write)(int fd, const void *bytes, size_t length);
	int (*sched_yield)(void);
	ssize_t (*getrandom)(void *buffer, size_t length, unsigned flags);
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*join)(pthread_t, void **);
	pthread_t (*self)(void);
	int (*lock)(pthread_mutex_t *);
	int (*trylock)(pthread_mutex_t *);
	int (*unlock)(pthread_mutex_t *);
	int (*wait)(pthread_cond_t *, pthread_mutex_t *);
	int (*timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int (*signal)(pthread_cond_t *);
	int (*broadcast)(pthread_cond_t *);
} real;

static void *find(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	if (!symbol) {
		fprintf(stderr, "simulation: no %s in the C library\n", name);
		abort();
	}
	return symbol;
}

#define FIND(member, name)                                                                         \
	do {                                                                                       \
		void *symbol_ = find(name);                                                        \
		memcpy(&real.member, &symbol_, sizeof(symbol_));                                   \
	} while (0)

__attribute__((constructor)) static void find_all(void)
{
	FIND(clock_gettime, "clock_gettime");
	FIND(epoll_wait, "epoll_wait");
	FIND(epoll_ctl, "epoll_ctl");
	FIND(write, "write");
	FIND(sched_yield, "sched_yield");
	FIND(getrandom, "getrandom");
	FIND(create, "pthread_create");
	FIND(join, "pthread_join");
	FIND(self, "pthread_self");
	FIND(lock, "pthread_mutex_lock");
	FIND(trylock, "pthread_mutex_trylock");
	FIND(unlock, "pthread_mutex_unlock");
	FIND(wait, "pthread_cond_wait");
	FIND(timedwait, "pthread_cond_timedwait");
	FIND(signal, "pthread_cond_signal");
	FIND(broadcast, "pthread_cond_broadcast");
}

/* ---- turns ---- */

uint64_t virtual_draw(uint64_t below)
{
	return smd_random_next(&random_state) % below;
}

static bool is_due(const struct task *task)
{
	return task->wait == RUNS || (task->wait != OVER && task->deadline_ns <= now_ns);
}

static bool holds_a_lock(const struct task *task)
{
	for (unsigned i = 0; i < ntaken_locks; i++) {
		if (taken_locks[i].by == task) {
			return true;
		}
	}
	return false;
}

/* Locks are the only thing that simulated processes share. */
static bool is_frozen(const struct task *task)
{
	return frozen[task->process] && !holds_a_lock(task);
}

/* Which epolls are readable. What they hold is written in this process alone, so most turns need
 * not ask the kernel, which would take a third of all time. */
static void look_at_epolls(void)
{
	struct pollfd fds[TASKS_MAX];
	struct task *sleepers[TASKS_MAX];
	nfds_t n = 0;

	if (!written) {
		return;
	}
	written = false;
	for (unsigned i = 0; i < ntasks; i++) {
		if (tasks[i].wait == EPOLL) {
			fds[n] = (struct pollfd){.fd = tasks[i].epoll, .events = POLLIN};
			sleepers[n++] = &tasks[i];
		}
	}
	if (n && poll(fds, n, 0) >= 0) {
		for (nfds_t i = 0; i < n; i++) {
			sleepers[i]->readable = fds[i].revents != 0;
		}
	}
}

/* The tasks that could go on now: those that are due, then those that something has come for. */
static unsigned find_ready(struct task *ready[TASKS_MAX])
{
	struct task *awake[TASKS_MAX];
	unsigned n = 0;
	unsigned nawake = 0;

	look_at_epolls();
	for (unsigned i = 0; i < ntasks; i++) {
		struct task *task = &tasks[i];

		if (is_frozen(task)) {
			continue;
		}
		if (is_due(task)) {
			ready[n++] = task;
		} else if (task->wait == EPOLL && task->readable) {
			awake[nawake++] = task;
		}
	}
	memcpy(&ready[n], awake, nawake * sizeof(awake[0]));
	return n + nawake;
}

/* Some histories have threads that are slower than others by far: races that need one to be late
 * show there. */
static struct task *choose(struct task *ready[], unsigned n)
{
	uint64_t sum = 0;
	uint64_t drawn;

	if (!weighted) {
		return ready[virtual_draw(n)];
	}
	for (unsigned i = 0; i < n; i++) {
		sum += ready[i]->weight;
	}
	drawn = virtual_draw(sum);
	for (unsigned i = 0; i < n; i++) {
		if (drawn < ready[i]->weight) {
			return ready[i];
		}
		drawn -= ready[i]->weight;
	}
	return ready[n - 1];
}

static void pass_time(void)
{
	uint64_t next = NEVER;

	for (unsigned i = 0; i < ntasks; i++) {
		if (!is_frozen(&tasks[i]) && tasks[i].wait != OVER && tasks[i].deadline_ns < next) {
			next = tasks[i].deadline_ns;
		}
	}
	if (next == NEVER) {
		virtual_on_stuck("every thread waits for ever");
	}
	now_ns = next;
}

/* The library's last error is of a thread, so each task has its own. */
static void switch_to(struct task *next)
{
	struct task *me = self;
	int error = errno;

	snprintf(me->last_error.text, sizeof(me->last_error.text), "%s", smd_error_message());
	self = next;
	fiber_switch(&me->fiber, &next->fiber);
	smd_error_remember(-EINVAL, &me->last_error);
	errno = error;
}

/* Gives the turn to a task that can go on, which may be this one; returns when it is this one's
 * again. */
static void give_turn(void)
{
	struct task *ready[TASKS_MAX];
	struct task *next;
	unsigned n;

	steps++;
	now_ns += virtual_draw(TURN_STEP_NS);
	while ((n = find_ready(ready)) == 0) {
		pass_time();
	}
	if (now_ns > limit && !(virtual_on_limit && virtual_on_limit())) {
		virtual_on_stuck("no rank has got on in the time that it may take");
	}
	next = choose(ready, n);
	next->wait = next->wait == OVER ? OVER : RUNS;
	if (next != self) {
		switch_to(next);
	}
}

static void wait_for(enum wait wait, const void *awaited, uint64_t deadline_ns)
{
	self->wait = wait;
	self->awaited = awaited;
	self->deadline_ns = deadline_ns;
	self->signalled = false;
	self->readable = false;
	give_turn();
}

static struct task *task_create(unsigned process, void *(*run)(void *arg), void *arg)
{
	struct task *task = &tasks[ntasks];

	assert(ntasks < TASKS_MAX && process < VIRTUAL_PROCESSES_MAX);
	*task = (struct task){
		.wait = RUNS,
		.deadline_ns = NEVER,
		.process = process,
		.weight = 1u << virtual_draw(10),
		.run = run,
		.arg = arg,
	};
	ntasks++;
	return task;
}

void virtual_begin(uint64_t seed, uint64_t limit_ns)
{
	random_state = seed;
	now_ns = 1000 * SMD_SECOND_NS;
	limit = now_ns + limit_ns;
	weighted = virtual_draw(2);
	self = task_create(0, NULL, NULL);
}

void virtual_allow_until(uint64_t ns)
{
	limit = ns;
}

unsigned virtual_process(void)
{
	return self ? self->process : 0;
}

uint64_t virtual_now_ns(void)
{
	return now_ns;
}

uint64_t virtual_steps(void)
{
	return steps;
}

void virtual_sleep(uint64_t ns)
{
	wait_for(SLEEP, NULL, now_ns + ns);
}

void virtual_freeze(unsigned process, bool freeze)
{
	frozen[process] = freeze;
}

/* ---- threads ---- */

static void task_main(void)
{
	struct task *task = self;

	smd_error_remember(-EINVAL, &task->last_error);
	task->result = task->run(task->arg);
	task->wait = OVER;
	for (unsigned i = 0; i < ntasks; i++) {
		if (tasks[i].wait == JOIN && tasks[i].awaited == task) {
			tasks[i].wait = RUNS;
		}
	}
	give_turn(); /* which it never gets again */
}

static int task_start(struct task *task)
{
	int ret = fiber_create(&task->fiber, task_main);

	if (ret) {
		task->wait = OVER;
	}
	return -ret;
}

/* What pthread_create() says of it. */
static pthread_t thread_of(const struct task *task)
{
	return (pthread_t)(uintptr_t)task;
}

pthread_t virtual_start(unsigned process, void *(*run)(void *arg), void *arg)
{
	struct task *task = task_create(process, run, arg);

	if (task_start(task)) {
		perror("simulation: cannot start a thread");
		abort();
	}
	return thread_of(task);
}

int pthread_create(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg), void *arg)
{
	struct task *task;

	if (!self) {
		return real.create(thread, attributes, run, arg);
	}
	task = task_create(self->process, run, arg);
	*thread = thread_of(task);
	return task_start(task);
}

int pthread_join(pthread_t thread, void **result)
{
	struct task *task = (struct task *)(uintptr_t)thread;

	if (!self) {
		return real.join(thread, result);
	}
	if (task->wait != OVER) {
		wait_for(JOIN, task, NEVER);
	}
	if (result) {
		*result = task->result;
	}
	return 0;
}

/* libevent asks whether the loop's thread is another one, which must be woken. */
pthread_t pthread_self(void)
{
	return self ? thread_of(self) : real.self();
}

int sched_yield(void)
{
	if (!self) {
		return real.sched_yield();
	}
	give_turn();
	return 0;
}

/* All tasks are one thread to the C library, which lets a thread have a recursive lock again. */
static bool is_with_another(const pthread_mutex_t *mutex)
{
	for (unsigned i = 0; i < ntaken_locks; i++) {
		if (taken_locks[i].mutex == mutex) {
			return taken_locks[i].by != self;
		}
	}
	return false;
}

static int try_lock(pthread_mutex_t *mutex)
{
	int ret = is_with_another(mutex) ? EBUSY : real.trylock(mutex);

	if (ret == 0) {
		assert(ntaken_locks < TAKEN_LOCKS_MAX);
		taken_locks[ntaken_locks++] = (struct taken_lock){mutex, self};
	}
	return ret;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int ret;

	if (!self) {
		return real.lock(mutex);
	}
	if (virtual_draw(LOCK_TURNS) == 0) {
		give_turn();
	}
	while ((ret = try_lock(mutex)) == EBUSY) {
		give_turn();
	}
	return ret;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	return self ? try_lock(mutex) : real.trylock(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	for (unsigned i = ntaken_locks; self && i-- > 0;) {
		if (taken_locks[i].mutex == mutex) {
			taken_locks[i] = taken_locks[--ntaken_locks];
			break;
		}
	}
	return real.unlock(mutex);
}

static int wait_on(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
	bool signalled;

	pthread_mutex_unlock(mutex);
	wait_for(CONDITION, condition, deadline_ns);
	signalled = self->signalled;
	pthread_mutex_lock(mutex);
	return signalled ? 0 : ETIMEDOUT;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	return self ? wait_on(condition, mutex, NEVER) : real.wait(condition, mutex);
}

int pthread_cond_timedwait(
	pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
	return self ? wait_on(condition, mutex,
			      (uint64_t)until->tv_sec * SMD_SECOND_NS + (uint64_t)until->tv_nsec)
		    : real.timedwait(condition, mutex, until);
}

static void wake(const pthread_cond_t *condition, unsigned most)
{
	unsigned first = (unsigned)virtual_draw(ntasks);

	for (unsigned i = 0; i < ntasks && most; i++) {
		struct task *task = &tasks[(first + i) % ntasks];

		if (task->wait == CONDITION && task->awaited == condition) {
			task->wait = RUNS;
			task->signalled = true;
			most--;
		}
	}
}

int pthread_cond_signal(pthread_cond_t *condition)
{
	if (!self) {
		return real.signal(condition);
	}
	wake(condition, 1);
	return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
	if (!self) {
		return real.broadcast(condition);
	}
	wake(condition, TASKS_MAX);
	return 0;
}

/* ---- time, and what is drawn ---- */

int clock_gettime(clockid_t clock, struct timespec *out)
{
	if (!self) {
		return real.clock_gettime(clock, out);
	}
	now_ns += CLOCK_STEP_NS;
	*out = (struct timespec){(time_t)(now_ns / SMD_SECOND_NS), (long)(now_ns % SMD_SECOND_NS)};
	return 0;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
	uint8_t *bytes = buffer;

	if (!self) {
		return real.getrandom(buffer, length, flags);
	}
	for (size_t i = 0; i < length; i++) {
		bytes[i] = (uint8_t)virtual_draw(256);
	}
	return (ssize_t)length;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
	uint64_t deadline = timeout_ms < 0 ? NEVER : now_ns + (uint64_t)timeout_ms * 1000000;
	int n = 0;

	if (!self) {
		return real.epoll_wait(epoll, events, most, timeout_ms);
	}
	while ((n = real.epoll_wait(epoll, events, most, 0)) == 0 && now_ns < deadline) {
		self->epoll = epoll;
		wait_for(EPOLL, NULL, deadline);
	}
	return n;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	written = true;
	return real.epoll_ctl(epoll, operation, fd, event);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
	written = true;
	return real.write(fd, bytes, length);
}
