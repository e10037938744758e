/*
 * smd_register() and smd_deregister(): each lane's card has the memory once, from the first call to
 * the last; what cannot be is refused with the reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/allreduce/fixture.h"
#include "tests/unit/cuda/card.h"

enum { COUNT = 100000, BYTES = COUNT * 4 };

static int register_set_up(void **state)
{
	static struct pool pool;

	card_reset((struct card_plan){.refuse = 0});
	pool_start(&pool, "fault", 2, NULL);
	*state = &pool;
	return 0;
}

static int register_tear_down(void **state)
{
	pool_stop(*state);
	return 0;
}

static void the_cards_have_it_from_the_first_call_to_the_last(void **state)
{
	static char memory[BYTES];
	smd_context *context = pool_context(*state, 0);
	unsigned lanes;

	assert_int_equal(smd_register(context, memory, BYTES), 0);
	lanes = card_counts().host_registered;
	assert_true(lanes > 0);
	assert_int_equal(smd_register(context, memory, BYTES), 0);
	assert_int_equal(card_counts().host_registered, lanes);
	assert_int_equal(card_counts().host_registrations, lanes);
	assert_int_equal(smd_deregister(context, memory, BYTES), 0);
	assert_int_equal(card_counts().host_registered, lanes);
	assert_int_equal(smd_deregister(context, memory, BYTES), 0);
	assert_int_equal(card_counts().host_registered, 0);
	assert_int_equal(smd_deregister(context, memory, BYTES), -EINVAL);
	smd_context_destroy(context);
}

static void assert_refused(int ret, int err, const char *text)
{
	assert_int_equal(ret, err);
	if (!strstr(smd_error_message(), text)) {
		fail_msg("\"%s\" must have \"%s\"", smd_error_message(), text);
	}
}

static void what_cannot_be_is_refused(void **state)
{
	static char memory[BYTES];
	smd_context *context = pool_context(*state, 0);
	void *hole = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(hole, BYTES);
	assert_refused(smd_register(NULL, memory, BYTES), -EINVAL, "context: must be one");
	assert_refused(smd_register(context, memory, 0), -EINVAL, "at least one byte");
	assert_refused(smd_register(context, hole, BYTES), -EFAULT,
		"must be memory of this process");
	assert_int_equal(smd_register(context, memory, BYTES / 2), 0);
	assert_refused(smd_register(context, memory, BYTES), -EINVAL, "must not overlap");
	assert_refused(smd_register(context, memory + 1, 1), -EINVAL, "must not overlap");
	assert_int_equal(smd_register(context, memory + BYTES / 2, BYTES / 2), 0);
	assert_refused(smd_deregister(context, memory, BYTES), -EINVAL,
		"must be registered as they are");
	assert_refused(smd_deregister(NULL, memory, BYTES), -EINVAL, "context: must be one");
	smd_context_destroy(context); /* with what is registered */
}

static void sum_in_parts(struct pool_rank *rank)
{
	int32_t *memory = calloc(2, BYTES);

	CHECK(smd_register(rank->context, memory, 2 * BYTES) == 0);
	for (int k = 0; k < 4; k++) {
		int32_t *part = memory + k * 1000;

		for (int i = 0; i < COUNT; i++) {
			part[i] = i + rank->rank;
		}
		CHECK(smd_allreduce(rank->comm, part, part, COUNT, SMD_INT32, SMD_SUM) == 0);
		for (int i = 0; i < COUNT; i++) {
			CHECK(part[i] == 3 * i + 3);
		}
	}
	CHECK(smd_deregister(rank->context, memory, 2 * BYTES) == 0);
	free(memory);
}

static void parts_of_it_are_reduced(void **state)
{
	pool_run(*state, 3, "registered", sum_in_parts, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, register_set_up, register_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_cards_have_it_from_the_first_call_to_the_last),
		TEST(what_cannot_be_is_refused),
		TEST(parts_of_it_are_reduced),
	};

	return cmocka_run_group_tests_name("registered memory", tests, NULL, NULL);
}
