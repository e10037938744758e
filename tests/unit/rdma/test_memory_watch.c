/*
 * That the memory watch tells of everything that takes memory from its addresses. All on the
 * kernel's own userfaultfd; where that is not to be had these tests are skipped.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/transport/rdma/memory_watch.h"
#include "tests/unit/rdma/mapping.h"

#if defined(__SANITIZE_THREAD__)
#define FORK_MAY_START_THREADS false
#else
#define FORK_MAY_START_THREADS true
#endif

static uint64_t cursor;

/* Whether that is among what was told since it was last asked. */
static bool is_told(const uint8_t *address)
{
	struct smd_memory_range range;
	bool told = !smd_memory_watch_settle();

	while (smd_memory_watch_next(&cursor, &range)) {
		told |= range.begin <= (uintptr_t)address && (uintptr_t)address < range.end;
	}
	return told;
}

static int set_up(void **state)
{
	(void)state;
	is_told(NULL);
	return 0;
}

/* ---- the watch ---- */

/* Exactly this, in one range or in several that touch. */
static void assert_told(const void *address, size_t length)
{
	struct smd_memory_range range;
	uintptr_t begin = (uintptr_t)address;

	assert_true(smd_memory_watch_settle());
	while (begin < (uintptr_t)address + length) {
		assert_true(smd_memory_watch_next(&cursor, &range));
		assert_int_equal(range.begin, begin);
		begin = range.end;
	}
	assert_int_equal(begin, (uintptr_t)address + length);
	assert_false(smd_memory_watch_next(&cursor, &range));
}

static void assert_nothing_told(void)
{
	assert_told(NULL, 0);
}

static uint8_t *map_watched(void)
{
	uint8_t *address = mapping_new();

	assert_int_equal(smd_memory_watch_add(address, LENGTH), 0);
	return address;
}

