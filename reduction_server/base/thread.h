/* Starts threads that leave the program's signals alone. */
#ifndef SMD_BASE_THREAD_H
#define SMD_BASE_THREAD_H

#include <pthread.h>

/*
 * pthread_create(), for a thread that takes none of the signals that are sent to its process: those
 * are for the program's own threads, and a handler might do what a thread of ours must not wait
 * for. Signals that a thread raises by what it does itself (SIGSEGV, SIGSYS and such) reach it. The
 * caller's mask is as before. Any thread may call it. -errno.
 */
int smd_thread_start(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
	void *arg);

#endif
