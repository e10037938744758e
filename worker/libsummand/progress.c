/* Lets callers that wait and the progress thread own the event loop, one at a time. */
#include "worker/libsummand/progress.h"

#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <time.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/thread.h"

#define REST_NS        10000000ull /* after a caller owned the engine: it may come back soon, */
#define REST_MOST_NS   80000000ull /* and where one comes back each time */
#define ABSENCE_NS     50000u      /* after one left small operations: its next call may be near */
#define LOOK_NS        250000u /* between the thread's looks while callers are back in time: at first, */
#define LOOK_MOST_NS   1000000u /* and at most, 4 times that */
#define SECOND_US      1000000ull
#define SPIN_NS        100000u
#define SPIN_LONG_NS   1000000u /* where callers wait for less than SHORT_NS as a rule */
#define SHORT_NS       500000u
#define USUAL_WAITS    8
#define POLLS_PER_LOOP 16
#define POLLS_PER_LOOK 4     /* at the clock */
#define NAP_NS         50000 /* between looks in vain; kernels may take milliseconds */
#define NOTHING_NS     2000  /* a turn of the loop for nothing takes about a microsecond */
#define NEVER_NS       UINT64_MAX

void smd_progress_lock(struct smd_progress *progress)
{
	pthread_mutex_lock(&progress->lock);
}

void smd_progress_unlock(struct smd_progress *progress)
{
	pthread_mutex_unlock(&progress->lock);
}

void smd_progress_publish(struct smd_progress *progress)
{
	pthread_cond_broadcast(&progress->changed);
	pthread_mutex_unlock(&progress->lock);
}

/* ---- owning the engine ---- */

/* Call with the lock, and get it back. */
static void progress_run_tasks(struct smd_progress *progress)
{
	while (!STAILQ_EMPTY(&progress->tasks)) {
		struct smd_task *task = STAILQ_FIRST(&progress->tasks);

		STAILQ_REMOVE_HEAD(&progress->tasks, link);
		pthread_mutex_unlock(&progress->lock);
		task->run(task);
		pthread_mutex_lock(&progress->lock);
	}
}

static void progress_on_wakeup(void *owner)
{
	struct smd_progress *progress = owner;

	pthread_mutex_lock(&progress->lock);
	progress_run_tasks(progress);
	pthread_mutex_unlock(&progress->lock);
}

static void progress_on_alarm(evutil_socket_t fd, short what, void *arg)
{
	(void)fd; /* the loop has woken, and that is all */
	(void)what;
	(void)arg;
}

/* Takes the engine, which nobody may own. Called with the lock, and unlocks. */
static void progress_own(struct smd_progress *progress)
{
	progress->owned = true;
	progress_run_tasks(progress);
	pthread_mutex_unlock(&progress->lock);
}

/* Lets the next thread have the engine. Locks. */
static void progress_release(struct smd_progress *progress)
{
	pthread_mutex_lock(&progress->lock);
	progress->owned = false;
	progress->unturned_ns = progress->turned ? 0 : progress->unturned_ns;
	progress->turned = false;
	if (progress->waiting) {
		pthread_cond_broadcast(&progress->changed);
	}
}

/* Has the thread look now, if it rests. Called with the lock. */
static void progress_wake(struct smd_progress *progress)
{
	progress->wakes_ns = 0;
	pthread_cond_signal(&progress->idle);
}

/*
 * A caller has left the engine. The thread takes care of what is in flight: of large operations,
 * and of tasks, at once; of small ones if no caller is there again soon, as to change threads
 * between those that are begun or awaited in a row costs several times what they take. So it is not
 * woken for these where it will look by itself. Called with the lock.
 */
