/* $(NAME) by the rules of Kubernetes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
		{"$(A)$(B)$(A)", "onetwoone"},
		{"$(A$(B)$(B", "$(A$(B)$(B"},
		{")$(A))$(B)", ")one)two"},
		{"$(LOOP)", "$(LOOP)"},
		{"$(AA)", "$(AA)"},
	};
	struct smd_environment environment = {0};

	(void)state;
	assert_int_equal(smd_environment_set(&environment, "A", "one"), 0);
	assert_int_equal(smd_environment_set(&environment, "B", "two"), 0);
	assert_int_equal(smd_environment_set(&environment, "LOOP", "$(LOOP)"), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *expanded;

		assert_int_equal(smd_environment_expand(&environment, cases[i].text,
					 strlen(cases[i].expanded), &expanded),
			0);
		assert_string_equal(expanded, cases[i].expanded);
		free(expanded);
	}
	smd_environment_free(&environment);
}

static void what_is_too_long_is_not_made(void **state)
{
	static const char *const texts[] = {"0123", "$(A)3", "$$123", "$(B)", "12$(", "1$$$$$$"};
	struct smd_environment environment = {0};
	char *expanded = NULL;

	(void)state;
	assert_int_equal(smd_environment_set(&environment, "A", "012"), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(
			smd_environment_expand(&environment, texts[i], 3, &expanded), -E2BIG);
		assert_null(expanded);
		assert_int_equal(smd_environment_expand(&environment, texts[i], 4, &expanded), 0);
		assert_int_equal(strlen(expanded), 4);
		free(expanded);
		expanded = NULL;
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
		cmocka_unit_test(what_is_too_long_is_not_made),
		cmocka_unit_test(a_second_value_replaces_the_first_in_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
