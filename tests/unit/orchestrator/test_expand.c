/* $(NAME) by the rules of Kubernetes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "orchestrator/contract/contract.h"

static void references(void **state)
{
	static const struct {
		const char *text;
		const char *expanded;
	} cases[] = {
		{"", ""},
		{"plain", "plain"},
		{"$(A)", "one"},
		{"<$(A)$(B)>", "<onetwo>"},
		{"$(UNKNOWN) stays", "$(UNKNOWN) stays"},
		{"$$(A) escapes", "$(A) escapes"},
		{"$$$(A)", "$one"},
		{"$$$$(A)", "$$(A)"},
		{"$A and ${A} are the shell's", "$A and ${A} are the shell's"},
		{"$(A", "$(A"},
		{"$()", "$()"},
		{"$( A)", "$( A)"},
		{"ends with $", "ends with $"},
		{"$(LOOP)", "$(LOOP)"},
		{"$(AA)", "$(AA)"},
	};
	struct smd_environment environment = {0};

	(void)state;
	assert_int_equal(smd_environment_set(&environment, "A", "one"), 0);
	assert_int_equal(smd_environment_set(&environment, "B", "two"), 0);
	assert_int_equal(smd_environment_set(&environment, "LOOP", "$(LOOP)"), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *expanded = smd_environment_expand(&environment, cases[i].text);

		assert_string_equal(expanded, cases[i].expanded);
		free(expanded);
	}
	smd_environment_free(&environment);
}

static void a_second_value_replaces_the_first_in_its_place(void **state)
{
	struct smd_environment environment = {0};

	(void)state;
	assert_int_equal(smd_environment_set(&environment, "A", "%d", 1), 0);
	assert_int_equal(smd_environment_set(&environment, "B", "%d", 2), 0);
	assert_int_equal(smd_environment_set(&environment, "A", "%d", 3), 0);
	assert_int_equal(environment.count, 2);
	assert_string_equal(environment.variables[0].name, "A");
	assert_string_equal(smd_environment_get(&environment, "A"), "3");
	assert_null(smd_environment_get(&environment, "C"));
	smd_environment_free(&environment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(references),
		cmocka_unit_test(a_second_value_replaces_the_first_in_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
