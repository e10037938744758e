/* What replicas say of their progress: what is taken, rate and end. */
#include "orchestrator/runner/replica_progress.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reduction_server/base/clock.h"

static void is_taken(void **state)
{
	struct smd_replica_progress progress = {.is_there = 0};

	(void)state;
	assert_int_equal(smd_replica_progress_take(&progress, "3", 1), 0);
	assert_true(progress.is_there && progress.done == 3 && progress.total == 0);
	assert_string_equal(progress.unit, "");
	assert_int_equal(smd_replica_progress_take(&progress, "4 10", 2), 0);
	assert_true(progress.done == 4 && progress.total == 10);
	assert_int_equal(smd_replica_progress_take(&progress, "4.5  10 epochs of digits", 3), 0);
	assert_true(progress.done == 4.5);
	assert_string_equal(progress.unit, "epochs of digits");
}

static void is_refused(void **state)
{
	static const char *const texts[] = {"", "x", "-1", "1 x", "11 10", "nan", "inf", "1e300",
		"1,5", "1 10 0123456789012345678901234567890123456789"};
	struct smd_replica_progress progress = {.is_there = 0};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(smd_replica_progress_take(&progress, texts[i], 1), -EINVAL);
		assert_false(progress.is_there);
	}
}

/* Slow at first: the rate is that of the last minute. */
static void rate_is_that_of_the_last_minute(void **state)
{
	struct smd_replica_progress progress = {.is_there = 0};
	char text[64];
	int done = 0;

	(void)state;
	assert_true(smd_replica_progress_rate(&progress) == 0 &&
		    smd_replica_progress_rest(&progress) < 0);
	for (uint64_t second = 1; second <= 400; second++) {
		done += second <= 200 ? 1 : 5;
		snprintf(text, sizeof(text), "%d 2000", done);
		assert_int_equal(
			smd_replica_progress_take(&progress, text, second * SMD_SECOND_NS), 0);
	}
	assert_true(smd_replica_progress_rate(&progress) == 5);
	assert_true(smd_replica_progress_rest(&progress) == (2000 - done) / 5.0);
}

static void less_is_a_new_beginning(void **state)
{
	struct smd_replica_progress progress = {.is_there = 0};

	(void)state;
	smd_replica_progress_take(&progress, "50 100", 1 * SMD_SECOND_NS);
	smd_replica_progress_take(&progress, "60 100", 11 * SMD_SECOND_NS);
	assert_true(smd_replica_progress_rate(&progress) == 1);
	smd_replica_progress_take(&progress, "20 100", 12 * SMD_SECOND_NS);
	assert_true(smd_replica_progress_rate(&progress) == 0 &&
		    smd_replica_progress_rest(&progress) < 0);
	smd_replica_progress_take(&progress, "100 100", 22 * SMD_SECOND_NS);
	assert_true(smd_replica_progress_rest(&progress) == 0);
}

static void the_least_share_is_behind(void **state)
{
	struct smd_replica_progress a = {.is_there = 1, .done = 5, .total = 10};
	struct smd_replica_progress b = {.is_there = 1, .done = 4, .total = 5};

	(void)state;
	assert_true(
		smd_replica_progress_is_behind(&a, &b) && !smd_replica_progress_is_behind(&b, &a));
	b.total = 0;
	assert_true(smd_replica_progress_is_behind(&b, &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_taken),
		cmocka_unit_test(is_refused),
		cmocka_unit_test(rate_is_that_of_the_last_minute),
		cmocka_unit_test(less_is_a_new_beginning),
		cmocka_unit_test(the_least_share_is_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