static void munmap_is_told(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_nothing_told();
	munmap(address + 4 * mapping_page, mapping_page);
	assert_told(address + 4 * mapping_page, mapping_page);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void what_is_not_watched_is_not_told(void **state)
{
	uint8_t *address = mapping_new();

	(void)state;
	munmap(address, LENGTH);
	assert_nothing_told();
}

static void watching_twice_tells_once(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_int_equal(smd_memory_watch_add(address + 3 * mapping_page, mapping_page), 0);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void the_pages_around_a_range_are_watched(void **state)
{
	uint8_t *address = mapping_new();

	(void)state;
	assert_int_equal(smd_memory_watch_add(address + mapping_page - 1, 2), 0);
	madvise(address, mapping_page, MADV_DONTNEED);
	assert_told(address, mapping_page);
	madvise(address + mapping_page, mapping_page, MADV_DONTNEED);
	assert_told(address + mapping_page, mapping_page);
	madvise(address + 2 * mapping_page, mapping_page, MADV_DONTNEED);
	assert_nothing_told();
	munmap(address, LENGTH);
}

static void mapping_over_it_is_told(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	mapping_at(address);
	assert_told(address, LENGTH);
	munmap(address, LENGTH);
	assert_nothing_told();
}

static void moving_it_is_told(void **state)
{
	uint8_t *address = map_watched();
	uint8_t *remote_buffer = mapping_new();

	(void)state;
	assert_ptr_equal(
		mremap(address, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, remote_buffer),
		remote_buffer);
	assert_true(is_told(address));
	munmap(remote_buffer, LENGTH); /* the watch has moved with it */
	assert_told(remote_buffer, LENGTH);
}

/* The old addresses stay mapped, with new memory. */
static void moving_what_it_holds_is_told(void **state)
{
	uint8_t *address = map_watched();
	uint8_t *remote_buffer =
		mremap(address, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	(void)state;
	assert_ptr_not_equal(remote_buffer, MAP_FAILED);
	assert_told(address, LENGTH);
	munmap(address, LENGTH);
	munmap(remote_buffer, LENGTH);
}

static void shrinking_it_is_told(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_ptr_equal(mremap(address, LENGTH, mapping_page, 0), address);
	assert_told(address + mapping_page, LENGTH - mapping_page);
	munmap(address, mapping_page);
}

static void giving_its_pages_back_is_told(void **state)
{
	static const int advices[] = {MADV_DONTNEED, MADV_FREE};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *address = map_watched();

		assert_int_equal(madvise(address + mapping_page, 2 * mapping_page, advices[i]), 0);
		assert_told(address + mapping_page, 2 * mapping_page);
		munmap(address, LENGTH);
		assert_told(address, LENGTH);
	}
}

static void shared_memory_is_watched(void **state)
{
	uint8_t *address = mapping_make(MAP_SHARED);

	(void)state;
	assert_int_equal(smd_memory_watch_add(address, LENGTH), 0);
	assert_int_equal(madvise(address, mapping_page, MADV_REMOVE), 0);
	assert_told(address, mapping_page);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void huge_pages_are_watched_whole(void **state)
{
	const size_t huge = 2 * MIB;
	uint8_t *address = mmap(NULL, huge, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	(void)state;
	if (address == MAP_FAILED) {
		print_message("no huge pages: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(smd_memory_watch_add(address + 5, 7), 0);
	munmap(address, huge);
	assert_told(address, huge);
}

static void not_all_memory_can_be_watched(void **state)
{
	(void)state;
	assert_int_equal(smd_memory_watch_add(mapping_unwatchable(), mapping_page), -EINVAL);
}

static void every_reader_is_told(void **state)
{
	uint64_t other = cursor;
	uint8_t *address = map_watched();

	(void)state;
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
	cursor = other;
	assert_told(address, LENGTH);
}

static void give_pages_back(uint8_t *address, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		madvise(address, mapping_page, MADV_DONTNEED);
	}
}

static void who_falls_behind_is_told_that_all_may_be_gone(void **state)
{
	uint8_t *address = map_watched();
	struct smd_memory_range range;

	(void)state;
	give_pages_back(address, SMD_MEMORY_WATCH_TOLD - 1);
	assert_true(smd_memory_watch_settle());
	assert_true(smd_memory_watch_next(&cursor, &range));
	assert_int_equal(range.begin, (uintptr_t)address);
	assert_int_equal(range.end, (uintptr_t)address + mapping_page);
	give_pages_back(address, 3);
	assert_told(NULL, UINTPTR_MAX);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void starting_twice_is_starting_once(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_int_equal(smd_memory_watch_start(NULL), 0);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

/* ---- in a child ---- */

/* Runs it in a child; 0 is success. Assertions do not belong there. */
static int in_child(int (*run)(void))
{
	pid_t child;
	int status;

	if (!FORK_MAY_START_THREADS) {
		print_message("the thread sanitizer allows no new thread after fork()\n");
		skip();
	}
	child = fork();
	if (child == 0) {
		alarm(60); /* who unmaps waits for the watch, for ever if that has a fault */
		_exit(run());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int child_has_its_own(void)
{
	uint8_t *address = mapping_new();

	if (smd_memory_watch_add(address, LENGTH) != -ENOSYS) {
		return 1;
	}
	if (smd_memory_watch_start(NULL) || smd_memory_watch_add(address, LENGTH)) {
		return 2;
	}
	munmap(address, LENGTH);
	return is_told(address) ? 0 : 3;
}

static void a_child_has_no_watch_until_it_starts_one(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_int_equal(in_child(child_has_its_own), 0);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void close_all(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		close(fd);
	}
}

/* Programs that become daemons close what they do not know. */
static int child_closes_the_descriptor(void)
{
	uint8_t *address = mapping_new();

	close_all();
	if (smd_memory_watch_start(NULL) || smd_memory_watch_add(address, LENGTH)) {
		return 1;
	}
	close_all();
	munmap(address, LENGTH);
	while (!is_told(address)) {
		usleep(1000);
	}
	address = mapping_new();
	if (smd_memory_watch_add(address, LENGTH) != -ENOSYS) {
		return 2;
	}
	if (smd_memory_watch_start(NULL) || smd_memory_watch_add(address, LENGTH)) {
		return 3;
	}
	munmap(address, LENGTH);
	return is_told(address) ? 0 : 4;
}

static void a_closed_descriptor_is_the_end_of_everything_watched(void **state)
{
	(void)state;
	assert_int_equal(in_child(child_closes_the_descriptor), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(munmap_is_told),
		TEST(what_is_not_watched_is_not_told),
		TEST(watching_twice_tells_once),
		TEST(the_pages_around_a_range_are_watched),
		TEST(mapping_over_it_is_told),
		TEST(moving_it_is_told),
		TEST(moving_what_it_holds_is_told),
		TEST(shrinking_it_is_told),
		TEST(giving_its_pages_back_is_told),
		TEST(shared_memory_is_watched),
		TEST(huge_pages_are_watched_whole),
		TEST(not_all_memory_can_be_watched),
		TEST(every_reader_is_told),
		TEST(who_falls_behind_is_told_that_all_may_be_gone),
		TEST(starting_twice_is_starting_once),
		TEST(a_child_has_no_watch_until_it_starts_one),
		TEST(a_closed_descriptor_is_the_end_of_everything_watched),
	};
	struct smd_error error = {0};

	mapping_page = (size_t)sysconf(_SC_PAGESIZE);
	if (smd_memory_watch_start(&error)) {
		printf("skipped: %s\n", error.text);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
