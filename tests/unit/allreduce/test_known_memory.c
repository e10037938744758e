/*
 * What the kernel is asked of callers' buffers, and how often. Calls into it are the test's, so
 * that buffers need not be there, and kernels may be old or their calls forbidden.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "worker/libsummand/known_memory.h"

#define MIB       ((size_t)1 << 20)
#define BUFFER    ((uint8_t *)((uintptr_t)1 << 32))
#define ALL       (64 * MIB)
#define AT_A_TIME (4 * MIB) /* at most, of what other threads' mappings have to wait for */

static struct {
	const uint8_t *hole; /* a page there cannot be used; NULL: all can */
	const uint8_t *gone; /* and this one is not mapped */
	bool old;            /* it cannot bring in pages */
	bool filtered;       /* it must not be asked what is mapped */
	size_t populated;    /* bytes that it was asked to bring in, */
	size_t most;         /* at most at a time, */
	bool writes;         /* the last time to be written */
	unsigned words;      /* that it was asked of one by one */
} kernel;

static struct smd_known_memory known;

int __wrap_madvise(void *address, size_t length, int advice);
int __wrap_msync(void *address, size_t length, int flags);
long __wrap_syscall(long number, ...);

static bool holds(const uint8_t *begin, size_t length, const uint8_t *page)
{
	return page && page >= begin && page < begin + length;
}

static int answer(bool good, int err)
{
	errno = good ? 0 : err;
	return good ? 0 : -1;
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	if (kernel.old) {
		return answer(false, EINVAL);
	}
	kernel.populated += length;
	kernel.most = length > kernel.most ? length : kernel.most;
	kernel.writes = advice == 23; /* MADV_POPULATE_WRITE */
	return answer(!holds(address, length, kernel.hole) && !holds(address, length, kernel.gone),
		EFAULT);
}

int __wrap_msync(void *address, size_t length, int flags)
{
	assert_int_equal(flags, MS_ASYNC);
	return kernel.filtered ? answer(false, EPERM)
			       : answer(!holds(address, length, kernel.gone), ENOMEM);
}

/* Of a word it says EINVAL for what is asked with it, or EFAULT. */
long __wrap_syscall(long number, ...)
{
	const uint8_t *word;
	va_list args;

	va_start(args, number);
	if (number == SYS_futex) { /* its fifth */
		(void)va_arg(args, void *);
		(void)va_arg(args, int);
		(void)va_arg(args, int);
		(void)va_arg(args, void *);
	} else {
		assert_int_equal(number, SYS_rt_sigprocmask);
		(void)va_arg(args, int);
	}
	word = va_arg(args, const uint8_t *);
	va_end(args);
	kernel.words++;
	word = (const uint8_t *)((uintptr_t)word & ~(uintptr_t)4095);
	return answer(number == SYS_futex && word != kernel.hole && word != kernel.gone,
		word == kernel.hole || word == kernel.gone ? EFAULT : EINVAL);
}

static int set_up(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	smd_known_memory_create(&known);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	smd_known_memory_destroy(&known);
	return 0;
}

/* Bytes that were asked for since the last time. */
static size_t asked_for(void)
{
	size_t bytes = kernel.populated;

	kernel.populated = 0;
	return bytes;
}

/* The kernel keeps the process's mappings as they are while it brings in pages: 0.3 s a GiB, in
 * which a thread that allocates would stand still, and with it the heartbeat. */
static void others_may_map_memory_meanwhile(void **state)
{
	(void)state;
	assert_true(smd_known_memory_is_readable(&known, BUFFER + 100, ALL));
	assert_in_range(asked_for(), ALL, ALL + ALL / 256);
	assert_false(kernel.writes);
	assert_true(smd_known_memory_is_writable(&known, BUFFER + ALL + 4096, ALL));
	assert_in_range(asked_for(), ALL, ALL + ALL / 256);
	assert_true(kernel.writes);
	assert_in_range(kernel.most, 1, AT_A_TIME + 4096);
}

static void what_was_passed_is_known(void **state)
{
	(void)state;
	assert_true(smd_known_memory_is_readable(&known, BUFFER, ALL));
	(void)asked_for();
	assert_true(smd_known_memory_is_readable(&known, BUFFER, ALL));
	assert_int_equal(asked_for(), 0);
	/* Not that it can be written, which does not make the first forgotten. */
	assert_true(smd_known_memory_is_writable(&known, BUFFER, MIB));
	assert_int_equal(asked_for(), MIB);
	assert_true(smd_known_memory_is_writable(&known, BUFFER, MIB));
	assert_true(smd_known_memory_is_readable(&known, BUFFER, ALL));
	assert_int_equal(asked_for(), 0);
}

