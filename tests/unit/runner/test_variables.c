/* A replica's variables over those of the runner. */
#include "worker/agent/host/variables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char home[] = "HOME=/home/a", path[] = "PATH=/usr/bin", mode[] = "MODE=outer",
	    model[] = "MODEL=big", notify[] = "SUMMAND_NOTIFY_FD=9";
static char *const inherited[] = {home, path, mode, model, notify, NULL};

/* The value of a variable that must be there once. */
static const char *value(char *const *merged, const char *name)
{
	size_t length = strlen(name);
	const char *found = NULL;

	for (size_t i = 0; merged[i]; i++) {
		if (strncmp(merged[i], name, length) == 0 && merged[i][length] == '=') {
			assert_null(found);
			found = merged[i] + length + 1;
		}
	}
	assert_non_null(found);
	return found;
}

static void test_merge(void **state)
{
	struct smd_variable variables[] = {
		{(char[]){"MODE"}, (char[]){"inner"}}, {(char[]){"EMPTY"}, (char[]){""}}};
	const struct smd_environment environment = {.variables = variables, .count = 2};
	char **merged = smd_variables_merge(inherited, &environment, "/opt/bin", NULL, 3);

	(void)state;
	assert_non_null(merged);
	assert_string_equal(value(merged, "HOME"), "/home/a");
	assert_string_equal(value(merged, "MODE"), "inner");
	assert_string_equal(value(merged, "MODEL"), "big");
	assert_string_equal(value(merged, "EMPTY"), "");
	assert_string_equal(value(merged, "PATH"), "/opt/bin:/usr/bin");
	assert_string_equal(value(merged, "SUMMAND_NOTIFY_FD"), "3");
	smd_argv_free(merged);
}

static void test_the_specs_path_comes_first(void **state)
{
	struct smd_variable variables[] = {{(char[]){"PATH"}, (char[]){"/mine"}},
		{(char[]){"SUMMAND_NOTIFY_FD"}, (char[]){"1"}}};
	const struct smd_environment environment = {.variables = variables, .count = 2};
	char **merged = smd_variables_merge(inherited, &environment, "/opt/bin", NULL, 3);

	(void)state;
	assert_non_null(merged);
	assert_string_equal(value(merged, "PATH"), "/mine:/opt/bin");
	assert_string_equal(value(merged, "SUMMAND_NOTIFY_FD"), "3");
	smd_argv_free(merged);
}

static void test_libraries(void **state)
{
	static char outer[] = "LD_LIBRARY_PATH=/outer";
	char *const with_outer[] = {home, outer, NULL};
	struct smd_variable variables[] = {{(char[]){"LD_LIBRARY_PATH"}, (char[]){"/mine"}}};
	const struct smd_environment mine = {.variables = variables, .count = 1};
	const struct smd_environment none = {0};
	char **merged = smd_variables_merge(with_outer, &none, "/opt/bin", "/opt/lib", 3);

	(void)state;
	assert_string_equal(value(merged, "LD_LIBRARY_PATH"), "/opt/lib:/outer");
	smd_argv_free(merged);
	merged = smd_variables_merge(with_outer, &mine, "/opt/bin", "/opt/lib", 3);
	assert_string_equal(value(merged, "LD_LIBRARY_PATH"), "/mine:/opt/lib");
	smd_argv_free(merged);
	merged = smd_variables_merge(with_outer, &none, "/opt/bin", NULL, 3);
	assert_string_equal(value(merged, "LD_LIBRARY_PATH"), "/outer");
	smd_argv_free(merged);
	/* An empty part would be the current folder. */
	merged = smd_variables_merge(inherited, &none, "/opt/bin", "/opt/lib", 3);
	assert_string_equal(value(merged, "LD_LIBRARY_PATH"), "/opt/lib");
	smd_argv_free(merged);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_the_specs_path_comes_first),
		cmocka_unit_test(test_libraries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
