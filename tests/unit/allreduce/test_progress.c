/* The progress engine's turns of the event loop, which looks after all lanes and timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <event2/event.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/progress.h"

enum { WAITS = 64, TRIES = 10000 };

struct quick {
	bool polled;
};

static bool is_polled(const void *arg)
{
	return ((const struct quick *)arg)->polled;
}

/* What it waits for is there at once, as in a loop of small operations. */
static bool poll_at_once(const void *arg)
{
	((struct quick *)(uintptr_t)arg)->polled = true;
	return true;
}

static void note(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

static void waits_that_are_over_at_once_keep_nothing_from_the_loop(void **state)
{
	static const struct smd_goal goal = {.done = is_polled, .poll = poll_at_once};
	const struct timeval now = {0, 0};
	struct smd_progress progress;
	bool ran = false;

	(void)state;
	assert_int_equal(smd_progress_create(&progress, SMD_ENGINE_POLLED, NULL, (struct smd_locality_ways){0}), 0);
	assert_int_equal(event_base_once(progress.base, -1, EV_TIMEOUT, note, &ran, &now), 0);
	for (int k = 0; k < WAITS; k++) {
		struct quick quick = {false};

		assert_int_equal(smd_progress_await(&progress, NULL, &goal, &quick, 0), 0);
		assert_true(quick.polled);
	}
	assert_true(ran);
	smd_progress_end(&progress);
	smd_progress_destroy(&progress);
}

/* ---- who tests ---- */

struct errand {
	struct smd_task task; /* first */
	pthread_t runner;
	atomic_bool ran;
};

static void errand_run(struct smd_task *task)
{
	struct errand *errand = (struct errand *)task;

	errand->runner = pthread_self();
	errand->ran = true;
}

/* Whether this thread has run it, testing all the while; or the other one, which was left alone. */
static bool runs_here(struct smd_progress *progress, bool tests)
{
	struct errand errand = {.task.run = errand_run};

	smd_progress_defer(progress, &errand.task);
	while (!errand.ran) {
		if (tests) {
			smd_progress_poll(progress);
		} else {
			usleep(100);
		}
	}
	smd_progress_lock(progress); /* whoever ran it is through with it */
	smd_progress_unlock(progress);
	return pthread_equal(errand.runner, pthread_self());
}

/* While an operation is in flight the thread has the engine; then a caller that tests again and
 * again has it, without a change of threads; and when that one stops, the thread. */
static void a_caller_that_tests_owns_the_engine(void **state)
{
	struct smd_progress progress;
	int tries = 0;

	(void)state;
	assert_int_equal(smd_progress_create(&progress, SMD_ENGINE_SHARED, NULL, (struct smd_locality_ways){0}), 0);
	smd_progress_lock(&progress);
	progress.in_flight = 1;
	smd_progress_unlock(&progress);
	assert_false(runs_here(&progress, false));
	while (!runs_here(&progress, true)) {
		assert_true(++tries < TRIES);
	}
	assert_false(runs_here(&progress, false));
	smd_progress_lock(&progress);
	progress.in_flight = 0;
	smd_progress_unlock(&progress);
	smd_progress_end(&progress);
	smd_progress_destroy(&progress);
}

/* ---- who comes and goes ---- */

enum { ROUNDS = 200, PARTS = 50 };

/* How often the process's threads but this one have gone to sleep. */
static unsigned long others_sleeps(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned long sum = 0;
	struct dirent *entry;

	assert_non_null(tasks);
	while ((entry = readdir(tasks))) {
		unsigned long count;
		char line[256];
		FILE *status;

		if (atoi(entry->d_name) <= 0 || atoi(entry->d_name) == gettid()) {
			continue;
		}
		snprintf(line, sizeof(line), "/proc/self/task/%s/status", entry->d_name);
		status = fopen(line, "r");
		while (status && fgets(line, sizeof(line), status)) {
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1) {
				sum += count;
			}
		}
		if (status) {
			fclose(status);
		}
	}
	closedir(tasks);
	return sum;
}

static void set_in_flight(struct smd_progress *progress, unsigned in_flight, unsigned large)
{
	smd_progress_lock(progress);
	progress->in_flight = in_flight;
	progress->large = large;
	smd_progress_unlock(progress);
}

static void begin_in_flight(struct smd_progress *progress)
{
	assert_int_equal(smd_progress_create(
				 progress, SMD_ENGINE_SHARED, NULL, (struct smd_locality_ways){0}),
		0);
	set_in_flight(progress, 1, 0);
}

static void end_in_flight(struct smd_progress *progress)
{
	set_in_flight(progress, 0, 0);
	smd_progress_end(progress);
	smd_progress_destroy(progress);
}

struct answer {
	struct smd_progress *progress;
	int parts; /* that have not arrived */
};

static bool is_whole(const void *arg)
{
	return ((const struct answer *)arg)->parts == 0;
}

static bool take_part(const void *arg)
{
	struct answer *answer = (struct answer *)(uintptr_t)arg;

	answer->parts--;
	answer->progress->arrivals++;
	sched_yield();
	return true;
}

