/* What the registration cache finds, registers, keeps and drops of memory that it is asked for. */
#include <errno.h>
#include <unistd.h>

#include "cache.h"
#include "reduction_server/transport/rdma/bounce.h"

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
	cache_use(3, 0);
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
	cache_use(0, 4 * MIB);
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
	cache_use(2, 0);
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

static void invalidating_deregisters_at_once(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	unmap(BASE, 4096);
	smd_rdma_memory_invalidate(memory);
	assert_int_equal(registrar.live, 0);
}

static void unmapped_while_in_use_it_lives_until_it_is_put(void **state)
{
	struct smd_rdma_region *region = get(BASE, CHUNK);

	(void)state;
	unmap(BASE, CHUNK);
	smd_rdma_memory_invalidate(memory);
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
	smd_rdma_memory_invalidate(memory);
	assert_int_equal(registrar.live, 0);
}

static void a_watch_that_does_not_settle_keeps_nothing(void **state)
{
	(void)state;
	use(BASE, CHUNK);
	watch.unsettled = true;
	smd_rdma_memory_invalidate(memory);
	assert_int_equal(registrar.live, 0);
}

static void what_was_told_before_a_cache_is_not_about_it(void **state)
{
	(void)state;
	unmap(BASE, CHUNK);
	cache_use(0, 0);
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

/* ---- registered at once ---- */

static void a_pool_is_registered_before_it_is_used(void **state)
{
	(void)state;
	assert_int_equal(smd_rdma_memory_register(
				 memory, (void *)BASE, 100 * MIB, SMD_RDMA_MEMORY_PIECE, CHUNK),
		0);
	assert_int_equal(smd_rdma_memory_prepare(memory, (void *)BASE, 40 * MIB), 0);
	assert_int_equal(registrar.count, 2); /* of 32 MiB each */
	assert_int_equal(smd_rdma_memory_prepare(memory, (void *)BASE, 100 * MIB), 0);
	assert_int_equal(registrar.count, 4);
	assert_int_equal(smd_rdma_memory_prepare(memory, (void *)BASE, 100 * MIB), 0);
	for (size_t at = 0; at + CHUNK <= 100 * MIB; at += CHUNK / 2) {
		assert_registered(BASE + at, CHUNK);
	}
	assert_int_equal(smd_rdma_memory_prepare(memory, (void *)(BASE + 200 * MIB), MIB), -ENOENT);
	assert_int_equal(registrar.count, 4);
}

static void what_is_refused_then_is_registered_when_it_is_used(void **state)
{
	(void)state;
	registrar.limit = 70 * MIB;
	smd_rdma_memory_register(memory, (void *)BASE, 100 * MIB, SMD_RDMA_MEMORY_PIECE, CHUNK);
	assert_true(smd_rdma_memory_prepare(memory, (void *)BASE, 100 * MIB) < 0);
	assert_int_equal(registrar.count, 2);
	registrar.limit = UINT64_MAX;
	unmap(0, 1); /* refusals are forgotten */
	assert_registered(BASE, CHUNK);
	assert_not_registered(BASE + 99 * MIB, CHUNK);
}

/* ---- bounce slots ---- */

static void use_slots(uint64_t bytes)
{
	watch.err = -ENOSYS;
	registrar.bounce_max = bytes;
	cache_use(0, 0);
}

/* Of 512 KiB a slab has 16: nobody has another's, and what was registered once is enough. */
static void what_cannot_be_watched_goes_through_slots(void **state)
{
	struct smd_rdma_region *regions[16];

	(void)state;
	use_slots(SMD_RDMA_BOUNCE_SLAB);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 16; i++) {
			regions[i] = get(BASE + i * CHUNK, CHUNK / 2 - i);
			assert_non_null(regions[i]->slot);
			for (unsigned k = 0; k < i; k++) {
				assert_true(regions[i]->slot >= regions[k]->slot + CHUNK / 2 ||
					    regions[k]->slot >= regions[i]->slot + CHUNK / 2);
			}
		}
		for (unsigned i = 0; i < 16; i++) {
			smd_rdma_region_put(regions[i]);
		}
	}
	assert_int_equal(registrar.count, 1);
	assert_int_equal(smd_rdma_memory_counts(memory)->bounced, 48);
}

static void without_a_free_slot_memory_is_registered_for_one_use(void **state)
{
	struct smd_rdma_region *held[4];

	(void)state;
	use_slots(SMD_RDMA_BOUNCE_SLAB);
	for (unsigned i = 0; i < 4; i++) {
		held[i] = get(BASE + 2 * i * CHUNK, 2 * CHUNK);
	}
	assert_not_registered(BASE, 2 * CHUNK);
	assert_not_registered(BASE, SMD_RDMA_BOUNCE_SLAB + 1); /* nor are slots so long */
	smd_rdma_region_put(held[3]);
	held[3] = get(BASE, CHUNK + 1);
	assert_non_null(held[3]->slot);
	for (unsigned i = 0; i < 4; i++) {
		smd_rdma_region_put(held[i]);
	}
	use_slots(0);
	assert_not_registered(BASE, CHUNK);
}