/* As where the last batch is smaller, or the one buffer holds what there is each time. */
static void counts_may_change(void **state)
{
	(void)state;
	assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL));
	(void)asked_for();
	for (size_t bytes = ALL - 4; bytes > MIB; bytes -= MIB) {
		assert_true(smd_known_memory_is_writable(&known, BUFFER, bytes));
	}
	assert_int_equal(asked_for(), 0);
	assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL + MIB));
	assert_in_range(asked_for(), ALL + MIB, ALL + 2 * MIB);
	assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL + MIB));
	assert_int_equal(asked_for(), 0);
}

/* A tensor each, as of a model whose gradients are not put together. */
static void many_are_known_at_a_time(void **state)
{
	enum { TENSORS = 320 };
	const size_t bytes = MIB / 4;
	const size_t apart = bytes + 4096;

	(void)state;
	for (size_t i = 0; i < TENSORS; i++) {
		assert_true(smd_known_memory_is_writable(&known, BUFFER + i * apart, bytes));
	}
	assert_int_equal(asked_for(), TENSORS * bytes);
	for (size_t i = 0; i < TENSORS; i++) {
		assert_true(smd_known_memory_is_writable(&known, BUFFER + i * apart, bytes));
	}
	assert_in_range(asked_for(), 0, TENSORS / 8 * bytes);
}

static void a_page_that_is_gone_is_found(void **state)
{
	(void)state;
	assert_true(smd_known_memory_is_readable(&known, BUFFER, ALL));
	assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL));
	kernel.gone = BUFFER + 33 * MIB;
	assert_false(smd_known_memory_is_readable(&known, BUFFER, ALL));
	assert_false(smd_known_memory_is_writable(&known, BUFFER, ALL));
	assert_true(smd_known_memory_is_readable(&known, BUFFER, 33 * MIB));
	kernel.gone = NULL;
	assert_true(smd_known_memory_is_readable(&known, BUFFER, ALL));
}

static void a_hole_is_found_wherever_it_is(void **state)
{
	(void)state;
	for (size_t at = 0; at < ALL; at += MIB + 4096) {
		kernel.hole = BUFFER + at;
		assert_false(smd_known_memory_is_readable(&known, BUFFER, ALL));
		assert_false(smd_known_memory_is_writable(&known, BUFFER, ALL));
	}
	kernel.hole = BUFFER + ALL; /* behind it */
	assert_true(smd_known_memory_is_readable(&known, BUFFER, ALL));
}

/* Before Linux 5.14, or where a filter forbids it: page by page, once. */
static void kernels_that_bring_in_nothing_are_asked_of_each_page(void **state)
{
	(void)state;
	kernel.old = true;
	kernel.hole = BUFFER + 63 * MIB;
	assert_false(smd_known_memory_is_readable(&known, BUFFER, ALL));
	assert_false(smd_known_memory_is_writable(&known, BUFFER, ALL));
	kernel.hole = NULL;
	kernel.words = 0;
	assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL));
	assert_in_range(kernel.words, ALL / 4096, ALL / 4096 + 2);
	kernel.words = 0;
	assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL));
	assert_in_range(kernel.words, 0, 2);
}

/* Nothing is known then, and nothing is taken for good. */
static void filters_make_it_dear_and_not_wrong(void **state)
{
	(void)state;
	kernel.filtered = true;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(smd_known_memory_is_writable(&known, BUFFER, ALL));
		assert_in_range(asked_for(), ALL, ALL + ALL / 256);
	}
	kernel.hole = BUFFER + MIB;
	assert_false(smd_known_memory_is_writable(&known, BUFFER, ALL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(others_may_map_memory_meanwhile),
		TEST(what_was_passed_is_known),
		TEST(counts_may_change),
		TEST(many_are_known_at_a_time),
		TEST(a_page_that_is_gone_is_found),
		TEST(a_hole_is_found_wherever_it_is),
		TEST(kernels_that_bring_in_nothing_are_asked_of_each_page),
		TEST(filters_make_it_dear_and_not_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