static void progress_leave(struct smd_progress *progress)
{
	bool tasks = !STAILQ_EMPTY(&progress->tasks); /* that came when it had just run all */
	bool unattended = (progress->in_flight || tasks) && !progress->tests;
	uint64_t look = progress->large || tasks ? 0 : progress->look_ns;
	uint64_t now;

	if (progress->waiting) {
		return;
	}
	now = smd_clock_ns();
	progress->left_ns = now;
	if (progress->unturned_ns == 0) {
		progress->unturned_ns = now;
	}
	progress->absences += unattended;
	if (unattended ? progress->wakes_ns > now + look : progress->wakes_ns == NEVER_NS) {
		progress_wake(progress);
	}
}

static void progress_sleep_until(struct smd_progress *progress, uint64_t deadline_ns)
{
	if (deadline_ns) {
		uint64_t now = smd_clock_ns();
		uint64_t left_us = deadline_ns > now ? (deadline_ns - now) / 1000 + 1 : 0;
		const struct timeval delay = {
			(time_t)(left_us / SECOND_US), (suseconds_t)(left_us % SECOND_US)};

		evtimer_add(progress->alarm, &delay);
	}
	event_base_loop(progress->base, EVLOOP_ONCE);
	progress->turned = true;
	if (deadline_ns) {
		evtimer_del(progress->alarm);
	}
}

static void progress_look_at_loop(struct smd_progress *progress)
{
	smd_loop_look(progress->base);
	progress->turned = true;
}

static bool progress_look(struct smd_progress *progress)
{
	struct smd_watch *watch = progress->watch; /* comes when the thread may run already */

	return watch && watch->look(watch);
}

/*
 * One turn of the loop. What is watched says nothing when it changes: while there is something, the
 * loop does not sleep, but after SPIN_NS in vain this thread naps, which leaves the processor to
 * others for nine tenths of the time.
 */
static void progress_turn(struct smd_progress *progress, uint64_t deadline_ns)
{
	const struct timespec nap = {0, NAP_NS};
	uint64_t arrivals = progress->arrivals;
	bool watched = progress_look(progress);

	if (progress->arrivals == arrivals && !watched) {
		progress_sleep_until(progress, deadline_ns);
		return;
	}
	progress_look_at_loop(progress);
	if (progress->arrivals != arrivals) {
		progress->looked_ns = smd_clock_ns();
	} else if (smd_clock_ns() - progress->looked_ns < SPIN_NS) {
		sched_yield();
	} else {
		nanosleep(&nap, NULL);
	}
}

/*
 * To sleep and be woken costs more than a small operation: the kernel wakes a thread at the
 * processor of who has sent to it, where others are, and all are slow until it has spread them again.
 * So while one is awaited nobody sleeps for some time after the last arrival; other threads are let
 * in after each poll. The loop, which knows of the other lanes and of time, runs after some polls, of
 * however many waits.
 */
static void progress_spin(struct smd_progress *progress, const struct smd_goal *goal,
	const void *arg, uint64_t most_ns)
{
	uint64_t since = 0; /* the first look at the clock since the last arrival */
	unsigned vain = 0;

	while (!goal->done(arg)) {
		uint64_t arrivals = progress->arrivals;
		bool polled;

		(void)progress_look(progress);
		polled = goal->poll(arg);
		if (++progress->polls % POLLS_PER_LOOP == 0 || !polled) {
			progress_look_at_loop(progress);
		}
		if (progress->arrivals != arrivals) {
			since = 0;
			vain = 0;
			continue;
		}
		if (vain++ % POLLS_PER_LOOK == 0) {
			uint64_t now = smd_clock_ns();

			since = since ? since : now;
			if (now - since >= most_ns) {
				return;
			}
		}
		sched_yield();
	}
}

/* Turns the loop until the goal is done or the deadline is over. */
static void progress_drive(struct smd_progress *progress, const struct smd_goal *goal,
	const void *arg, uint64_t deadline_ns, uint64_t spin_ns)
{
	while (!goal->done(arg) && (!deadline_ns || smd_clock_ns() < deadline_ns)) {
		if (goal->poll) {
			progress_spin(progress, goal, arg, spin_ns);
		}
		if (!goal->done(arg)) {
			progress_turn(progress, deadline_ns);
		}
	}
}

