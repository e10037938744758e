/*
 * What the registration cache finds, registers, keeps and drops. The card is the registrar, the
 * memory watch is this file's, and addresses are only numbers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/transport/memory_watch.h"
#include "registrar.h"

#define MIB   ((size_t)1 << 20)
#define CHUNK MIB
#define BASE  ((uintptr_t)1 << 40)

static struct smd_rdma_memory *memory;

/* ---- the memory watch of these tests ---- */

static struct {
	int err; /* what adding fails with */
	bool unsettled;
	struct smd_memory_range told[16];
	uint64_t count;
} watch;

int smd_memory_watch_add(const void *address, size_t length)
{
	(void)address;
	(void)length;
	return watch.err;
}

bool smd_memory_watch_settle(void)
{
	return !watch.unsettled;
}

bool smd_memory_watch_next(uint64_t *cursor, struct smd_memory_range *range)
{
	if (*cursor == watch.count) {
		return false;
	}
	*range = watch.told[(*cursor)++];
	return true;
}

static void unmap(uintptr_t begin, size_t length)
{
	watch.told[watch.count++] = (struct smd_memory_range){begin, begin + length};
}

/* ---- helpers ---- */

static int set_up(void **state)
{
	(void)state;
	watch.err = 0;
	watch.unsettled = false;
	watch.count = 0;
	registrar_reset();
	memory = registrar_cache(0, 0);
	return 0;
}

static void use_cache(unsigned entries_max, uint64_t bytes_max)
{
	smd_rdma_memory_destroy(memory);
	memory = registrar_cache(entries_max, bytes_max);
}

/* Everything that was registered is deregistered with the cache. */
static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(smd_rdma_memory_counts(memory)->pinned, registrar.pinned);
	smd_rdma_memory_destroy(memory);
	assert_int_equal(registrar.live, 0);
	return 0;
}

static int find_in(uintptr_t begin, size_t length, uintptr_t extent, size_t extent_length,
	enum smd_rdma_access access, struct smd_rdma_region **out)
{
	return smd_rdma_memory_find(
		memory, (void *)begin, length, (void *)extent, extent_length, access, out);
}

/* What is found contains what was asked for, and may be used so. */
static struct smd_rdma_region *get_in(uintptr_t begin, size_t length, uintptr_t extent,
	size_t extent_length, enum smd_rdma_access access)
{
	struct smd_rdma_region *region = NULL;
	const struct registration *registration;

	assert_int_equal(find_in(begin, length, extent, extent_length, access, &region), 0);
	registration = registrar_of(region);
	assert_true(registration->live);
	assert_true(registration->begin <= begin && begin + length <= registration->end);
	assert_true(registration->access >= access);
	assert_int_equal(region->keys.lkey, registration - registrar.all + 1000);
	assert_int_equal(region->keys.rkey, registration - registrar.all + 2000);
	return region;
}

static struct smd_rdma_region *get(uintptr_t begin, size_t length)
{
	return get_in(begin, length, 0, 0, SMD_RDMA_READ);
}

static void use(uintptr_t begin, size_t length)
{
	smd_rdma_region_put(get(begin, length));
}

static void assert_registered(uintptr_t begin, size_t length)
{
	unsigned before = registrar.count;

	use(begin, length);
	assert_int_equal(registrar.count, before);
}

static void assert_not_registered(uintptr_t begin, size_t length)
{
	unsigned before = registrar.count;

	use(begin, length);
	assert_int_equal(registrar.count, before + 1);
}

static const struct registration *last(void)
{
	return &registrar.all[registrar.count - 1];
}

static void assert_last(uintptr_t begin, uintptr_t end)
{
	assert_int_equal(last()->begin, begin);
	assert_int_equal(last()->end, end);
}

/* ---- finding ---- */

static void what_was_registered_is_found_again(void **state)
{
	const struct smd_rdma_memory_counts *counts = smd_rdma_memory_counts(memory);

	(void)state;
	assert_not_registered(BASE, CHUNK);
	assert_registered(BASE, CHUNK);
	assert_registered(BASE + 7, 1);
	assert_registered(BASE + CHUNK - 1, 1);
	assert_int_equal(counts->misses, 1);
	assert_int_equal(counts->hits, 3);
	assert_int_equal(counts->registrations, 1);
	assert_int_equal(counts->pinned, CHUNK);
}

