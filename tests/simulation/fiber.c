/* Stacks that are switched by swapcontext(), of which sanitizers are told. */
#include "tests/simulation/fiber.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_BYTES ((size_t)1 << 20) /* the kernel gives what is touched of it */
#define CANARY      0x5afe57acca11ab1eull

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>

static void leave(struct fiber *from, const struct fiber *to)
{
	__sanitizer_start_switch_fiber(&from->shadow, to->stack, to->size);
}

static void arrive(struct fiber *fiber, struct fiber *from)
{
	const void *stack;
	size_t size;

	__sanitizer_finish_switch_fiber(fiber->shadow, &stack, &size);
	if (!from->stack) { /* the program's own stack, which only the sanitizer knows */
		from->stack = (void *)(uintptr_t)stack;
		from->size = size;
	}
}
#else
static void leave(struct fiber *from, const struct fiber *to)
{
	(void)from;
	(void)to;
}

static void arrive(struct fiber *fiber, struct fiber *from)
{
	(void)fiber;
	(void)from;
}
#endif

/* One runs at a time: which one was left for the running one. */
static struct fiber *left;
static struct fiber *running;

static void fiber_main(void)
{
	arrive(running, left);
	running->run();
	abort(); /* it must not return */
}

int fiber_create(struct fiber *fiber, void (*run)(void))
{
	*fiber = (struct fiber){.stack = malloc(STACK_BYTES), .size = STACK_BYTES, .run = run};
	if (!fiber->stack || getcontext(&fiber->context)) {
		free(fiber->stack);
		fiber->stack = NULL;
		return -ENOMEM;
	}
	*(uint64_t *)fiber->stack = CANARY;
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber->context, fiber_main, 0);
	return 0;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
	if (from->run && *(uint64_t *)from->stack != CANARY) {
		fprintf(stderr, "fiber: a stack must have at most %zu bytes\n", STACK_BYTES);
		abort();
	}
	left = from;
	running = to;
	leave(from, to);
	swapcontext(&from->context, &to->context);
	arrive(from, left);
}
