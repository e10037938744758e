/* How much memory the slots get: the default, and the limits that are refused with both figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/engine/buffer_pool.h"
#include "reduction_server/engine/memory.h"

#define CHUNK (256u << 10)
#define LEAST (4 * 3 * SMD_BUFFER_POOL_STRIDE(CHUNK))

static void a_limit_that_fits_is_taken_as_it_is(void **state)
{
	uint64_t decided = 0;

	(void)state;
	assert_int_equal(smd_memory_decide(8 << 20, 4, CHUNK, &decided, NULL), 0);
	assert_int_equal(decided, 8 << 20);
}

static void the_least_is_a_slot_of_two_ranks_in_every_shard(void **state)
{
	struct smd_error error = {""};
	uint64_t decided = 77;

	(void)state;
	assert_int_equal(smd_memory_decide(LEAST, 4, CHUNK, &decided, &error), 0);
	assert_int_equal(decided, LEAST);
	assert_int_equal(smd_memory_decide(LEAST - 1, 4, CHUNK, &decided, NULL), -EINVAL);
	decided = 77;
	assert_int_equal(smd_memory_decide(2 << 20, 4, CHUNK, &decided, &error), -EINVAL);
	assert_int_equal(decided, 77);
	assert_string_equal(error.text,
		"memory limit: must be at least 3.0 MiB for a slot of two ranks in each of 4 "
		"threads, got 2.0 MiB");
}

static void more_than_there_is_is_refused(void **state)
{
	struct smd_error error = {""};
	uint64_t decided = 77;

	(void)state;
	assert_int_equal(smd_memory_decide(1ull << 60, 1, CHUNK, &decided, &error), -ENOMEM);
	assert_int_equal(decided, 77);
	assert_ptr_equal(strstr(error.text, "memory limit: must be at most the "), error.text);
	assert_non_null(strstr(error.text, "MiB that are available, got 1099511627776 MiB"));
}

static void the_default_is_4_gib_or_half_of_what_there_is(void **state)
{
	uint64_t decided = 0;

	(void)state;
	assert_int_equal(smd_memory_decide(0, 1, CHUNK, &decided, NULL), 0);
	assert_in_range(decided, 3 * CHUNK, SMD_MEMORY_DEFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_that_fits_is_taken_as_it_is),
		cmocka_unit_test(the_least_is_a_slot_of_two_ranks_in_every_shard),
		cmocka_unit_test(more_than_there_is_is_refused),
		cmocka_unit_test(the_default_is_4_gib_or_half_of_what_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