static void a_range_that_sticks_out_is_not_found(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	assert_not_registered(BASE + 1, CHUNK);
	assert_not_registered(BASE - 1, 2);
	assert_not_registered(BASE + 2 * CHUNK, 1);
}

static void two_that_touch_are_not_one(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	use(BASE + CHUNK, CHUNK);
	assert_not_registered(BASE + CHUNK - 1, 2);
}

static void writing_needs_a_registration_for_writing(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	assert_int_equal(last()->access, SMD_RDMA_READ);
	smd_rdma_region_put(get_in(BASE, CHUNK, 0, 0, SMD_RDMA_WRITE));
	assert_int_equal(registrar.count, 2);
	assert_int_equal(last()->access, SMD_RDMA_WRITE);
	smd_rdma_region_put(get_in(BASE, CHUNK, 0, 0, SMD_RDMA_WRITE));
	assert_registered(BASE, CHUNK);
}

static void what_may_be_written_may_be_read(void **state)
{
	(void)state;
	smd_rdma_region_put(get_in(BASE, CHUNK, 0, 0, SMD_RDMA_WRITE));
	assert_registered(BASE, CHUNK);
}

static void read_only_memory_is_a_source(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	registrar.read_only_begin = BASE;
	registrar.read_only_end = BASE + CHUNK;
	assert_int_equal(find_in(BASE, CHUNK, 0, 0, SMD_RDMA_WRITE, &region), -EFAULT);
	use(BASE, CHUNK);
	assert_registered(BASE, CHUNK);
}

/* ---- buffers and their pieces ---- */

static void a_buffer_is_registered_in_pieces(void **state)
{
	const size_t length = 1024 * MIB;
	size_t covered = 0;

	(void)state;
	for (size_t at = 0; at < length; at += CHUNK) {
		smd_rdma_region_put(get_in(BASE + at, CHUNK, BASE, length, SMD_RDMA_READ));
		assert_true(last()->end > BASE + at);
		assert_true(
			last()->end <= BASE + at + SMD_RDMA_MEMORY_PIECE + SMD_RDMA_MEMORY_OVERLAP);
		covered = last()->end - BASE;
	}
	assert_int_equal(covered, length);
	assert_int_equal(registrar.count, length / SMD_RDMA_MEMORY_PIECE);
}

static void pieces_overlap_and_end_with_the_buffer(void **state)
{
	const size_t length = 100 * MIB;

	(void)state;
	smd_rdma_region_put(get_in(BASE + 33 * MIB, CHUNK, BASE, length, SMD_RDMA_READ));
	assert_last(BASE + 32 * MIB, BASE + 80 * MIB);
	smd_rdma_region_put(get_in(BASE + 99 * MIB, CHUNK, BASE, length, SMD_RDMA_READ));
	assert_last(BASE + 96 * MIB, BASE + 100 * MIB);
	smd_rdma_region_put(get_in(BASE, CHUNK, BASE, length, SMD_RDMA_READ));
	assert_last(BASE, BASE + 48 * MIB);
}

static void a_small_buffer_is_one_piece(void **state)
{
	(void)state;
	smd_rdma_region_put(get_in(BASE + 2 * MIB, CHUNK, BASE, 3 * MIB, SMD_RDMA_READ));
	assert_last(BASE, BASE + 3 * MIB);
}

/* Wherever it begins, and as long as the overlap. */
static void a_range_across_pieces_lies_in_one(void **state)
{
	const size_t length = 200 * MIB;

	(void)state;
	for (size_t at = 0; at + SMD_RDMA_MEMORY_OVERLAP <= length; at += 3 * MIB + 5) {
		smd_rdma_region_put(
			get_in(BASE + at, SMD_RDMA_MEMORY_OVERLAP, BASE, length, SMD_RDMA_READ));
	}
	assert_in_range(registrar.count, 1, 7);
}