/* ---- callers ---- */

static void progress_wait_until(
	struct smd_progress *progress, pthread_cond_t *condition, uint64_t deadline_ns)
{
	const struct timespec until = {
		(time_t)(deadline_ns / SMD_SECOND_NS), (long)(deadline_ns % SMD_SECOND_NS)};

	pthread_cond_timedwait(condition, &progress->lock, &until);
}

bool smd_progress_waits_are_short(struct smd_progress *progress)
{
	bool are;

	pthread_mutex_lock(&progress->lock);
	are = progress->waiting == 0 && progress->usual_ns < SHORT_NS;
	pthread_mutex_unlock(&progress->lock);
	return are;
}

/* How long they wait for what is small: a long one is no reason to sleep in all that follow. */
static void progress_count_wait(struct smd_progress *progress, uint64_t ns)
{
	uint64_t most = ns < 2 * SHORT_NS ? ns : 2 * SHORT_NS;

	progress->usual_ns += most / USUAL_WAITS - progress->usual_ns / USUAL_WAITS;
}

int smd_progress_await(struct smd_progress *progress, struct smd_task *task,
	const struct smd_goal *goal, const void *arg, uint64_t deadline_ns)
{
	uint64_t began = smd_clock_ns();
	uint64_t spin_ns;
	int ret = 0;

	pthread_mutex_lock(&progress->lock);
	progress->waiting++;
	spin_ns = progress->usual_ns < SHORT_NS ? SPIN_LONG_NS : SPIN_NS;
	if (task) {
		STAILQ_INSERT_TAIL(&progress->tasks, task, link);
	}
	if (progress->owned && (task || (progress->waiting == 1 && !goal->done(arg)))) {
		smd_wakeup_signal(&progress->wakeup);
	}
	while (!goal->done(arg)) {
		if (deadline_ns && smd_clock_ns() >= deadline_ns) {
			ret = -ETIMEDOUT;
			break;
		}
		if (progress->owned && deadline_ns) {
			progress_wait_until(progress, &progress->changed, deadline_ns);
		} else if (progress->owned) {
			pthread_cond_wait(&progress->changed, &progress->lock);
		} else {
			progress_own(progress);
			progress_drive(progress, goal, arg, deadline_ns, spin_ns);
			progress_release(progress);
		}
	}
	if (goal->poll) {
		progress_count_wait(progress, smd_clock_ns() - began);
	}
	progress->waiting--;
	progress->waits++;
	progress_leave(progress);
	pthread_mutex_unlock(&progress->lock);
	return ret;
}

/* One turn of the loop, for a caller that tests. Called with the lock. */
static void progress_test(struct smd_progress *progress)
{
	uint64_t arrivals;

	progress_own(progress);
	arrivals = progress->arrivals;
	(void)progress_look(progress);
	progress_look_at_loop(progress);
	progress->nothing_ns = progress->arrivals == arrivals ? smd_clock_ns() : 0;
	progress_release(progress);
	progress_leave(progress);
}

/* The thread sleeps in the loop, or is about to. Called with the lock. */
static void progress_ask_thread(struct smd_progress *progress)
{
	if (progress->threads && !progress->asked) {
		progress->asked = true;
		smd_wakeup_signal(&progress->wakeup);
	}
}

void smd_progress_poll(struct smd_progress *progress)
{
	uint64_t now;
	bool again;

	if (progress->alone) {
		return;
	}
	now = smd_clock_ns();
	again = now - atomic_exchange(&progress->tested_ns, now) < SMD_PROGRESS_TESTED_NS;

	if (now - progress->nothing_ns < NOTHING_NS) {
		return;
	}
	pthread_mutex_lock(&progress->lock);
	if (progress->threaded && again && !progress->tests) {
		progress->tests = true;
		progress_wake(progress); /* the thread rests for less, then */
	}
	if (!progress->owned) {
		progress_test(progress);
	} else if (again) {
		progress_ask_thread(progress);
	}
	pthread_mutex_unlock(&progress->lock);
}

