/*
 * What the registration cache does with memory that it was told of before: of the host, which it
 * registers piece by piece when it is used, and of a device, at once and whole.
 */
#include <errno.h>

#include "cache.h"

/* ---- registered memory ---- */

#define POOL_PIECE (8 * MIB)
#define POOL_SIZE  (21 * MIB)

static void register_pool(void)
{
	assert_int_equal(
		smd_rdma_memory_register(memory, (void *)BASE, POOL_SIZE, POOL_PIECE, CHUNK), 0);
}

static void registered_memory_is_registered_when_it_is_used(void **state)
{
	(void)state;
	register_pool();
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

static void registered_memory_is_not_evicted_or_forgotten(void **state)
{
	(void)state;
	cache_use(1, 0);
	register_pool();
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
	register_pool();
	use(BASE, CHUNK + 1);
	assert_last(BASE, BASE + CHUNK + 1);
	use(BASE + POOL_SIZE - 1, 2);
	assert_last(BASE + POOL_SIZE - 1, BASE + POOL_SIZE + 1);
}

static void deregistered_memory_leaves_the_cache(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	register_pool();
	region = get(BASE, CHUNK);
	use(BASE + 8 * MIB, CHUNK);
	smd_rdma_memory_deregister(memory, (void *)(BASE + 1), POOL_SIZE - 1);
	smd_rdma_memory_deregister(memory, (void *)BASE, POOL_SIZE - 1);
	assert_int_equal(registrar.live, 2);
	smd_rdma_memory_deregister(memory, (void *)BASE, POOL_SIZE);
	assert_int_equal(registrar.live, 1);
	smd_rdma_region_put(region);
	assert_int_equal(registrar.live, 0);
	use(BASE, CHUNK);
	assert_last(BASE, BASE + CHUNK);
}

static void a_registered_piece_that_is_refused_comes_later(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	register_pool();
	use(BASE + 100 * MIB, CHUNK);
	registrar.limit = 8 * MIB;
	assert_int_equal(find_in(BASE, CHUNK, 0, 0, SMD_RDMA_WRITE, &region), -ENOMEM);
	registrar.limit = UINT64_MAX;
	smd_rdma_memory_forget(memory, (void *)BASE, 1);
	use(BASE, CHUNK);
	assert_last(BASE, BASE + 9 * MIB);
}

static void nothing_is_not_registered(void **state)
{
	(void)state;
	assert_int_equal(smd_rdma_memory_register(memory, (void *)BASE, 0, MIB, CHUNK), -EINVAL);
	assert_int_equal(smd_rdma_memory_register(memory, (void *)BASE, MIB, 0, CHUNK), -EINVAL);
}

static void registered_twice_counts_once(void **state)
{
	(void)state;
	register_pool();
	use(BASE, CHUNK);
	register_pool();
	use(BASE, CHUNK);
	assert_int_equal(registrar.count, 1);
	smd_rdma_memory_deregister(memory, (void *)BASE, POOL_SIZE);
	assert_int_equal(registrar.live, 0);
}

static void registered_memory_overlaps_no_other(void **state)
{
	(void)state;
	register_pool();
	assert_int_equal(
		smd_rdma_memory_register(memory, (void *)(BASE + MIB), MIB, MIB, CHUNK), -EEXIST);
	assert_int_equal(smd_rdma_memory_register_device(memory, (void *)BASE, MIB, 3, 0), -EEXIST);
	assert_int_equal(
		smd_rdma_memory_register_device(memory, (void *)(BASE + POOL_SIZE - 1), MIB, 3, 0),
		-EEXIST);
	assert_int_equal(
		smd_rdma_memory_register_device(memory, (void *)(BASE + POOL_SIZE), MIB, 3, 0), 0);
}

/* ---- memory of a device ---- */

/* Whoever has freed what was there first may say so later: what has come last is found. */
static void what_came_last_of_a_device_is_found(void **state)
{
	void *first = (void *)BASE, *second = (void *)(BASE + MIB);
	struct smd_rdma_region *region;

	(void)state;
	assert_int_equal(smd_rdma_memory_register_device(memory, first, 2 * MIB, 7, 0), 0);
	assert_int_equal(smd_rdma_memory_register_device(memory, second, 2 * MIB, 8, 0), 0);
	assert_int_equal(registrar.live, 2);
	region = get(BASE + MIB, CHUNK);
	assert_true(region->node.begin == BASE + MIB);
	smd_rdma_region_put(region);
	region = get(BASE, CHUNK);
	assert_true(region->node.begin == BASE);
	smd_rdma_region_put(region);
	smd_rdma_memory_deregister(memory, first, 2 * MIB);
	assert_int_equal(registrar.live, 1);
	region = get(BASE + MIB, CHUNK);
	assert_true(region->node.begin == BASE + MIB);
	smd_rdma_region_put(region);
}

static void memory_of_a_device_is_registered_at_once_and_whole(void **state)
{
	(void)state;
	assert_int_equal(
		smd_rdma_memory_register_device(memory, (void *)(BASE + 256), 99 * MIB, 7, 256), 0);
	assert_last(BASE + 256, BASE + 256 + 99 * MIB);
	assert_true(last()->device);
	assert_int_equal(last()->fd, 7);
	assert_int_equal(last()->offset, 256);
	assert_int_equal(
		smd_rdma_memory_register_device(memory, (void *)(BASE + 256), 99 * MIB, 8, 256), 0);
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
	assert_int_equal(smd_rdma_memory_register_device(memory, (void *)at, MIB, 7, 0), 0);
	assert_true(smd_rdma_memory_has_device(memory, at, MIB));
	assert_true(smd_rdma_memory_has_device(memory, (const char *)at + MIB - 1, 1));
	assert_false(smd_rdma_memory_has_device(memory, (const char *)at + 1, MIB));
	assert_false(smd_rdma_memory_has_device(memory, (const char *)at - 1, MIB));
	assert_int_equal(
		smd_rdma_memory_register(memory, (void *)(BASE + 2 * MIB), MIB, MIB, MIB), 0);
	assert_false(smd_rdma_memory_has_device(memory, (void *)(BASE + 2 * MIB), MIB));
	smd_rdma_memory_deregister(memory, at, MIB);
	assert_false(smd_rdma_memory_has_device(memory, at, MIB));
}

static void deregistered_memory_of_a_device_lives_while_it_is_used(void **state)
{
	struct smd_rdma_region *region;

	(void)state;
	assert_int_equal(smd_rdma_memory_register_device(memory, (void *)BASE, MIB, 7, 0), 0);
	region = get(BASE, CHUNK);
	smd_rdma_memory_deregister(memory, (void *)BASE, MIB);
	assert_int_equal(registrar.live, 1);
	assert_int_equal(smd_rdma_memory_register_device(memory, (void *)BASE, 2 * MIB, 8, 0), 0);
	assert_int_equal(registrar.live, 2);
	assert_int_equal(last()->fd, 8);
	smd_rdma_region_put(region);
	assert_int_equal(registrar.live, 1);
	assert_registered(BASE, 2 * MIB);
}

static void a_card_may_refuse_memory_of_a_device(void **state)
{
	const struct smd_rdma_memory_config config = {.owner = &registrar, .node = -1};
	struct smd_rdma_memory *none = smd_rdma_memory_create(&config);

	(void)state;
	registrar.err = -EOPNOTSUPP;
	assert_int_equal(
		smd_rdma_memory_register_device(memory, (void *)BASE, MIB, 7, 0), -EOPNOTSUPP);
	assert_false(smd_rdma_memory_has_device(memory, (void *)BASE, MIB));
	assert_int_equal(smd_rdma_memory_register_device(memory, (void *)BASE, 0, 7, 0), -EINVAL);
	assert_int_equal(smd_rdma_memory_register_device(none, (void *)BASE, MIB, 7, 0), -ENOTSUP);
	smd_rdma_memory_destroy(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(registered_memory_is_registered_when_it_is_used),
		CACHE_TEST(registered_memory_is_not_evicted_or_forgotten),
		CACHE_TEST(more_than_the_largest_is_a_buffer),
		CACHE_TEST(deregistered_memory_leaves_the_cache),
		CACHE_TEST(a_registered_piece_that_is_refused_comes_later),
		CACHE_TEST(nothing_is_not_registered),
		CACHE_TEST(registered_twice_counts_once),
		CACHE_TEST(registered_memory_overlaps_no_other),
		CACHE_TEST(what_came_last_of_a_device_is_found),
		CACHE_TEST(memory_of_a_device_is_registered_at_once_and_whole),
		CACHE_TEST(memory_of_a_device_is_known_from_the_hosts),
		CACHE_TEST(deregistered_memory_of_a_device_lives_while_it_is_used),
		CACHE_TEST(a_card_may_refuse_memory_of_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