static void a_range_longer_than_a_piece_is_registered_whole(void **state)
{
	(void)state;
	smd_rdma_region_put(get_in(BASE + 40 * MIB, 90 * MIB, BASE, 200 * MIB, SMD_RDMA_READ));
	assert_last(BASE + 32 * MIB, BASE + 130 * MIB);
}

static void an_extent_that_does_not_hold_the_range_is_ignored(void **state)
{
	(void)state;
	smd_rdma_region_put(get_in(BASE, 2 * CHUNK, BASE, CHUNK, SMD_RDMA_READ));
	assert_last(BASE, BASE + 2 * CHUNK);
}

/* ---- bounds ---- */

static void the_least_recent_is_evicted(void **state)
{
	(void)state;
	use_cache(3, 0);
	for (uintptr_t i = 0; i < 3; i++) {
		use(BASE + i * CHUNK, CHUNK);
	}
	assert_registered(BASE, CHUNK);
	use(BASE + 3 * CHUNK, CHUNK);
	assert_int_equal(registrar.live, 3);
	assert_int_equal(smd_rdma_memory_counts(memory)->evictions, 1);
	assert_registered(BASE, CHUNK);
	assert_registered(BASE + 2 * CHUNK, CHUNK);
	assert_registered(BASE + 3 * CHUNK, CHUNK);
	assert_not_registered(BASE + CHUNK, CHUNK);
}

static void bytes_are_bounded_too(void **state)
{
	(void)state;
	use_cache(0, 4 * MIB);
	for (uintptr_t i = 0; i < 100; i++) {
		struct smd_rdma_region *region = get(BASE + i * 10 * MIB, (i % 3 + 1) * MIB);

		assert_in_range(registrar.pinned, 1, 4 * MIB);
		smd_rdma_region_put(region);
	}
	use(BASE, 5 * MIB);
	assert_int_equal(registrar.pinned, 0);
}

/* They are in use: the bound is on what is kept without need. */
static void what_is_in_use_is_not_evicted(void **state)
{
	struct smd_rdma_region *regions[5];

	(void)state;
	use_cache(2, 0);
	for (uintptr_t i = 0; i < 5; i++) {
		regions[i] = get(BASE + i * CHUNK, CHUNK);
	}
	assert_int_equal(registrar.live, 5);
	for (uintptr_t i = 0; i < 5; i++) {
		assert_registered(BASE + i * CHUNK, CHUNK);
	}
	for (uintptr_t i = 0; i < 5; i++) {
		smd_rdma_region_put(regions[i]);
	}
	assert_int_equal(registrar.live, 2);
	assert_int_equal(smd_rdma_memory_counts(memory)->evictions, 3);
}

static void several_may_use_one_region(void **state)
{
	struct smd_rdma_region *first = get(BASE, CHUNK);
	struct smd_rdma_region *second = get(BASE + 5, 1);

	(void)state;
	assert_ptr_equal(first, second);
	smd_rdma_memory_forget(memory, (void *)BASE, 1);
	smd_rdma_region_put(first);
	assert_int_equal(registrar.live, 1);
	smd_rdma_region_put(second);
	assert_int_equal(registrar.live, 0);
}

/* ---- memory that is unmapped ---- */

static void what_was_unmapped_is_registered_again(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	use(BASE + 4 * CHUNK, CHUNK);
	unmap(BASE + CHUNK - 4096, 8192);
	assert_not_registered(BASE, CHUNK);
	assert_registered(BASE + 4 * CHUNK, CHUNK);
	assert_int_equal(smd_rdma_memory_counts(memory)->stale, 1);
}

static void a_neighbour_that_was_unmapped_is_not_ours(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	unmap(BASE - CHUNK, CHUNK);
	unmap(BASE + CHUNK, CHUNK);
	assert_registered(BASE, CHUNK);
}

static void a_refresh_deregisters_at_once(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	unmap(BASE, 4096);
	smd_rdma_memory_refresh(memory);
	assert_int_equal(registrar.live, 0);
}

