/*
 * That the memory watch tells of everything that takes memory from its addresses, and that the
 * registration cache finds nothing registered of what was there before. All on the kernel's own
 * userfaultfd; where that is not to be had these tests are skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/transport/rdma/memory_watch.h"
#include "registrar.h"

#if defined(__SANITIZE_THREAD__)
#define FORK_MAY_START_THREADS false
#else
#define FORK_MAY_START_THREADS true
#endif

#define MIB    ((size_t)1 << 20)
#define LENGTH MIB

static size_t page;
static uint64_t cursor;
static struct smd_rdma_memory *memory;

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
	page = (size_t)sysconf(_SC_PAGESIZE);
	is_told(NULL);
	registrar_reset();
	memory = registrar_cache(0, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	smd_rdma_memory_destroy(memory);
	assert_int_equal(registrar.live, 0);
	return 0;
}

static uint8_t *map_flags(int flags)
{
	uint8_t *address = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(address, MAP_FAILED);
	memset(address, 1, LENGTH);
	return address;
}

static uint8_t *map(void)
{
	return map_flags(MAP_PRIVATE);
}

static uint8_t *map_at(void *address)
{
	uint8_t *got = mmap(address, LENGTH, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	assert_ptr_equal(got, address);
	return got;
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
	uint8_t *address = map();

	assert_int_equal(smd_memory_watch_add(address, LENGTH), 0);
	return address;
}

static void munmap_is_told(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_nothing_told();
	munmap(address + 4 * page, page);
	assert_told(address + 4 * page, page);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void what_is_not_watched_is_not_told(void **state)
{
	uint8_t *address = map();

	(void)state;
	munmap(address, LENGTH);
	assert_nothing_told();
}

static void watching_twice_tells_once(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	assert_int_equal(smd_memory_watch_add(address + 3 * page, page), 0);
	munmap(address, LENGTH);
	assert_told(address, LENGTH);
}

static void the_pages_around_a_range_are_watched(void **state)
{
	uint8_t *address = map();

	(void)state;
	assert_int_equal(smd_memory_watch_add(address + page - 1, 2), 0);
	madvise(address, page, MADV_DONTNEED);
	assert_told(address, page);
	madvise(address + page, page, MADV_DONTNEED);
	assert_told(address + page, page);
	madvise(address + 2 * page, page, MADV_DONTNEED);
	assert_nothing_told();
	munmap(address, LENGTH);
}

static void mapping_over_it_is_told(void **state)
{
	uint8_t *address = map_watched();

	(void)state;
	map_at(address);
	assert_told(address, LENGTH);
	munmap(address, LENGTH);
	assert_nothing_told();
}

static void moving_it_is_told(void **state)
{
	uint8_t *address = map_watched();
	uint8_t *remote_buffer = map();

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
	assert_ptr_equal(mremap(address, LENGTH, page, 0), address);
	assert_told(address + page, LENGTH - page);
	munmap(address, page);
}

static void giving_its_pages_back_is_told(void **state)
{
	static const int advices[] = {MADV_DONTNEED, MADV_FREE};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *address = map_watched();

		assert_int_equal(madvise(address + page, 2 * page, advices[i]), 0);
		assert_told(address + page, 2 * page);
		munmap(address, LENGTH);
		assert_told(address, LENGTH);
	}
}

static void shared_memory_is_watched(void **state)
{
	uint8_t *address = map_flags(MAP_SHARED);

	(void)state;
	assert_int_equal(smd_memory_watch_add(address, LENGTH), 0);
	assert_int_equal(madvise(address, page, MADV_REMOVE), 0);
	assert_told(address, page);
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

/* The kernel's own, which every process has. */
static void *unwatchable(void)
{
	void *address = (void *)getauxval(AT_SYSINFO_EHDR);

	if (!address) {
		print_message("this machine has no vDSO\n");
		skip();
	}
	return address;
}

static void not_all_memory_can_be_watched(void **state)
{
	(void)state;
	assert_int_equal(smd_memory_watch_add(unwatchable(), page), -EINVAL);
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
		madvise(address, page, MADV_DONTNEED);
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
	assert_int_equal(range.end, (uintptr_t)address + page);
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
	uint8_t *address = map();

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
	uint8_t *address = map();

	close_all();
	if (smd_memory_watch_start(NULL) || smd_memory_watch_add(address, LENGTH)) {
		return 1;
	}
	close_all();
	munmap(address, LENGTH);
	while (!is_told(address)) {
		usleep(1000);
	}
	address = map();
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

/* ---- the cache ---- */

static void use(const void *address, size_t length)
{
	struct smd_rdma_region *region;

	smd_rdma_memory_invalidate(memory);
	assert_int_equal(smd_rdma_memory_find(
				 memory, address, length, address, length, SMD_RDMA_WRITE, &region),
		0);
	smd_rdma_region_put(region);
}

static void assert_registers(const void *address, size_t length, unsigned times)
{
	unsigned before = registrar.count;

	use(address, length);
	assert_int_equal(registrar.count - before, times);
}

static void addresses_that_are_mapped_anew_are_registered_anew(void **state)
{
	uint8_t *address = map();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_registers(address, LENGTH, 1);
		assert_registers(address, LENGTH, 0);
		munmap(address, LENGTH);
		map_at(address);
	}
	munmap(address, LENGTH);
	smd_rdma_memory_invalidate(memory);
	assert_int_equal(registrar.live, 0);
}

