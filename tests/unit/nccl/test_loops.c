/* How many threads move a CollNet communicator's bytes, where the user does not say, and where. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "worker/nccl_plugin/collnet/loops.h"

/* More than there are processors for cost more than they gain: four ranks that shared 16 took 1.34
 * times as long for 16 MiB by four loops each as by one, and 1.15 times for 64 MiB
 * (specs/guide/nccl.md). */
static void each_four_processors_have_one(void **state)
{
	(void)state;
	assert_int_equal(smd_loops_default(0), 1);
	assert_int_equal(smd_loops_default(7), 1);
	assert_int_equal(smd_loops_default(8), 2);
	assert_int_equal(smd_loops_default(16), 4);
	assert_int_equal(smd_loops_default(192), 4);
}

static unsigned want(const char *value)
{
	struct smd_loops loops = {0};
	struct smd_error error = {""};

	setenv(SMD_LOOPS_VARIABLE, value, 1);
	assert_int_equal(smd_loops_want(&loops, 2, &error), 0);
	return loops.wanted;
}

static void the_user_may_say(void **state)
{
	struct smd_loops loops = {0};
	struct smd_error error = {""};

	(void)state;
	/* Less than eight processors for each, on any host. */
	setenv("LOCAL_WORLD_SIZE", "60000", 1);
	assert_int_equal(want("3"), 3);
	assert_int_equal(want(""), 1);
	setenv(SMD_LOOPS_VARIABLE, "9", 1);
	assert_int_equal(smd_loops_want(&loops, 2, &error), -EINVAL);
	assert_string_equal(error.text, SMD_LOOPS_VARIABLE ": must be 1 to 8, got \"9\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_four_processors_have_one),
		cmocka_unit_test(the_user_may_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
