/* The progress engine's turns of the event loop, which looks after all lanes and timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>

#include "worker/libsummand/progress.h"

enum { WAITS = 64 };

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
	assert_int_equal(smd_progress_create(&progress, true), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_that_are_over_at_once_keep_nothing_from_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