static void memory_that_moved_is_registered_anew(void **state)
{
	uint8_t *address = map();
	uint8_t *remote_buffer = map();

	(void)state;
	use(address, LENGTH);
	assert_ptr_equal(
		mremap(address, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, remote_buffer),
		remote_buffer);
	map_at(address);
	assert_registers(address, LENGTH, 1);
	assert_registers(remote_buffer, LENGTH, 1);
	munmap(address, LENGTH);
	munmap(remote_buffer, LENGTH);
}

static void memory_that_was_emptied_is_registered_anew(void **state)
{
	uint8_t *address = map();

	(void)state;
	use(address, LENGTH);
	madvise(address + LENGTH - page, page, MADV_DONTNEED);
	assert_registers(address, LENGTH, 1);
	munmap(address, LENGTH);
}

/* Whether free() has left the page as it was, as a sanitizer's may. */
static bool is_resident(uintptr_t at)
{
	unsigned char resident;

	return mincore((void *)at, page, &resident) == 0 && (resident & 1);
}

static void free_and_look(uint8_t *address, size_t length)
{
	uintptr_t inside = ((uintptr_t)address + length / 2) / page * page;

	memset(address, 1, length);
	use(address, length);
	assert_registers(address, length, 0);
	free(address);
	malloc_trim(0);
	if (is_resident(inside)) {
		print_message("this free() keeps the memory\n");
		skip();
	}
	smd_rdma_memory_invalidate(memory);
	assert_int_equal(registrar.live, 0);
	assert_int_equal(smd_rdma_memory_counts(memory)->stale, 1);
}

static void freed_memory_is_registered_anew(void **state)
{
	(void)state;
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	free_and_look(malloc(8 * MIB), 8 * MIB);
}

static void what_the_heap_gives_back_is_registered_anew(void **state)
{
	(void)state;
	mallopt(M_MMAP_THRESHOLD, 16 * MIB);
	free_and_look(malloc(8 * MIB), 8 * MIB);
}

static void what_cannot_be_watched_is_registered_for_one_use(void **state)
{
	void *address = unwatchable();

	(void)state;
	assert_registers(address, page, 1);
	assert_registers(address, page, 1);
	assert_int_equal(registrar.live, 0);
}

/* ---- many threads ---- */

#define OWNERS 4
#define ROUNDS 2000

/* Maps memory, gives it to be looked up, unmaps it: all owners get the same addresses in turn. */
struct owner {
	pthread_t thread;
	uint64_t number;
	_Atomic(uint64_t *) given; /* NULL: nothing */
};

static void *owner_main(void *arg)
{
	struct owner *owner = arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t *address = mmap(NULL, 16 * page, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (address == MAP_FAILED) {
			abort();
		}
		*address = owner->number << 32 | (i + 1);
		atomic_store(&owner->given, address);
		while (atomic_load(&owner->given)) {
			sched_yield();
		}
		munmap(address, 16 * page);
	}
	return NULL;
}

/* What is found was registered when the memory held what it holds now. */
static void look_up(const uint64_t *address)
{
	struct smd_rdma_region *region;

	smd_rdma_memory_invalidate(memory);
	assert_int_equal(smd_rdma_memory_find(memory, address, 16 * page, address, 16 * page,
				 SMD_RDMA_WRITE, &region),
		0);
	assert_int_equal(registrar_of(region)->begin, (uintptr_t)address);
	assert_int_equal(registrar_of(region)->stamp, *address);
	smd_rdma_region_put(region);
}

/*
 * The watch's thread runs when nobody else wants to: what is unmapped is told as late as it can be,
 * and others get the addresses before that.
 */
static void make_watch_late(void)
{
	const struct sched_param none = {0};
	DIR *tasks = opendir("/proc/self/task");
	unsigned found = 0;

	assert_non_null(tasks);
	for (struct dirent *task; (task = readdir(tasks));) {
		pid_t thread = (pid_t)atoi(task->d_name);
		char path[300];
		char name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) &&
			strcmp(name, "memory-watch\n") == 0) {
			assert_int_equal(sched_setscheduler(thread, SCHED_IDLE, &none), 0);
			found++;
		}
		if (file) {
			fclose(file);
		}
	}
	closedir(tasks);
	assert_int_equal(found, 1);
}

static void threads_that_unmap_leave_nothing_stale(void **state)
{
	struct owner owners[OWNERS] = {0};
	unsigned looked = 0;

	(void)state;
	registrar.stamped = true;
	make_watch_late();
	for (unsigned i = 0; i < OWNERS; i++) {
		owners[i].number = i + 1;
		assert_int_equal(
			pthread_create(&owners[i].thread, NULL, owner_main, &owners[i]), 0);
	}
	while (looked < OWNERS * ROUNDS) {
		for (unsigned i = 0; i < OWNERS; i++) {
			uint64_t *address = atomic_load(&owners[i].given);

			if (address) {
				look_up(address);
				atomic_store(&owners[i].given, NULL);
				looked++;
			}
		}
		sched_yield();
	}
	for (unsigned i = 0; i < OWNERS; i++) {
		pthread_join(owners[i].thread, NULL);
	}
	assert_int_equal(registrar.count, OWNERS * ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
		TEST(addresses_that_are_mapped_anew_are_registered_anew),
		TEST(memory_that_moved_is_registered_anew),
		TEST(memory_that_was_emptied_is_registered_anew),
		TEST(freed_memory_is_registered_anew),
		TEST(what_the_heap_gives_back_is_registered_anew),
		TEST(what_cannot_be_watched_is_registered_for_one_use),
		TEST(threads_that_unmap_leave_nothing_stale),
	};
	struct smd_error error = {0};

	if (smd_memory_watch_start(&error)) {
		printf("skipped: %s\n", error.text);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