/* As much as a slab or not, all that there may be is used. */
static void the_last_slab_may_be_shorter(void **state)
{
	struct smd_rdma_region *held[3];

	(void)state;
	use_slots(CHUNK);
	held[0] = get(BASE, CHUNK);
	assert_non_null(held[0]->slot);
	assert_not_registered(BASE, 100); /* that was all */
	smd_rdma_region_put(held[0]);
	assert_not_registered(BASE, CHUNK + 1);
	use_slots(SMD_RDMA_BOUNCE_SLAB + CHUNK);
	held[0] = get(BASE, SMD_RDMA_BOUNCE_SLAB);
	held[1] = get(BASE, CHUNK);
	assert_true(held[0]->slot && held[1]->slot);
	assert_int_equal(smd_rdma_memory_counts(memory)->pinned, SMD_RDMA_BOUNCE_SLAB + CHUNK);
	smd_rdma_region_put(held[0]);
	held[2] = get(BASE, SMD_RDMA_BOUNCE_SLAB);
	assert_non_null(held[2]->slot);
	assert_not_registered(BASE, 100);
	smd_rdma_region_put(held[1]);
	assert_not_registered(BASE, CHUNK + 1); /* the short one alone is free */
	smd_rdma_region_put(held[2]);
}

/* As when operations get other chunks. */
static void a_slab_that_nobody_uses_is_cut_anew(void **state)
{
	struct smd_rdma_region *small;

	(void)state;
	use_slots(SMD_RDMA_BOUNCE_SLAB);
	small = get(BASE, 100);
	assert_not_registered(BASE, CHUNK);
	smd_rdma_region_put(small);
	assert_registered(BASE, CHUNK);
	assert_registered(BASE, 100);
}

static void slots_that_cannot_be_had_are_not_asked_for_again(void **state)
{
	(void)state;
	use_slots(SMD_RDMA_BOUNCE_SLAB);
	registrar.limit = MIB;
	assert_not_registered(BASE, MIB);
	registrar.limit = UINT64_MAX;
	assert_not_registered(BASE, MIB);
	assert_int_equal(smd_rdma_memory_counts(memory)->bounced, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(what_was_registered_is_found_again),
		CACHE_TEST(a_range_that_sticks_out_is_not_found),
		CACHE_TEST(two_that_touch_are_not_one),
		CACHE_TEST(writing_needs_a_registration_for_writing),
		CACHE_TEST(what_may_be_written_may_be_read),
		CACHE_TEST(read_only_memory_is_a_source),
		CACHE_TEST(a_buffer_is_registered_in_pieces),
		CACHE_TEST(pieces_overlap_and_end_with_the_buffer),
		CACHE_TEST(a_small_buffer_is_one_piece),
		CACHE_TEST(a_range_across_pieces_lies_in_one),
		CACHE_TEST(a_range_longer_than_a_piece_is_registered_whole),
		CACHE_TEST(an_extent_that_does_not_hold_the_range_is_ignored),
		CACHE_TEST(the_least_recent_is_evicted),
		CACHE_TEST(bytes_are_bounded_too),
		CACHE_TEST(what_is_in_use_is_not_evicted),
		CACHE_TEST(several_may_use_one_region),
		CACHE_TEST(what_was_unmapped_is_registered_again),
		CACHE_TEST(a_neighbour_that_was_unmapped_is_not_ours),
		CACHE_TEST(invalidating_deregisters_at_once),
		CACHE_TEST(unmapped_while_in_use_it_lives_until_it_is_put),
		CACHE_TEST(who_has_fallen_behind_keeps_nothing),
		CACHE_TEST(a_watch_that_does_not_settle_keeps_nothing),
		CACHE_TEST(what_was_told_before_a_cache_is_not_about_it),
		CACHE_TEST(what_is_forgotten_is_registered_again),
		CACHE_TEST(what_cannot_be_watched_is_registered_for_one_use),
		CACHE_TEST(a_pool_is_registered_before_it_is_used),
		CACHE_TEST(what_is_refused_then_is_registered_when_it_is_used),
		CACHE_TEST(what_cannot_be_watched_goes_through_slots),
		CACHE_TEST(without_a_free_slot_memory_is_registered_for_one_use),
		CACHE_TEST(the_last_slab_may_be_shorter),
		CACHE_TEST(a_slab_that_nobody_uses_is_cut_anew),
		CACHE_TEST(slots_that_cannot_be_had_are_not_asked_for_again),
		CACHE_TEST(too_much_pinned_memory_is_evicted_and_tried_again),
		CACHE_TEST(a_bad_address_evicts_nothing),
		CACHE_TEST(a_refused_buffer_is_not_asked_for_at_once),
		CACHE_TEST(a_refusal_ends_with_time),
		CACHE_TEST(a_refusal_ends_with_a_deregistration),
		CACHE_TEST(a_refusal_ends_when_its_memory_is_unmapped),
		CACHE_TEST(a_refused_buffer_refuses_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