void smd_progress_post(struct smd_progress *progress, struct smd_task *task)
{
	if (progress->alone) {
		smd_progress_defer(progress, task);
		return;
	}
	pthread_mutex_lock(&progress->lock);
	STAILQ_INSERT_TAIL(&progress->tasks, task, link);
	if (progress->tests) { /* it will test this one too */
		progress->tested_ns = smd_clock_ns();
		progress->nothing_ns = 0;
	}
	if (progress->owned) {
		progress->asked = progress->threads && progress->tests;
		smd_wakeup_signal(&progress->wakeup);
	} else {
		progress_own(progress);
		progress_release(progress);
		progress_leave(progress);
	}
	pthread_mutex_unlock(&progress->lock);
}

void smd_progress_defer(struct smd_progress *progress, struct smd_task *task)
{
	pthread_mutex_lock(&progress->lock);
	STAILQ_INSERT_TAIL(&progress->tasks, task, link);
	if (progress->owned) {
		smd_wakeup_signal(&progress->wakeup);
	} else {
		progress_wake(progress);
	}
	pthread_mutex_unlock(&progress->lock);
}

/* ---- the thread ---- */

/* A caller has just tested, and will do so again. */
static bool progress_is_tested(const struct smd_progress *progress, uint64_t now)
{
	uint64_t tested_ns = progress->tested_ns; /* maybe later than now */

	return progress->tests && (now < tested_ns || now - tested_ns < SMD_PROGRESS_TESTED_NS);
}

/* Until when the thread leaves the loop to callers, by what is in flight now: who left nothing may
 * have begun something since. Who only begins does not turn the loop. Called with the lock. */
static uint64_t progress_rest_ends(const struct smd_progress *progress)
{
	uint64_t most = progress->unturned_ns + LOOK_MOST_NS;
	uint64_t ends = progress->left_ns + ABSENCE_NS;

	if (progress->in_flight == 0) {
		return progress->left_ns + REST_NS;
	}
	if (progress->large) {
		return 0;
	}
	return progress->unturned_ns && most < ends ? most : ends;
}

/* A caller owns the engine, or did just now. */
static bool progress_may_rest(const struct smd_progress *progress, uint64_t now)
{
	return progress->owned || progress->waiting || progress_is_tested(progress, now) ||
	       (STAILQ_EMPTY(&progress->tasks) && now < progress_rest_ends(progress));
}

/* Called with the lock. */
static void progress_rest_until(struct smd_progress *progress, uint64_t until_ns)
{
	progress->wakes_ns = until_ns;
	if (until_ns == NEVER_NS) {
		pthread_cond_wait(&progress->idle, &progress->lock);
	} else {
		progress_wait_until(progress, &progress->idle, until_ns);
	}
	progress->wakes_ns = 0;
}

/*
 * To look again soon spares callers to wake this thread after each small operation, and to look
 * seldom while they come and go spares them this thread. Who has waited
 * for all that time may wait for long: then the end of that is worth a wake-up, and until then
 * nothing is. Who tests says nothing when it stops. Called with the lock.
 */
static void progress_rest_long(struct smd_progress *progress, uint64_t now)
{
	uint64_t waits = progress->waits;
	uint64_t rest = progress->rest_ns < REST_NS ? REST_NS : progress->rest_ns;

	progress_rest_until(progress, now + (progress->tests ? SMD_PROGRESS_TESTED_NS : rest));
	progress->rest_ns = progress->waits == waits  ? REST_NS
			    : rest < REST_MOST_NS ? 2 * rest
						  : REST_MOST_NS;
	while (progress->waiting && progress->waits == waits && !progress->ending) {
		progress_rest_until(progress, NEVER_NS);
	}
}

