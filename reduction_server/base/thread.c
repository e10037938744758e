/* Starts threads that leave the program's signals alone. */
#include "reduction_server/base/thread.h"

#include <signal.h>

int smd_thread_start(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg), void *arg)
{
	static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t blocked;
	sigset_t before;
	int err;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		sigdelset(&blocked, own[i]);
	}
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	err = pthread_create(thread, attributes, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}
