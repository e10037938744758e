/* Text of a replica's as it is shown: UTF-8, and no orders to a terminal. */
#include "reduction_server/base/printable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "reduction_server/base/error.h"

static void check(const char *text, const char *expected)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", text);
	smd_printable(copy);
	assert_string_equal(copy, expected);
}

static void test_texts(void **state)
{
	(void)state;
	check("", "");
	check("plain\ttext ~", "plain\ttext ~");
	check("a\nb\r\x7f\x1b[31m", "a?b???[31m");
	check("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
	check("\xc2\xa0\xc2\x9b", "\xc2\xa0??"); /* U+009B begins orders, as ESC [ does */
	check("\x80\xbf\xff", "???");
	check("a\xe2\x80\xa8"
	      "b\xe2\x80\xa9"
	      "c",
		"a???b???c"); /* U+2028, U+2029 end lines */
	check("\xe2\x80\xae"
	      "drow",
		"???drow"); /* U+202E turns text around */
	check("\xe2\x80\x8f\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c", "???????????");
	check("\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xd8\x9b",
		"\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa\xd8\x9b");
	check("\xc3", "?");
	check("\xe2\x82", "??");
	check("\xf0\x9f\x98x", "???x");
	check("\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf", "?????????"); /* too long a form of / */
	check("\xed\xa0\x80\xf4\x90\x80\x80\xf5", "????????");
}

static void test_a_line(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	(void)state;
	assert_non_null(file);
	smd_print_line(file, "got \"%s\"\n", "a\nb\xc2\x9b");
	smd_print_line(file, "%d", 3);
	fclose(file);
	assert_string_equal(text, "got \"a?b??\"\n3\n");
	free(text);
}

/* Errors and logs quote what others say. */
static void test_errors(void **state)
{
	struct smd_error error = {""};

	(void)state;
	smd_error_set(&error, EINVAL, "got \"%s\"", "\xe2\x80\xae\x1b[2J\n");
	assert_string_equal(error.text, "got \"????[2J?\"");
}

/* What is left is UTF-8 by another's judgement too. */
static void test_all_pairs_of_bytes(void **state)
{
	(void)state;
	for (int first = 1; first < 256; first++) {
		for (int second = 1; second < 256; second++) {
			char text[4] = {(char)first, (char)second, 'x', '\0'};
			json_t *string;

			smd_printable(text);
			string = json_string(text);
			assert_non_null(string);
			json_decref(string);
			assert_int_equal(text[2], 'x');
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_a_line),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_all_pairs_of_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