/* For long enough that a thread which was woken is awake. */
static void await_answer(struct smd_progress *progress)
{
	static const struct smd_goal goal = {.done = is_whole, .poll = take_part};
	struct answer answer = {progress, PARTS};

	assert_int_equal(smd_progress_await(progress, NULL, &goal, &answer, 0), 0);
}

static void nothing_to_do(struct smd_task *task)
{
	(void)task;
}

static unsigned long sleeps_in_rounds(struct smd_progress *progress)
{
	unsigned long before = others_sleeps();

	for (int k = 0; k < ROUNDS; k++) {
		struct smd_task task = {.run = nothing_to_do};

		smd_progress_post(progress, &task);
		await_answer(progress);
	}
	return others_sleeps() - before;
}

/* Operations are begun and awaited in a row, and some are in flight all the while: the engine does
 * not change threads between them, but where a machine is so busy that the caller is away for long.
 */
static void a_caller_that_comes_back_wakes_no_thread(void **state)
{
	struct smd_progress progress;
	int tries = 0;

	(void)state;
	begin_in_flight(&progress);
	await_answer(&progress);
	while (sleeps_in_rounds(&progress) > ROUNDS / 4) {
		assert_true(++tries < 20);
	}
	end_in_flight(&progress);
}

struct timed {
	struct smd_task task; /* first */
	struct event_base *base;
	atomic_bool ran;
};

static void note_timed(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	((struct timed *)arg)->ran = true;
}

static void timed_begin(struct smd_task *task)
{
	struct timed *timed = (struct timed *)task;
	const struct timeval soon = {0, 1000};

	assert_int_equal(event_base_once(timed->base, -1, EV_TIMEOUT, note_timed, timed, &soon), 0);
}

/* Some callers come and go, and then no more. */
static void leave_something(struct smd_progress *progress, unsigned rounds, unsigned large)
{
	struct timed timed = {.task.run = timed_begin, .base = progress->base};
	int tries = 0;

	set_in_flight(progress, 1, large);
	for (unsigned k = 0; k < rounds; k++) {
		await_answer(progress);
	}
	smd_progress_post(progress, &timed.task);
	while (!timed.ran) {
		assert_true(++tries < TRIES);
		usleep(1000);
	}
}

/* What is in flight when no caller comes any more is the thread's, however it has been resting. */
static void the_thread_takes_up_what_callers_leave(void **state)
{
	static const unsigned rounds[] = {0, 1, 20, ROUNDS};
	struct smd_progress progress;

	(void)state;
	begin_in_flight(&progress);
	for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
		leave_something(&progress, rounds[i], 0);
		leave_something(&progress, rounds[i], 1);
	}
	end_in_flight(&progress);
}

enum { LATE_TRIES = 20, MANY = 200000 };

static bool is_within_5_ms(uint64_t began)
{
	return smd_clock_ns() - began < 5 * SMD_SECOND_NS / 1000;
}

/* The thread is in the loop when a caller finds that all it waits for is done, and then begins
 * something that a timer of 1 ms ends. */
static bool is_looked_after_once_done(struct smd_progress *progress, unsigned large)
{
	static const struct smd_goal goal = {.done = is_whole, .poll = take_part};
	struct timed timed = {.task.run = timed_begin, .base = progress->base};
	struct answer answer = {progress, 0};
	uint64_t began;
	bool soon;

	set_in_flight(progress, 0, 0);
	assert_false(runs_here(progress, false));
	assert_int_equal(smd_progress_await(progress, NULL, &goal, &answer, 0), 0);
	set_in_flight(progress, 1, large);
	began = smd_clock_ns();
	smd_progress_post(progress, &timed.task);
	while (!timed.ran) {
		usleep(100);
	}
	soon = is_within_5_ms(began);
	smd_progress_lock(progress); /* whoever ran it is through with it */
	smd_progress_unlock(progress);
	return soon;
}

/* Who had nothing in flight may be away for long, but not when it has begun something since. */
static void what_is_begun_after_a_wait_is_looked_after(void **state)
{
	struct smd_progress progress;

	(void)state;
	begin_in_flight(&progress);
	for (unsigned large = 0; large <= 1; large++) {
		int tries = 0;

		while (!is_looked_after_once_done(&progress, large)) {
			assert_true(++tries < LATE_TRIES);
		}
	}
	end_in_flight(&progress);
}

static bool has_run_all(struct smd_progress *progress)
{
	bool all;

	smd_progress_lock(progress);
	all = STAILQ_EMPTY(&progress->tasks);
	smd_progress_unlock(progress);
	return all;
}

static bool has_run(const void *arg)
{
	return ((const struct errand *)arg)->ran;
}

/* Until a timer of 1 ms has ended, or for as long as all of these take; where callers wait, each is
 * done when it has begun. */
static bool is_looked_after_while_begun(
	struct smd_progress *progress, struct errand *errands, bool waits)
{
	static const struct smd_goal goal = {.done = has_run};
	struct timed timed = {.task.run = timed_begin, .base = progress->base};
	uint64_t began = smd_clock_ns();
	bool soon;
	int n = 0;