static void unmapped_while_in_use_it_lives_until_it_is_put(void **state)
{
	struct smd_rdma_region *region = get(BASE, CHUNK);

	(void)state;
	unmap(BASE, CHUNK);
	smd_rdma_memory_refresh(memory);
	assert_true(registrar_of(region)->live);
	assert_not_registered(BASE, CHUNK);
	assert_true(registrar_of(region)->live);
	smd_rdma_region_put(region);
	assert_int_equal(registrar.live, 1);
	assert_registered(BASE, CHUNK);
}

static void who_has_fallen_behind_keeps_nothing(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	use(BASE + 9 * CHUNK, CHUNK);
	unmap(0, UINTPTR_MAX);
	smd_rdma_memory_refresh(memory);
	assert_int_equal(registrar.live, 0);
}

static void a_watch_that_does_not_settle_keeps_nothing(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	watch.unsettled = true;
	smd_rdma_memory_refresh(memory);
	assert_int_equal(registrar.live, 0);
}

static void what_was_told_before_a_cache_is_not_about_it(void **state)
{
	(void)state;
	unmap(BASE, CHUNK);
	use_cache(0, 0);
	use(BASE, CHUNK);
	assert_registered(BASE, CHUNK);
}

static void what_is_forgotten_is_registered_again(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	smd_rdma_memory_forget(memory, (void *)(BASE + CHUNK), CHUNK);
	assert_registered(BASE, CHUNK);
	smd_rdma_memory_forget(memory, (void *)(BASE + CHUNK - 1), CHUNK);
	assert_not_registered(BASE, CHUNK);
}

/* Only the range itself, and never for two: nobody would tell when its memory goes. */
static void what_cannot_be_watched_is_registered_for_one_use(void **state)
{
	struct smd_rdma_region *first;
	struct smd_rdma_region *second;

	(void)state;
	watch.err = -EINVAL;
	first = get_in(BASE + CHUNK, CHUNK, BASE, 100 * MIB, SMD_RDMA_READ);
	assert_last(BASE + CHUNK, BASE + 2 * CHUNK);
	second = get_in(BASE + CHUNK, CHUNK, BASE, 100 * MIB, SMD_RDMA_READ);
	assert_ptr_not_equal(first, second);
	smd_rdma_region_put(first);
	assert_int_equal(registrar.live, 1);
	smd_rdma_region_put(second);
	assert_int_equal(registrar.live, 0);
	assert_int_equal(smd_rdma_memory_counts(memory)->hits, 0);
}

/* ---- failures ---- */

static void too_much_pinned_memory_is_evicted_and_tried_again(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	registrar.limit = 4 * MIB;
	region = get(BASE, MIB);
	use(BASE + 10 * MIB, MIB);
	use(BASE + 20 * MIB, MIB);
	use(BASE + 30 * MIB, 3 * MIB);
	assert_int_equal(registrar.live, 2);
	assert_int_equal(smd_rdma_memory_counts(memory)->refusals, 0);
	assert_registered(BASE, MIB);
	smd_rdma_region_put(region);
}

static void a_bad_address_evicts_nothing(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	use(BASE, CHUNK);
	registrar.err = -EFAULT;
	assert_int_equal(find_in(BASE + CHUNK, CHUNK, 0, 0, SMD_RDMA_READ, &region), -EFAULT);
	assert_registered(BASE, CHUNK);
}

static void fill_to_the_limit(struct smd_rdma_region **region)
{
	registrar.limit = MIB;
	*region = get(BASE, MIB);
}

/* Not each of a buffer's chunks asks the card again. */
static void a_refused_buffer_is_not_asked_for_at_once(void **state)
{
	struct smd_rdma_region *all;
	struct smd_rdma_region *region;
	unsigned before;

	(void)state;
	fill_to_the_limit(&all);
	before = registrar.asked;
	for (uintptr_t i = 0; i < 1000; i++) {
		assert_int_equal(find_in(BASE + (100 + i) * MIB, CHUNK, BASE + 100 * MIB,
					 1000 * MIB, SMD_RDMA_WRITE, &region),
			-ENOMEM);
	}
	assert_in_range(registrar.asked, before + 1, before + 100);
	smd_rdma_region_put(all);
}

