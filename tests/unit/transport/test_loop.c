/* A loop that is asked what is ready does each thing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <unistd.h>

#include "reduction_server/transport/loop.h"

static struct smd_wakeup wakeup;
static unsigned seen;

/* As a lane that always has something: its peer sends as fast as it reads. */
static void on_signal(void *owner)
{
	(void)owner;
	seen++;
	if (seen < 100) {
		smd_wakeup_signal(&wakeup);
	}
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	++*(unsigned *)arg;
}

/* Whoever looks learns at once that its operation is done, whatever else comes. */
static void what_is_ready_again_waits_for_the_next_look(void **state)
{
	struct event_base *base = smd_loop_create();

	(void)state;
	assert_non_null(base);
	assert_int_equal(smd_wakeup_create(&wakeup, base, on_signal, NULL), 0);
	smd_wakeup_signal(&wakeup);
	for (unsigned look = 1; look <= 3; look++) {
		smd_loop_look(base);
		assert_int_equal(seen, look);
	}
	smd_wakeup_destroy(&wakeup);
	smd_loop_free(base);
}

/* Nothing is ready: it does not wait. Timers that are due are. */
static void nothing_is_waited_for(void **state)
{
	const struct timeval now = {0, 0};
	struct event_base *base = smd_loop_create();
	struct event *timer;
	unsigned fired = 0;

	(void)state;
	timer = evtimer_new(base, on_time, &fired);
	smd_loop_look(base);
	evtimer_add(timer, &now);
	for (unsigned look = 0; look < 100 && !fired; look++) {
		smd_loop_look(base);
		usleep(100);
	}
	assert_int_equal(fired, 1);
	event_free(timer);
	smd_loop_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_ready_again_waits_for_the_next_look),
		cmocka_unit_test(nothing_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
