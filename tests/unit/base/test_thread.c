/* Threads of ours and the signals of the program that they run in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>

#include "reduction_server/base/thread.h"

struct masks {
	sigset_t inside;
};

static void *look(void *arg)
{
	struct masks *masks = arg;

	pthread_sigmask(SIG_SETMASK, NULL, &masks->inside);
	return NULL;
}

static void takes_no_signal_of_the_program(void **state)
{
	static const int programs[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPROF};
	struct masks masks;
	pthread_t thread;

	(void)state;
	assert_int_equal(smd_thread_start(&thread, NULL, look, &masks), 0);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		assert_int_equal(sigismember(&masks.inside, programs[i]), 1);
	}
}

/* The handler of a forbidden system call names it (sandbox/), in whichever thread makes it. */
static void takes_what_it_raises_itself(void **state)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGSYS, SIGABRT, SIGFPE, SIGILL, SIGTRAP};
	struct masks masks;
	pthread_t thread;

	(void)state;
	assert_int_equal(smd_thread_start(&thread, NULL, look, &masks), 0);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		assert_int_equal(sigismember(&masks.inside, own[i]), 0);
	}
}

static void the_callers_mask_stays(void **state)
{
	struct masks masks;
	pthread_t thread;
	sigset_t mine;

	(void)state;
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	assert_int_equal(smd_thread_start(&thread, NULL, look, &masks), 0);
	pthread_join(thread, NULL);
	look(&masks);
	assert_int_equal(sigismember(&masks.inside, SIGUSR2), 1);
	assert_int_equal(sigismember(&masks.inside, SIGTERM), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_no_signal_of_the_program),
		cmocka_unit_test(takes_what_it_raises_itself),
		cmocka_unit_test(the_callers_mask_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