static void a_refusal_ends_with_time(void **state)
{
	struct smd_rdma_region *all;
	struct smd_rdma_region *region;

	(void)state;
	fill_to_the_limit(&all);
	assert_int_equal(find_in(BASE + 5 * MIB, MIB, 0, 0, SMD_RDMA_READ, &region), -ENOMEM);
	registrar.limit = UINT64_MAX;
	while (find_in(BASE + 5 * MIB, MIB, 0, 0, SMD_RDMA_READ, &region)) {
		usleep(10000);
	}
	smd_rdma_region_put(region);
	smd_rdma_region_put(all);
}

static void a_refusal_ends_with_a_deregistration(void **state)
{
	struct smd_rdma_region *all;
	struct smd_rdma_region *region;

	(void)state;
	watch.err = -EINVAL;
	fill_to_the_limit(&all);
	assert_int_equal(find_in(BASE + 5 * MIB, MIB, 0, 0, SMD_RDMA_READ, &region), -ENOMEM);
	smd_rdma_region_put(all);
	use(BASE + 5 * MIB, MIB);
}

static void a_refusal_ends_when_its_memory_is_unmapped(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	registrar.err = -EFAULT;
	assert_int_equal(find_in(BASE, MIB, 0, 0, SMD_RDMA_READ, &region), -EFAULT);
	registrar.err = 0;
	unmap(BASE, MIB);
	use(BASE, MIB);
}

static void a_refused_buffer_refuses_no_other(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	registrar.err = -EFAULT;
	assert_int_equal(find_in(BASE, MIB, BASE, 3 * MIB, SMD_RDMA_WRITE, &region), -EFAULT);
	registrar.err = 0;
	use(BASE + 3 * MIB, MIB);
	use(BASE, MIB);
}

/* ---- declared memory ---- */

#define POOL_PIECE (8 * MIB)
#define POOL_SIZE  (21 * MIB)

static void declare_pool(void)
{
	assert_int_equal(
		smd_rdma_memory_declare(memory, (void *)BASE, POOL_SIZE, POOL_PIECE, CHUNK), 0);
}

static void declared_memory_is_registered_when_it_is_used(void **state)
{
	(void)state;
	declare_pool();
	assert_int_equal(registrar.asked, 0);
	use(BASE + 9 * MIB, CHUNK);
	assert_last(BASE + 8 * MIB, BASE + 17 * MIB);
	assert_int_equal(last()->access, SMD_RDMA_WRITE);
	use(BASE + 20 * MIB, CHUNK);
	assert_last(BASE + 16 * MIB, BASE + POOL_SIZE);
	for (uintptr_t at = 0; at + CHUNK <= POOL_SIZE; at += 4096 + 3) {
		use(BASE + at, CHUNK);
	}
	assert_int_equal(registrar.count, 3);
}

static void declared_memory_is_not_evicted_or_forgotten(void **state)
{
	(void)state;
	use_cache(1, 0);
	declare_pool();
	use(BASE, CHUNK);
	use(BASE + 8 * MIB, CHUNK);
	use(BASE + 100 * MIB, CHUNK);
	unmap(0, UINTPTR_MAX);
	assert_registered(BASE, CHUNK);
	assert_registered(BASE + 8 * MIB, CHUNK);
}

static void more_than_the_largest_is_a_buffer(void **state)
{
	(void)state;
	declare_pool();
	use(BASE, CHUNK + 1);
	assert_last(BASE, BASE + CHUNK + 1);
	use(BASE + POOL_SIZE - 1, 2);
	assert_last(BASE + POOL_SIZE - 1, BASE + POOL_SIZE + 1);
}

static void withdrawn_memory_is_deregistered(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	declare_pool();
	region = get(BASE, CHUNK);
	use(BASE + 8 * MIB, CHUNK);
	smd_rdma_memory_withdraw(memory, (void *)(BASE + 1), POOL_SIZE - 1);
	smd_rdma_memory_withdraw(memory, (void *)BASE, POOL_SIZE - 1);
	assert_int_equal(registrar.live, 2);
	smd_rdma_memory_withdraw(memory, (void *)BASE, POOL_SIZE);
	assert_int_equal(registrar.live, 1);
	smd_rdma_region_put(region);
	assert_int_equal(registrar.live, 0);
	use(BASE, CHUNK);
	assert_last(BASE, BASE + CHUNK);
}

