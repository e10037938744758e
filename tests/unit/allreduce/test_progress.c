/* The progress engine's turns of the event loop, which looks after all lanes and timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

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
		cmocka_unit_test(a_thread_that_is_alone_runs_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
