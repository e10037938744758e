/*
 * Threads that run one at a time, in an order drawn from a seed, in time that only passes when all
 * of them wait.
 *
 * The program's definitions of clock_gettime(), epoll_wait(), sched_yield(), getrandom() and
 * pthread's calls stand in front of the C library's, for this project's code and libevent alike, so
 * that both run unchanged. A thread gives its turn away where it would wait, and now and then at a
 * lock. A seed gives the same history each time, to the step. Threads are stacks that are switched by
 * hand (fiber.h), as a switch of the kernel's costs more than what most turns do.
 *
 * Threads belong to simulated processes, numbered by the test; a thread's children belong to its
 * own.
 */
#ifndef SMD_TESTS_SIMULATION_VIRTUAL_TIME_H
#define SMD_TESTS_SIMULATION_VIRTUAL_TIME_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define VIRTUAL_PROCESSES_MAX 64

/* Makes the calling thread the first one, of process 0. `limit_ns`: when the history must have
 * ended. */
void virtual_begin(uint64_t seed, uint64_t limit_ns);

/* Called when no thread can ever go on, or the limit has passed: says which; it must not return. */
extern void (*virtual_on_stuck)(const char *what);

/* Called when the limit has passed, unless it is NULL: whether it has moved the limit. */
extern bool (*virtual_on_limit)(void);

/* The limit is that time from now on. */
void virtual_allow_until(uint64_t ns);

/* pthread_create() for a thread of that process. */
pthread_t virtual_start(unsigned process, void *(*run)(void *arg), void *arg);

unsigned virtual_process(void);
uint64_t virtual_now_ns(void);
uint64_t virtual_steps(void);
/* The calling thread sleeps. */
void virtual_sleep(uint64_t ns);
/* Below `below`, which is not 0; from the history's seed. */
uint64_t virtual_draw(uint64_t below);

/* A frozen process takes no turn, as after SIGSTOP, once it holds no lock; timers that are due
 * meanwhile are due when it goes on. */
void virtual_freeze(unsigned process, bool frozen);

#endif
