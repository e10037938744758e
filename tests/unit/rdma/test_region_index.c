/* Regions that overlap each other are found by what they cover, however many there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>

#include "reduction_server/base/random.h"
#include "reduction_server/transport/rdma/region_index.h"

enum { READ, WRITE };

static struct smd_region_node node_of(uintptr_t begin, uintptr_t end, unsigned access)
{
	return (struct smd_region_node){.begin = begin, .end = end, .access = access};
}

/* Pieces of one buffer overlap: each begins 32 after the one before, and goes on for 48. */
static void pieces_that_overlap_are_found(void **state)
{
	struct smd_region_node pieces[4];
	struct smd_region_index index = {NULL, 0};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		pieces[i] = node_of(1000 + 32 * i, 1000 + 32 * i + 48, READ);
		smd_region_index_add(&index, &pieces[i]);
	}
	assert_ptr_equal(smd_region_index_find(&index, 1000, 1020, READ), &pieces[0]);
	assert_ptr_equal(smd_region_index_find(&index, 1020, 1048, READ), &pieces[0]);
	assert_ptr_equal(smd_region_index_find(&index, 1040, 1049, READ), &pieces[1]);
	assert_ptr_equal(smd_region_index_find(&index, 1100, 1144, READ), &pieces[3]);
	/* None has all of it, though together they do; none is for writing; and beside them is
	 * none. */
	assert_null(smd_region_index_find(&index, 1000, 1049, READ));
	assert_null(smd_region_index_find(&index, 1000, 1020, WRITE));
	assert_null(smd_region_index_find(&index, 999, 1001, READ));
	assert_null(smd_region_index_find(&index, 1143, 1145, READ));
}

/* A long one that begins before many short ones is seen behind them. */
static void a_long_one_is_found_behind_short_ones(void **state)
{
	struct smd_region_node longest = node_of(10, 1000, WRITE);
	struct smd_region_node nodes[50];
	struct smd_region_index index = {NULL, 0};

	(void)state;
	smd_region_index_add(&index, &longest);
	for (unsigned i = 0; i < 50; i++) {
		nodes[i] = node_of(10 + i, 20 + i, READ);
		smd_region_index_add(&index, &nodes[i]);
	}
	assert_ptr_equal(smd_region_index_find(&index, 40, 900, READ), &longest);
	assert_ptr_equal(smd_region_index_find(&index, 40, 42, WRITE), &longest);
	smd_region_index_remove(&index, &longest);
	assert_null(smd_region_index_find(&index, 40, 900, READ));
	assert_non_null(smd_region_index_find(&index, 40, 42, READ));
}

/* ---- against all of them, one by one ---- */

enum { NODES = 300, STEPS = 20000, SPACE = 2000 };

static struct smd_region_node nodes[NODES];
static bool there[NODES];

static bool contains(
	const struct smd_region_node *node, uintptr_t begin, uintptr_t end, unsigned access)
{
	return node->begin <= begin && node->end >= end && node->access >= access;
}

static bool overlaps(const struct smd_region_node *node, uintptr_t begin, uintptr_t end)
{
	return node->begin < end && begin < node->end;
}

static void assert_found(
	const struct smd_region_index *index, uintptr_t begin, uintptr_t end, unsigned access)
{
	const struct smd_region_node *found = smd_region_index_find(index, begin, end, access);
	const struct smd_region_node *other = smd_region_index_overlapping(index, begin, end);
	bool any_contains = false;
	bool any_overlaps = false;

	for (unsigned i = 0; i < NODES; i++) {
		any_contains |= there[i] && contains(&nodes[i], begin, end, access);
		any_overlaps |= there[i] && overlaps(&nodes[i], begin, end);
	}
	assert_int_equal(found != NULL, any_contains);
	assert_int_equal(other != NULL, any_overlaps);
	if (found) {
		assert_true(there[found - nodes] && contains(found, begin, end, access));
	}
	if (other) {
		assert_true(there[other - nodes] && overlaps(other, begin, end));
	}
}

static void it_finds_what_a_search_of_all_finds(void **state)
{
	struct smd_region_index index = {NULL, 0};
	uint64_t dice = 1;

	(void)state;
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)(smd_random_next(&dice) % NODES);
		uintptr_t begin = 1 + smd_random_next(&dice) % SPACE;
		uintptr_t end = begin + 1 + smd_random_next(&dice) % 100;

		if (there[i]) {
			smd_region_index_remove(&index, &nodes[i]);
		} else { /* some at the very same place */
			nodes[i] = node_of(begin, end, step % 3 == 0);
			smd_region_index_add(&index, &nodes[i]);
		}
		there[i] = !there[i];
		begin = 1 + smd_random_next(&dice) % SPACE;
		assert_found(&index, begin, begin + 1 + smd_random_next(&dice) % 60, step % 2);
	}
	for (unsigned i = 0; i < NODES; i++) {
		if (there[i]) {
			smd_region_index_remove(&index, &nodes[i]);
		}
	}
	assert_null(index.root);
}

/* ---- how deep it is ---- */

static unsigned depth_of(const struct smd_region_node *node)
{
	unsigned left = node ? depth_of(node->left) : 0;
	unsigned right = node ? depth_of(node->right) : 0;

	return node ? 1 + (left > right ? left : right) : 0;
}

/* 140 GB are 4,480 pieces, added in order: a search looks at some tens of them. */
static void thousands_are_some_tens_deep(void **state)
{
	enum { PIECES = 4480 };
	struct smd_region_node *pieces = calloc(PIECES, sizeof(*pieces));
	struct smd_region_index index = {NULL, 0};

	(void)state;
	for (uintptr_t i = 0; i < PIECES; i++) {
		pieces[i] = node_of(1 + i * 32, 1 + i * 32 + 48, WRITE);
		smd_region_index_add(&index, &pieces[i]);
	}
	assert_in_range(depth_of(index.root), 13, 60);
	free(pieces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_that_overlap_are_found),
		cmocka_unit_test(a_long_one_is_found_behind_short_ones),
		cmocka_unit_test(it_finds_what_a_search_of_all_finds),
		cmocka_unit_test(thousands_are_some_tens_deep),
	};

	return cmocka_run_group_tests_name("region index", tests, NULL, NULL);
}
