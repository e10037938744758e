/*
 * Large memory in huge pages: which are taken, what there is not enough of, and that all of it can
 * be used; and from which NUMA node. mmap(), madvise() and system calls are the test's, so that it needs no pages
 * that were set aside, and no second node.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "reduction_server/base/numa.h"
#include "reduction_server/base/pages.h"

#define POPULATE 23 /* MADV_POPULATE_WRITE */

static struct {
	size_t reserved;  /* bytes in huge pages that are set aside */
	bool forbidden;   /* a control group lets us have none of them */
	bool transparent; /* the kernel has them */
	int live;         /* mappings of the test's */
	unsigned populated;      /* calls, */
	uintptr_t populated_end; /* of the last */
	void *bound; /* to `nodes`, a bit for each, */
	size_t bound_bytes;
	unsigned long nodes;
	int policy;
} machine;

void *__real_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t length);
void *__wrap_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *address, size_t length);
int __wrap_madvise(void *address, size_t length, int advice);
long __wrap_syscall(long number, ...);

void *__wrap_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	if ((flags & MAP_HUGETLB) && (length > machine.reserved || length % SMD_PAGES_HUGE)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	machine.live++;
	return __real_mmap(address, length, prot, flags & ~MAP_HUGETLB, fd, offset);
}

int __wrap_munmap(void *address, size_t length)
{
	machine.live--;
	return __real_munmap(address, length);
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	assert_non_null(address);
	if (advice == POPULATE && !machine.forbidden) {
		machine.populated++;
		machine.populated_end = (uintptr_t)address + length;
		return 0;
	}
	assert_true(advice == POPULATE || length % SMD_PAGES_HUGE == 0);
	if (advice == MADV_HUGEPAGE && machine.transparent) {
		assert_int_equal((uintptr_t)address % SMD_PAGES_HUGE, 0);
		return 0;
	}
	errno = EINVAL;
	return -1;
}

long __wrap_syscall(long number, ...)
{
	va_list args;

	va_start(args, number);
	if (number == SYS_mbind) {
		machine.bound = va_arg(args, void *);
		machine.bound_bytes = va_arg(args, size_t);
	}
	machine.policy = va_arg(args, int);
	machine.nodes = *va_arg(args, const unsigned long *);
	va_end(args);
	errno = machine.forbidden ? EPERM : 0;
	return machine.forbidden ? -1 : 0;
}

static enum smd_pages_kind map_and_use(size_t bytes)
{
	struct smd_pages pages;

	assert_int_equal(smd_pages_map(&pages, bytes), 0);
	assert_int_equal(machine.live, 1);
	assert_int_equal(pages.memory[0] | pages.memory[bytes - 1], 0);
	memset(pages.memory, 1, bytes);
	smd_pages_unmap(&pages);
	assert_int_equal(machine.live, 0);
	return pages.kind;
}

static int set_up(void **state)
{
	(void)state;
	memset(&machine, 0, sizeof(machine));
	return 0;
}

static void pages_that_are_set_aside_come_first(void **state)
{
	(void)state;
	machine.transparent = true;
	machine.reserved = 4 * SMD_PAGES_HUGE;
	assert_int_equal(map_and_use(4 * SMD_PAGES_HUGE), SMD_PAGES_RESERVED);
	assert_int_equal(map_and_use(3 * SMD_PAGES_HUGE + 1), SMD_PAGES_RESERVED);
	assert_int_equal(machine.populated, 2);
}

static void too_few_of_them_are_left_alone(void **state)
{
	(void)state;
	machine.transparent = true;
	machine.reserved = 4 * SMD_PAGES_HUGE;
	assert_int_equal(map_and_use(4 * SMD_PAGES_HUGE + 1), SMD_PAGES_TRANSPARENT);
	machine.forbidden = true;
	assert_int_equal(map_and_use(4 * SMD_PAGES_HUGE), SMD_PAGES_TRANSPARENT);
	assert_int_equal(machine.populated, 0);
}

static void ordinary_ones_are_always_there(void **state)
{
	(void)state;
	assert_int_equal(map_and_use(5 * SMD_PAGES_HUGE), SMD_PAGES_SMALL);
	machine.transparent = true;
	machine.reserved = SMD_PAGES_HUGE;
	assert_int_equal(map_and_use(SMD_PAGES_HUGE - 1), SMD_PAGES_SMALL);
	assert_int_equal(map_and_use(1), SMD_PAGES_SMALL);
}

/* The ways of both are alike: what the kernel does not allow costs nothing but distance. */
static void memory_comes_from_the_node_that_is_asked_for(void **state)
{
	struct smd_pages pages;

	(void)state;
	for (int allowed = 0; allowed < 2; allowed++) {
		machine.forbidden = !allowed;
		assert_int_equal(smd_pages_map_near(&pages, 4 * SMD_PAGES_HUGE, 3), 0);
		assert_ptr_equal(machine.bound, pages.memory);
		assert_int_equal(machine.bound_bytes, 4 * SMD_PAGES_HUGE);
		assert_int_equal(machine.nodes, 1 << 3);
		assert_int_equal(machine.policy, MPOL_PREFERRED); /* others', when it has none left */
		smd_pages_unmap(&pages);
		machine.nodes = 0;
		assert_int_equal(smd_numa_prefer(5), allowed ? 0 : -EPERM);
		assert_int_equal(machine.nodes, 1 << 5);
	}
}

static void of_no_node_nothing_is_asked(void **state)
{
	struct smd_pages pages;

	(void)state;
	assert_int_equal(smd_pages_map_near(&pages, SMD_PAGES_HUGE, -1), 0);
	assert_int_equal(smd_numa_prefer(-1), 0);
	assert_int_equal(machine.nodes, 0);
	smd_pages_unmap(&pages);
}

/* Whole pages, and not too many in one call. */
static void memory_is_populated_step_by_step(void **state)
{
	const uintptr_t begin = 10 * SMD_PAGES_HUGE + 5000;
	const size_t bytes = 3 * SMD_PAGES_HUGE;

	(void)state;
	smd_pages_populate((void *)begin, bytes);
	assert_int_equal(machine.populated, 4);
	assert_int_equal(machine.populated_end, begin + bytes);
	machine.forbidden = true;
	smd_pages_populate((void *)begin, bytes); /* tries once, and that is all */
	assert_int_equal(machine.populated, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pages_that_are_set_aside_come_first, set_up),
		cmocka_unit_test_setup(too_few_of_them_are_left_alone, set_up),
		cmocka_unit_test_setup(ordinary_ones_are_always_there, set_up),
		cmocka_unit_test_setup(memory_comes_from_the_node_that_is_asked_for, set_up),
		cmocka_unit_test_setup(of_no_node_nothing_is_asked, set_up),
		cmocka_unit_test_setup(memory_is_populated_step_by_step, set_up),
	};

	return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