static void a_declared_piece_that_is_refused_comes_later(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	declare_pool();
	use(BASE + 100 * MIB, CHUNK);
	registrar.limit = 8 * MIB;
	assert_int_equal(find_in(BASE, CHUNK, 0, 0, SMD_RDMA_WRITE, &region), -ENOMEM);
	registrar.limit = UINT64_MAX;
	smd_rdma_memory_forget(memory, (void *)BASE, 1);
	use(BASE, CHUNK);
	assert_last(BASE, BASE + 9 * MIB);
}

static void nothing_is_not_declared(void **state)
{
	(void)state;
	assert_int_equal(smd_rdma_memory_declare(memory, (void *)BASE, 0, MIB, CHUNK), -EINVAL);
	assert_int_equal(smd_rdma_memory_declare(memory, (void *)BASE, MIB, 0, CHUNK), -EINVAL);
}

static void declared_twice_it_is_declared_once(void **state)
{
	(void)state;
	declare_pool();
	use(BASE, CHUNK);
	declare_pool();
	use(BASE, CHUNK);
	assert_int_equal(registrar.count, 1);
	smd_rdma_memory_withdraw(memory, (void *)BASE, POOL_SIZE);
	assert_int_equal(registrar.live, 0);
}

static void declared_memory_overlaps_no_other(void **state)
{
	(void)state;
	declare_pool();
	assert_int_equal(
		smd_rdma_memory_declare(memory, (void *)(BASE + MIB), MIB, MIB, CHUNK), -EEXIST);
	assert_int_equal(smd_rdma_memory_declare_device(memory, (void *)BASE, MIB, 3, 0), -EEXIST);
	assert_int_equal(
		smd_rdma_memory_declare_device(memory, (void *)(BASE + POOL_SIZE - 1), MIB, 3, 0),
		-EEXIST);
	assert_int_equal(
		smd_rdma_memory_declare_device(memory, (void *)(BASE + POOL_SIZE), MIB, 3, 0), 0);
}

/* ---- memory of a device ---- */

static void memory_of_a_device_is_registered_at_once_and_whole(void **state)
{
	(void)state;
	assert_int_equal(
		smd_rdma_memory_declare_device(memory, (void *)(BASE + 256), 99 * MIB, 7, 256), 0);
	assert_last(BASE + 256, BASE + 256 + 99 * MIB);
	assert_true(last()->device);
	assert_int_equal(last()->fd, 7);
	assert_int_equal(last()->offset, 256);
	assert_int_equal(
		smd_rdma_memory_declare_device(memory, (void *)(BASE + 256), 99 * MIB, 8, 256), 0);
	watch.err = -EINVAL;
	unmap(0, UINTPTR_MAX);
	use(BASE + 256, 99 * MIB);
	use(BASE + 50 * MIB, CHUNK);
	assert_int_equal(registrar.asked, 1);
}

static void memory_of_a_device_is_known_from_the_hosts(void **state)
{
	const void *at = (void *)(BASE + MIB);

	(void)state;
	assert_false(smd_rdma_memory_has_device(memory, at, MIB));
	assert_int_equal(smd_rdma_memory_declare_device(memory, (void *)at, MIB, 7, 0), 0);
	assert_true(smd_rdma_memory_has_device(memory, at, MIB));
	assert_true(smd_rdma_memory_has_device(memory, (const char *)at + MIB - 1, 1));
	assert_false(smd_rdma_memory_has_device(memory, (const char *)at + 1, MIB));
	assert_false(smd_rdma_memory_has_device(memory, (const char *)at - 1, MIB));
	assert_int_equal(
		smd_rdma_memory_declare(memory, (void *)(BASE + 2 * MIB), MIB, MIB, MIB), 0);
	assert_false(smd_rdma_memory_has_device(memory, (void *)(BASE + 2 * MIB), MIB));
	smd_rdma_memory_withdraw(memory, at, MIB);
	assert_false(smd_rdma_memory_has_device(memory, at, MIB));
}

