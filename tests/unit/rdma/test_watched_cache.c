/*
 * That the registration cache, told by the memory watch, finds nothing registered of memory that
 * was at an address before. On the kernel's own userfaultfd; where that is not to be had these
 * tests are skipped.
 */
#include <dirent.h>
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
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/transport/rdma/memory_watch.h"
#include "tests/unit/rdma/mapping.h"
#include "tests/unit/rdma/registrar.h"

static struct smd_rdma_memory *memory;

static int set_up(void **state)
{
	(void)state;
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
	uint8_t *address = mapping_new();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		assert_registers(address, LENGTH, 1);
		assert_registers(address, LENGTH, 0);
		munmap(address, LENGTH);
		mapping_at(address);
	}
	munmap(address, LENGTH);
	smd_rdma_memory_invalidate(memory);
	assert_int_equal(registrar.live, 0);
}

static void memory_that_moved_is_registered_anew(void **state)
{
	uint8_t *address = mapping_new();
	uint8_t *remote_buffer = mapping_new();

	(void)state;
	use(address, LENGTH);
	assert_ptr_equal(
		mremap(address, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, remote_buffer),
		remote_buffer);
	mapping_at(address);
	assert_registers(address, LENGTH, 1);
	assert_registers(remote_buffer, LENGTH, 1);
	munmap(address, LENGTH);
	munmap(remote_buffer, LENGTH);
}

static void memory_that_was_emptied_is_registered_anew(void **state)
{
	uint8_t *address = mapping_new();

	(void)state;
	use(address, LENGTH);
	madvise(address + LENGTH - mapping_page, mapping_page, MADV_DONTNEED);
	assert_registers(address, LENGTH, 1);
	munmap(address, LENGTH);
}

/* Whether free() has left the page as it was, as a sanitizer's may. */
static bool is_resident(uintptr_t at)
{
	unsigned char resident;

	return mincore((void *)at, mapping_page, &resident) == 0 && (resident & 1);
}

static void free_and_look(uint8_t *address, size_t length)
{
	uintptr_t inside = ((uintptr_t)address + length / 2) / mapping_page * mapping_page;

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
	void *address = mapping_unwatchable();

	(void)state;
	assert_registers(address, mapping_page, 1);
	assert_registers(address, mapping_page, 1);
	assert_int_equal(registrar.live, 0);
}

/* ---- many threads ---- */

#define OWNERS 4
#define ROUNDS 2000
#define LONG_S                                                                                     \
	10 /* or fewer rounds, where other work has the processors and the late watch waits */

static atomic_bool enough;
static atomic_uint owners_left;

/* Maps memory, gives it to be looked up, unmaps it: all owners get the same addresses in turn. */
struct owner {
	pthread_t thread;
	uint64_t number;
	_Atomic(uint64_t *) given; /* NULL: nothing */
};

static void *owner_main(void *arg)
{
	struct owner *owner = arg;

	for (uint64_t i = 0; i < ROUNDS && !atomic_load(&enough); i++) {
		uint64_t *address = mmap(NULL, 16 * mapping_page, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (address == MAP_FAILED) {
			abort();
		}
		*address = owner->number << 32 | (i + 1);
		atomic_store(&owner->given, address);
		while (atomic_load(&owner->given)) {
			sched_yield();
		}
		munmap(address, 16 * mapping_page);
	}
	atomic_fetch_sub(&owners_left, 1);
	return NULL;
}

/* What is found was registered when the memory held what it holds now. */
static void look_up(const uint64_t *address)
{
	struct smd_rdma_region *region;

	smd_rdma_memory_invalidate(memory);
	assert_int_equal(smd_rdma_memory_find(memory, address, 16 * mapping_page, address,
				 16 * mapping_page, SMD_RDMA_WRITE, &region),
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
	uint64_t end_ns = smd_clock_ns() + LONG_S * SMD_SECOND_NS;
	unsigned looked = 0;

	(void)state;
	registrar.stamped = true;
	atomic_store(&owners_left, OWNERS);
	make_watch_late();
	for (unsigned i = 0; i < OWNERS; i++) {
		owners[i].number = i + 1;
		assert_int_equal(
			pthread_create(&owners[i].thread, NULL, owner_main, &owners[i]), 0);
	}
	while (atomic_load(&owners_left)) {
		for (unsigned i = 0; i < OWNERS; i++) {
			uint64_t *address = atomic_load(&owners[i].given);

			if (address) {
				look_up(address);
				atomic_store(&owners[i].given, NULL);
				looked++;
			}
		}
		if (smd_clock_ns() > end_ns) {
			atomic_store(&enough, true);
		}
		sched_yield();
	}
	for (unsigned i = 0; i < OWNERS; i++) {
		pthread_join(owners[i].thread, NULL);
	}
	assert_int_equal(registrar.count, looked);
	assert_true(looked == OWNERS * ROUNDS || atomic_load(&enough));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(addresses_that_are_mapped_anew_are_registered_anew),
		TEST(memory_that_moved_is_registered_anew),
		TEST(memory_that_was_emptied_is_registered_anew),
		TEST(freed_memory_is_registered_anew),
		TEST(what_the_heap_gives_back_is_registered_anew),
		TEST(what_cannot_be_watched_is_registered_for_one_use),
		TEST(threads_that_unmap_leave_nothing_stale),
	};
	struct smd_error error = {0};

	mapping_page = (size_t)sysconf(_SC_PAGESIZE);
	if (smd_memory_watch_start(&error)) {
		printf("skipped: %s\n", error.text);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
