/* Threads of ours and the signals of the program that they run in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>

#include "reduction_server/base/thread.h"

static void *look(void *mask)
{
	pthread_sigmask(SIG_SETMASK, NULL, mask);
	return NULL;
}

/* What a thread of ours has blocked. */
static sigset_t mask_inside(void)
{
	pthread_t thread;
	sigset_t mask;

	assert_int_equal(smd_thread_start(&thread, NULL, look, &mask), 0);
	pthread_join(thread, NULL);
	return mask;
}

static void takes_no_signal_of_the_program(void **state)
{
	static const int programs[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPROF};
	const sigset_t mask = mask_inside();

	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		assert_int_equal(sigismember(&mask, programs[i]), 1);
	}
}

/* The handler of a forbidden system call names it (sandbox/), in whichever thread makes it. */
static void takes_what_it_raises_itself(void **state)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGSYS, SIGABRT, SIGFPE, SIGILL, SIGTRAP};
	const sigset_t mask = mask_inside();

	(void)state;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		assert_int_equal(sigismember(&mask, own[i]), 0);
	}
}

static void the_callers_mask_stays(void **state)
{
	sigset_t mine;

	(void)state;
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	(void)mask_inside();
	look(&mine);
	assert_int_equal(sigismember(&mine, SIGUSR2), 1);
	assert_int_equal(sigismember(&mine, SIGTERM), 0);
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