	await_answer(progress);
	smd_progress_post(progress, &timed.task);
	while (!timed.ran && n < MANY) {
		uint64_t now = smd_clock_ns();

		errands[n] = (struct errand){.task.run = errand_run};
		if (waits) {
			smd_progress_await(progress, &errands[n].task, &goal, &errands[n], 0);
		} else {
			smd_progress_post(progress, &errands[n].task);
		}
		n++;
		while (smd_clock_ns() - now < 4000) {
		}
	}
	soon = smd_clock_ns() - began < SMD_SECOND_NS / 20;
	while (!timed.ran || !has_run_all(progress)) {
		usleep(100);
	}
	return soon;
}

/* Who begins operations in a row does not turn the loop, so the thread does. */
static void a_caller_that_only_begins_does_not_keep_the_loop_waiting(void **state)
{
	struct errand *errands = calloc(MANY, sizeof(*errands));
	struct smd_progress progress;

	(void)state;
	assert_non_null(errands);
	begin_in_flight(&progress);
	for (int waits = 0; waits <= 1; waits++) {
		int late = 0;

		for (int k = 0; k < LATE_TRIES; k++) {
			late += !is_looked_after_while_begun(&progress, errands, waits);
		}
		assert_true(late < LATE_TRIES * 3 / 4); /* a busy machine may be late, too */
	}
	end_in_flight(&progress);
	free(errands);
}

struct leaver {
	struct smd_progress *progress;
	struct smd_task *task;
	bool done;
};

static bool has_left(const void *arg)
{
	return ((const struct leaver *)arg)->done;
}

/* As a completion does that leaves something to do for later. */
static bool defer_and_end(const void *arg)
{
	struct leaver *leaver = (struct leaver *)(uintptr_t)arg;

	smd_progress_defer(leaver->progress, leaver->task);
	leaver->done = true;
	return true;
}

/* A task that the owner left behind, with nothing else in flight. */
static bool is_run_soon(struct smd_progress *progress)
{
	static const struct smd_goal goal = {.done = has_left, .poll = defer_and_end};
	struct errand errand = {.task.run = errand_run};
	struct leaver leaver = {progress, &errand.task, false};
	uint64_t began;
	bool soon;

	await_answer(progress);
	usleep(1000); /* so the thread rests */
	await_answer(progress);
	began = smd_clock_ns();
	assert_int_equal(smd_progress_await(progress, NULL, &goal, &leaver, 0), 0);
	while (!errand.ran) {
		usleep(100);
	}
	soon = is_within_5_ms(began);
	smd_progress_lock(progress);
	smd_progress_unlock(progress);
	return soon;
}

static void tasks_that_a_caller_leaves_are_run(void **state)
{
	struct smd_progress progress;
	int late = 0;

	(void)state;
	begin_in_flight(&progress);
	set_in_flight(&progress, 0, 0);
	for (int k = 0; k < LATE_TRIES; k++) {
		late += !is_run_soon(&progress);
	}
	assert_true(late < LATE_TRIES * 3 / 4); /* a busy machine may be late, too */
	end_in_flight(&progress);
}

/* ---- a thread that is alone ---- */

/* Where the thread is alone it runs what is posted and tested for, too, and callers' threads go on. */
static void a_thread_that_is_alone_runs_all(void **state)
{
	struct smd_progress progress;

	(void)state;
	assert_int_equal(smd_progress_create(&progress, SMD_ENGINE_ALONE, NULL, (struct smd_locality_ways){0}), 0);
	smd_progress_lock(&progress);
	progress.in_flight = 1;
	smd_progress_unlock(&progress);
	for (int k = 0; k < WAITS; k++) {
		struct errand errand = {.task.run = errand_run};

		assert_false(runs_here(&progress, true));
		smd_progress_post(&progress, &errand.task);
		while (!errand.ran) {
			smd_progress_poll(&progress);
		}
		smd_progress_lock(&progress); /* whoever ran it is through with it */
		smd_progress_unlock(&progress);
		assert_false(pthread_equal(errand.runner, pthread_self()));
	}
	smd_progress_lock(&progress);
	progress.in_flight = 0;
	smd_progress_unlock(&progress);
	smd_progress_end(&progress);
	smd_progress_destroy(&progress);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_that_are_over_at_once_keep_nothing_from_the_loop),
		cmocka_unit_test(a_caller_that_tests_owns_the_engine),
		cmocka_unit_test(a_caller_that_comes_back_wakes_no_thread),
		cmocka_unit_test(the_thread_takes_up_what_callers_leave),
		cmocka_unit_test(what_is_begun_after_a_wait_is_looked_after),
		cmocka_unit_test(a_caller_that_only_begins_does_not_keep_the_loop_waiting),
		cmocka_unit_test(tasks_that_a_caller_leaves_are_run),
		cmocka_unit_test(a_thread_that_is_alone_runs_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