static void withdrawn_memory_of_a_device_lives_while_it_is_used(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	assert_int_equal(smd_rdma_memory_declare_device(memory, (void *)BASE, MIB, 7, 0), 0);
	region = get(BASE, CHUNK);
	smd_rdma_memory_withdraw(memory, (void *)BASE, MIB);
	assert_int_equal(registrar.live, 1);
	assert_int_equal(smd_rdma_memory_declare_device(memory, (void *)BASE, 2 * MIB, 8, 0), 0);
	assert_int_equal(registrar.live, 2);
	assert_int_equal(last()->fd, 8);
	smd_rdma_region_put(region);
	assert_int_equal(registrar.live, 1);
	assert_registered(BASE, 2 * MIB);
}

static void a_card_may_refuse_memory_of_a_device(void **state)
{
	const struct smd_rdma_memory_config config = {.owner = &registrar};
	struct smd_rdma_memory *none = smd_rdma_memory_create(&config);

	(void)state;
	registrar.err = -EOPNOTSUPP;
	assert_int_equal(
		smd_rdma_memory_declare_device(memory, (void *)BASE, MIB, 7, 0), -EOPNOTSUPP);
	assert_false(smd_rdma_memory_has_device(memory, (void *)BASE, MIB));
	assert_int_equal(smd_rdma_memory_declare_device(memory, (void *)BASE, 0, 7, 0), -EINVAL);
	assert_int_equal(smd_rdma_memory_declare_device(none, (void *)BASE, MIB, 7, 0), -ENOTSUP);
	smd_rdma_memory_destroy(none);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_registered_is_found_again),
		TEST(a_range_that_sticks_out_is_not_found),
		TEST(two_that_touch_are_not_one),
		TEST(writing_needs_a_registration_for_writing),
		TEST(what_may_be_written_may_be_read),
		TEST(read_only_memory_is_a_source),
		TEST(a_buffer_is_registered_in_pieces),
		TEST(pieces_overlap_and_end_with_the_buffer),
		TEST(a_small_buffer_is_one_piece),
		TEST(a_range_across_pieces_lies_in_one),
		TEST(a_range_longer_than_a_piece_is_registered_whole),
		TEST(an_extent_that_does_not_hold_the_range_is_ignored),
		TEST(the_least_recent_is_evicted),
		TEST(bytes_are_bounded_too),
		TEST(what_is_in_use_is_not_evicted),
		TEST(several_may_use_one_region),
		TEST(what_was_unmapped_is_registered_again),
		TEST(a_neighbour_that_was_unmapped_is_not_ours),
		TEST(a_refresh_deregisters_at_once),
		TEST(unmapped_while_in_use_it_lives_until_it_is_put),
		TEST(who_has_fallen_behind_keeps_nothing),
		TEST(a_watch_that_does_not_settle_keeps_nothing),
		TEST(what_was_told_before_a_cache_is_not_about_it),
		TEST(what_is_forgotten_is_registered_again),
		TEST(what_cannot_be_watched_is_registered_for_one_use),
		TEST(too_much_pinned_memory_is_evicted_and_tried_again),
		TEST(a_bad_address_evicts_nothing),
		TEST(a_refused_buffer_is_not_asked_for_at_once),
		TEST(a_refusal_ends_with_time),
		TEST(a_refusal_ends_with_a_deregistration),
		TEST(a_refusal_ends_when_its_memory_is_unmapped),
		TEST(a_refused_buffer_refuses_no_other),
		TEST(declared_memory_is_registered_when_it_is_used),
		TEST(declared_memory_is_not_evicted_or_forgotten),
		TEST(more_than_the_largest_is_a_buffer),
		TEST(withdrawn_memory_is_deregistered),
		TEST(a_declared_piece_that_is_refused_comes_later),
		TEST(nothing_is_not_declared),
		TEST(declared_twice_it_is_declared_once),
		TEST(declared_memory_overlaps_no_other),
		TEST(memory_of_a_device_is_registered_at_once_and_whole),
		TEST(memory_of_a_device_is_known_from_the_hosts),
		TEST(withdrawn_memory_of_a_device_lives_while_it_is_used),
		TEST(a_card_may_refuse_memory_of_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
