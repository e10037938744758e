/* Replica names, as they are written and as they are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "orchestrator/job/job.h"

static void names_are_read_as_they_are_written(void **state)
{
	char name[SMD_REPLICA_NAME_MAX];
	int pool;
	int index;

	(void)state;
	smd_replica_name(name, 1, 12);
	assert_string_equal(name, "workerpool1-12");
	assert_int_equal(smd_replica_parse(name, &pool, &index), 0);
	assert_int_equal(pool, 1);
	assert_int_equal(index, 12);
}

static void other_texts_are_no_names(void **state)
{
	static const char *const bad[] = {"", "workerpool", "workerpool1", "workerpool1-",
		"workerpool4-0", "workerpool1-x", "workerpool1--1", "workerpool10-1", "chief-0",
		"workerpool1-99999999999"};
	int pool = 7;
	int index = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(smd_replica_parse(bad[i], &pool, &index), -EINVAL);
		assert_int_equal(pool, 7);
		assert_int_equal(index, 7);
	}
}

static void every_role_has_a_name(void **state)
{
	(void)state;
	for (int role = 0; role < SMD_ROLE_COUNT; role++) {
		assert_non_null(smd_role_name((enum smd_role)role));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_read_as_they_are_written),
		cmocka_unit_test(other_texts_are_no_names),
		cmocka_unit_test(every_role_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
