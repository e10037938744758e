/* Shards: every training example in exactly one, no held-out one in any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "worker/examples/digits/shard.h"

#define COUNT 1797

static void shards_cover_the_training_set_once(void **state)
{
	(void)state;
	for (int nranks = 1; nranks <= 7; nranks++) {
		int seen[COUNT] = {0};
		size_t smallest = COUNT;
		struct digits_shard shard;

		for (int rank = 0; rank < nranks; rank++) {
			assert_int_equal(digits_shard_create(COUNT, nranks, rank, &shard), 0);
			for (size_t i = 0; i < shard.count; i++) {
				seen[shard.examples[i]]++;
			}
			smallest = shard.count < smallest ? shard.count : smallest;
			digits_shard_free(&shard);
		}
		assert_int_equal(smallest, digits_shard_smallest(COUNT, nranks));
		assert_int_equal(digits_shard_create_held_out(COUNT, &shard), 0);
		assert_int_equal(shard.count, 359);
		for (size_t i = 0; i < shard.count; i++) {
			assert_int_equal(seen[shard.examples[i]], 0);
			seen[shard.examples[i]] = 1;
		}
		digits_shard_free(&shard);
		for (int i = 0; i < COUNT; i++) {
			assert_int_equal(seen[i], 1);
		}
	}
}

static void a_shuffle_keeps_the_examples_and_follows_the_seed(void **state)
{
	struct digits_prng first = digits_prng_create(5, 1);
	struct digits_prng second = digits_prng_create(5, 1);
	struct digits_shard a;
	struct digits_shard b;
	int seen[COUNT] = {0};

	(void)state;
	assert_int_equal(digits_shard_create(COUNT, 4, 2, &a), 0);
	assert_int_equal(digits_shard_create(COUNT, 4, 2, &b), 0);
	for (size_t i = 0; i < b.count; i++) {
		seen[b.examples[i]] = 1;
	}
	digits_shard_shuffle(&a, &first);
	assert_memory_not_equal(a.examples, b.examples, a.count * sizeof(*a.examples));
	for (size_t i = 0; i < a.count; i++) {
		assert_int_equal(seen[a.examples[i]], 1);
		seen[a.examples[i]] = 0;
	}
	digits_shard_shuffle(&b, &second);
	assert_memory_equal(a.examples, b.examples, a.count * sizeof(*a.examples));
	digits_shard_free(&a);
	digits_shard_free(&b);
}

static void more_ranks_than_examples(void **state)
{
	struct digits_shard shard;

	(void)state;
	assert_int_equal(digits_shard_smallest(3, 8), 0);
	assert_int_equal(digits_shard_create(3, 8, 7, &shard), 0);
	assert_int_equal(shard.count, 0);
	digits_shard_free(&shard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shards_cover_the_training_set_once),
		cmocka_unit_test(a_shuffle_keeps_the_examples_and_follows_the_seed),
		cmocka_unit_test(more_ranks_than_examples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
