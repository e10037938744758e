/* A shard's buffers: what is promised is there, no buffer is given out twice, and nothing is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/engine/buffer_pool.h"

#define BUFFER 4096
#define STRIDE SMD_BUFFER_POOL_STRIDE(BUFFER)

static void a_pool_holds_whole_buffers(void **state)
{
	struct smd_buffer_pool pool;

	(void)state;
	assert_int_equal(smd_buffer_pool_create(&pool, 10 * STRIDE + STRIDE - 1, BUFFER), 0);
	assert_int_equal(pool.total, 10);
	smd_buffer_pool_destroy(&pool);
	assert_int_equal(smd_buffer_pool_create(&pool, STRIDE - 1, BUFFER), -EINVAL);
}

static void promises_end_where_buffers_end(void **state)
{
	struct smd_buffer_pool pool;

	(void)state;
	assert_int_equal(smd_buffer_pool_create(&pool, 10 * STRIDE, BUFFER), 0);
	assert_true(smd_buffer_pool_reserve(&pool, 7));
	assert_false(smd_buffer_pool_reserve(&pool, 4)); /* and none of the four is kept */
	assert_true(smd_buffer_pool_reserve(&pool, 3));
	assert_false(smd_buffer_pool_reserve(&pool, 1));
	assert_true(smd_buffer_pool_reserve(&pool, 0));
	smd_buffer_pool_release(&pool, 5);
	assert_false(smd_buffer_pool_reserve(&pool, 6));
	assert_true(smd_buffer_pool_reserve(&pool, 5));
	assert_false(smd_buffer_pool_reserve(&pool, SIZE_MAX));
	smd_buffer_pool_destroy(&pool);
}

static void every_buffer_is_given_out_once(void **state)
{
	enum { TOTAL = 10 };
	struct smd_buffer_pool pool;
	uint8_t *taken[TOTAL];

	(void)state;
	assert_int_equal(smd_buffer_pool_create(&pool, TOTAL * STRIDE, BUFFER), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < TOTAL; i++) {
			taken[i] = smd_buffer_pool_take(&pool, 1, NULL);
			memset(taken[i], i, BUFFER);
		}
		for (int i = 0; i < TOTAL; i++) {
			assert_int_equal(taken[i][0], i);
			assert_int_equal(taken[i][BUFFER - 1], i);
			smd_buffer_pool_give(&pool, taken[(i * 3) % TOTAL]);
		}
	}
	smd_buffer_pool_destroy(&pool);
}

/* Each begins at another line of its page, so that the same place of many is in many cache sets. */
static void buffers_begin_at_different_lines(void **state)
{
	enum { TOTAL = 64 };
	struct smd_buffer_pool pool;
	uint8_t seen[4096 / 64] = {0};

	(void)state;
	assert_int_equal(
		smd_buffer_pool_create(&pool, TOTAL * SMD_BUFFER_POOL_STRIDE(1 << 16), 1 << 16), 0);
	for (int i = 0; i < TOTAL; i++) {
		uintptr_t place = (uintptr_t)smd_buffer_pool_take(&pool, 1, NULL);

		assert_int_equal(place % 64, 0);
		assert_int_equal(seen[place % 4096 / 64]++, 0);
	}
	smd_buffer_pool_destroy(&pool);
}

/* The one that was used last is still in the caches. */
static void the_last_buffer_given_back_is_the_next_one_taken(void **state)
{
	struct smd_buffer_pool pool;
	void *first;
	void *second;

	(void)state;
	assert_int_equal(smd_buffer_pool_create(&pool, 4 * STRIDE, BUFFER), 0);
	first = smd_buffer_pool_take(&pool, 1, NULL);
	second = smd_buffer_pool_take(&pool, 1, NULL);
	smd_buffer_pool_give(&pool, first);
	assert_ptr_equal(smd_buffer_pool_take(&pool, 1, NULL), first);
	smd_buffer_pool_give(&pool, second);
	assert_ptr_equal(smd_buffer_pool_take(&pool, 1, NULL), second);
	smd_buffer_pool_destroy(&pool);
}

/* Who must not see what others have left can tell. */
static void it_says_whose_a_buffer_was(void **state)
{
	struct smd_buffer_pool pool;
	void *first;
	bool others = true;

	(void)state;
	assert_int_equal(smd_buffer_pool_create(&pool, 4 * STRIDE, BUFFER), 0);
	first = smd_buffer_pool_take(&pool, 1, &others);
	assert_false(others); /* nobody's so far */
	smd_buffer_pool_give(&pool, first);
	assert_ptr_equal(smd_buffer_pool_take(&pool, 1, &others), first);
	assert_false(others);
	smd_buffer_pool_give(&pool, first);
	assert_ptr_equal(smd_buffer_pool_take(&pool, 2, &others), first);
	assert_true(others);
	smd_buffer_pool_give(&pool, first);
	smd_buffer_pool_take(&pool, 3, NULL); /* who does not clear it leaves it to the next */
	smd_buffer_pool_give(&pool, first);
	smd_buffer_pool_take(&pool, 3, &others);
	assert_true(others);
	smd_buffer_pool_destroy(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pool_holds_whole_buffers),
		cmocka_unit_test(promises_end_where_buffers_end),
		cmocka_unit_test(every_buffer_is_given_out_once),
		cmocka_unit_test(buffers_begin_at_different_lines),
		cmocka_unit_test(the_last_buffer_given_back_is_the_next_one_taken),
		cmocka_unit_test(it_says_whose_a_buffer_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