/* It rests briefly when a caller has just left something in flight, a little longer where callers
 * are back in time again and again, and else for long. Called with the lock. */
static void progress_rest(struct smd_progress *progress, uint64_t now)
{
	bool here = progress->owned || progress->waiting;

	if (progress->in_flight && !progress->tests && !here) {
		uint64_t absences = progress->absences;

		progress_rest_until(progress, progress_rest_ends(progress));
		if (progress->look_ns == 0) {
			progress->look_ns = progress->absences != absences ? LOOK_NS : 0;
		}
	} else if (progress->look_ns && (progress->absences != progress->absences_seen ||
						progress->look_ns < LOOK_MOST_NS)) {
		progress->absences_seen = progress->absences;
		progress_rest_until(progress, now + progress->look_ns);
		progress->look_ns *= progress->look_ns < LOOK_MOST_NS ? 2 : 1;
	} else {
		progress_rest_long(progress, now);
	}
}

static void *progress_main(void *arg)
{
	struct smd_progress *progress = arg;

	if (progress->near) {
		smd_locality_settle_towards(&progress->ways, progress->near);
	}
	pthread_mutex_lock(&progress->lock);
	while (!progress->ending) {
		uint64_t now = smd_clock_ns();

		if (progress_may_rest(progress, now)) {
			progress_rest(progress, now);
		} else {
			if (progress->in_flight) {
				progress->tests = false; /* it has stopped */
				progress->look_ns = 0;   /* nor was one back in time */
			}
			progress->threads = true;
			progress_own(progress);
			progress_turn(progress, 0);
			progress_release(progress);
			progress->threads = false;
			progress->asked = false;
		}
	}
	pthread_mutex_unlock(&progress->lock);
	return NULL;
}

static void progress_destroy_locks(struct smd_progress *progress)
{
	pthread_cond_destroy(&progress->idle);
	pthread_cond_destroy(&progress->changed);
	pthread_mutex_destroy(&progress->lock);
}

static void progress_create_locks(struct smd_progress *progress)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&progress->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&progress->changed, &monotonic);
	pthread_cond_init(&progress->idle, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

int smd_progress_create(struct smd_progress *progress, enum smd_engine_mode mode, const char *near,
	struct smd_locality_ways ways)
{
	int ret = -ENOMEM;

	*progress = (struct smd_progress){.base = smd_loop_create(),
		.alone = mode == SMD_ENGINE_ALONE,
		.look_ns = LOOK_MOST_NS,
		.near = near,
		.ways = ways};
	if (!progress->base) {
		return -ENOMEM;
	}
	STAILQ_INIT(&progress->tasks);
	progress_create_locks(progress);
	progress->alarm = evtimer_new(progress->base, progress_on_alarm, NULL);
	if (progress->alarm) {
		ret = smd_wakeup_create(
			&progress->wakeup, progress->base, progress_on_wakeup, progress);
	}
	if (ret == 0 && mode != SMD_ENGINE_POLLED) {
		progress->threaded = true;
		ret = smd_thread_start(&progress->thread, NULL, progress_main, progress);
	}
	if (ret) {
		progress->threaded = false;
		smd_progress_destroy(progress);
	}
	return ret;
}

void smd_progress_end(struct smd_progress *progress)
{
	pthread_mutex_lock(&progress->lock);
	progress->ending = true;
	if (progress->owned) {
		smd_wakeup_signal(&progress->wakeup);
	}
	progress_wake(progress);
	pthread_mutex_unlock(&progress->lock);
	if (progress->threaded) {
		pthread_join(progress->thread, NULL);
	}
}

void smd_progress_destroy(struct smd_progress *progress)
{
	smd_wakeup_destroy(&progress->wakeup);
	if (progress->alarm) {
		event_free(progress->alarm);
	}
	smd_loop_free(progress->base);
	progress_destroy_locks(progress);
}
