/*
 * A registration cache under test: what its tests ask of it and see of it. The card is the
 * registrar, the memory watch is played here, and addresses are only numbers.
 */
#ifndef SMD_TESTS_RDMA_CACHE_H
#define SMD_TESTS_RDMA_CACHE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reduction_server/transport/rdma/memory_watch.h"
#include "registrar.h"

#define MIB   ((size_t)1 << 20)
#define CHUNK MIB
#define BASE  ((uintptr_t)1 << 40)

/* What the memory watch does. */
struct cache_watch {
	int err; /* what adding fails with */
	bool unsettled;
	struct smd_memory_range told[16];
	uint64_t count;
};

extern struct cache_watch watch;
extern struct smd_rdma_memory *memory; /* the cache */

/* Around each test. Everything that was registered must be deregistered with the cache. */
int cache_set_up(void **state);
int cache_tear_down(void **state);
/* Another cache instead. */
void cache_use(unsigned entries_max, uint64_t bytes_max);

/* The memory watch tells of it. */
void unmap(uintptr_t begin, size_t length);

int find_in(uintptr_t begin, size_t length, uintptr_t extent, size_t extent_length,
	enum smd_rdma_access access, struct smd_rdma_region **out);
/* What is found contains what was asked for, and may be used so. */
struct smd_rdma_region *get_in(uintptr_t begin, size_t length, uintptr_t extent,
	size_t extent_length, enum smd_rdma_access access);
struct smd_rdma_region *get(uintptr_t begin, size_t length);
/* Gets it, and puts it back. */
void use(uintptr_t begin, size_t length);

void assert_registered(uintptr_t begin, size_t length);
void assert_not_registered(uintptr_t begin, size_t length);
/* The last registration. */
const struct registration *last(void);
void assert_last(uintptr_t begin, uintptr_t end);

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, cache_set_up, cache_tear_down)

#endif
