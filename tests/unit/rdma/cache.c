/* Plays the memory watch, and asks the cache for ranges. */
#include "cache.h"

struct smd_rdma_memory *memory;

/* ---- the memory watch of these tests ---- */

struct cache_watch watch;

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

void unmap(uintptr_t begin, size_t length)
{
	watch.told[watch.count++] = (struct smd_memory_range){begin, begin + length};
}

/* ---- helpers ---- */

int cache_set_up(void **state)
{
	(void)state;
	watch.err = 0;
	watch.unsettled = false;
	watch.count = 0;
	registrar_reset();
	memory = registrar_cache(0, 0);
	return 0;
}

void cache_use(unsigned entries_max, uint64_t bytes_max)
{
	smd_rdma_memory_destroy(memory);
	memory = registrar_cache(entries_max, bytes_max);
}

int cache_tear_down(void **state)
{
	(void)state;
	assert_int_equal(smd_rdma_memory_counts(memory)->pinned, registrar.pinned);
	smd_rdma_memory_destroy(memory);
	assert_int_equal(registrar.live, 0);
	return 0;
}

int find_in(uintptr_t begin, size_t length, uintptr_t extent, size_t extent_length,
	enum smd_rdma_access access, struct smd_rdma_region **out)
{
	return smd_rdma_memory_find(
		memory, (void *)begin, length, (void *)extent, extent_length, access, out);
}

struct smd_rdma_region *get_in(uintptr_t begin, size_t length, uintptr_t extent,
	size_t extent_length, enum smd_rdma_access access)
{
	struct smd_rdma_region *region = NULL;
	const struct registration *registration;

	assert_int_equal(find_in(begin, length, extent, extent_length, access, &region), 0);
	begin = (uintptr_t)smd_rdma_region_at(region, (void *)begin);
	registration = registrar_of(region);
	assert_true(registration->live);
	assert_true(registration->begin <= begin && begin + length <= registration->end);
	assert_true(registration->access >= access);
	assert_int_equal(region->keys.lkey, registration - registrar.all + 1000);
	assert_int_equal(region->keys.rkey, registration - registrar.all + 2000);
	return region;
}

struct smd_rdma_region *get(uintptr_t begin, size_t length)
{
	return get_in(begin, length, 0, 0, SMD_RDMA_READ);
}

void use(uintptr_t begin, size_t length)
{
	smd_rdma_region_put(get(begin, length));
}

void assert_registered(uintptr_t begin, size_t length)
{
	unsigned before = registrar.count;

	use(begin, length);
	assert_int_equal(registrar.count, before);
}

void assert_not_registered(uintptr_t begin, size_t length)
{
	unsigned before = registrar.count;

	use(begin, length);
	assert_int_equal(registrar.count, before + 1);
}

const struct registration *last(void)
{
	return &registrar.all[registrar.count - 1];
}

void assert_last(uintptr_t begin, uintptr_t end)
{
	assert_int_equal(last()->begin, begin);
	assert_int_equal(last()->end, end);
}
