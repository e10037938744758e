/*
 * Threads of a test that are switched by hand: each has a stack of its own, all run on the one
 * thread of the program, and a switch needs no scheduler.
 *
 * What is of a thread is of all fibers: who needs it of a fiber's own saves it at a switch.
 */
#ifndef SMD_TESTS_SIMULATION_FIBER_H
#define SMD_TESTS_SIMULATION_FIBER_H

#include <stddef.h>
#include <ucontext.h>

struct fiber {
	ucontext_t context;
	void *stack; /* NULL: the program's own */
	size_t size;
	void *shadow; /* of a sanitizer, while another fiber runs */
	void (*run)(void);
};

/* `run` begins on a stack of the fiber's own at the first switch to it; it must not return. Stacks
 * stay until the program ends. 0 or -ENOMEM. */
int fiber_create(struct fiber *fiber, void (*run)(void));

/* Saves the running fiber as `from`, which may be all zero before (the program's own), and runs
 * `to`; returns when another one switches back. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
