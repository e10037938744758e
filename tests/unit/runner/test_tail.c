/* The last lines of a stream, and no more than that. */
#include "orchestrator/runner/tail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *printed(const struct smd_tail *tail)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);

	assert_non_null(file);
	smd_tail_print(tail, file, "> ");
	fclose(file);
	return text;
}

static void check(const struct smd_tail *tail, const char *expected)
{
	char *text = printed(tail);

	assert_string_equal(text, expected);
	free(text);
}

static void add(struct smd_tail *tail, const char *text)
{
	smd_tail_add(tail, text, strlen(text));
}

static void test_few_lines(void **state)
{
	struct smd_tail tail = {0};

	(void)state;
	check(&tail, "");
	add(&tail, "one\n");
	add(&tail, "\n");
	add(&tail, "three\r\n");
	check(&tail, "> one\n> \n> three\n");
	smd_tail_clear(&tail);
	check(&tail, "");
}

static void test_the_oldest_go(void **state)
{
	struct smd_tail tail = {0};
	char *text;

	(void)state;
	for (int i = 0; i < 3 * SMD_TAIL_LINES + 1; i++) {
		char line[16];

		snprintf(line, sizeof(line), "%d\n", i);
		add(&tail, line);
	}
	text = printed(&tail);
	assert_memory_equal(text, "> 41\n> 42\n", 10);
	assert_non_null(strstr(text, "> 60\n"));
	assert_null(strstr(text, "> 40\n"));
	free(text);
	smd_tail_clear(&tail);
}

static void test_long_lines_are_cut(void **state)
{
	char line[2 * SMD_TAIL_LINE_MAX];
	struct smd_tail tail = {0};
	char *text;

	(void)state;
	memset(line, 'x', sizeof(line));
	smd_tail_add(&tail, line, sizeof(line));
	text = printed(&tail);
	assert_int_equal(strlen(text), SMD_TAIL_LINE_MAX + strlen("> \n"));
	free(text);
	smd_tail_clear(&tail);
}

/* It will be printed, perhaps on a terminal. */
static void test_control_characters_are_not_kept(void **state)
{
	struct smd_tail tail = {0};
	char *text;

	(void)state;
	smd_tail_add(&tail, "\033[2Ja\tb\a\n", 9);
	text = printed(&tail);
	assert_string_equal(text, "> ?[2Ja\tb?\n");
	free(text);
	smd_tail_clear(&tail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_few_lines),
		cmocka_unit_test(test_the_oldest_go),
		cmocka_unit_test(test_long_lines_are_cut),
		cmocka_unit_test(test_control_characters_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
