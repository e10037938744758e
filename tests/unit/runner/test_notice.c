/* Lines of the notify pipe: good ones, and everything else that may be in a pipe. */
#include "orchestrator/runner/notice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TAKEN_MAX 16

/* What came out of a stream, as "kind key text" and "?" for a line that means nothing. */
struct taken {
	char lines[TAKEN_MAX][1024];
	size_t count;
};

static void take(void *arg, const struct smd_line *line)
{
	static const char *const kinds[] = {
		[SMD_RUNNER_NOTICE_READY] = "ready",
		[SMD_RUNNER_NOTICE_STATUS] = "status",
		[SMD_RUNNER_NOTICE_RESULT] = "result",
		[SMD_RUNNER_NOTICE_FIGURE] = "figure",
		[SMD_RUNNER_NOTICE_PROGRESS] = "progress",
	};
	struct taken *taken = arg;
	struct smd_runner_notice notice;
	char *out = taken->lines[taken->count++];

	assert_true(taken->count <= TAKEN_MAX);
	assert_int_equal(line->text[line->length], '\0');
	if (smd_runner_notice_parse(line, &notice)) {
		strcpy(out, "?");
		return;
	}
	snprintf(out, sizeof(taken->lines[0]), "%s|%s|%s", kinds[notice.kind],
		notice.key ? notice.key : "", notice.text);
}

/* Feeds the bytes in parts of the given size and compares what comes out. */
static void check_parts(const char *bytes, size_t length, size_t part, const char *const *expected,
	size_t nexpected)
{
	struct taken taken = {.count = 0};
	struct smd_lines *lines = calloc(1, sizeof(*lines));

	assert_non_null(lines);
	lines->take = take;
	lines->arg = &taken;
	for (size_t i = 0; i < length; i += part) {
		smd_lines_feed(lines, bytes + i, length - i < part ? length - i : part);
	}
	smd_lines_finish(lines);
	assert_int_equal(taken.count, nexpected);
	for (size_t i = 0; i < nexpected; i++) {
		assert_string_equal(taken.lines[i], expected[i]);
	}
	free(lines);
}

static void check(const char *bytes, size_t length, const char *const *expected, size_t nexpected)
{
	check_parts(bytes, length, length, expected, nexpected);
	check_parts(bytes, length, 1, expected, nexpected);
	check_parts(bytes, length, 7, expected, nexpected);
}

#define CHECK(bytes, ...)                                                                          \
	do {                                                                                       \
		const char *const expected[] = {__VA_ARGS__};                                      \
		check(bytes, sizeof(bytes) - 1, expected, sizeof(expected) / sizeof(expected[0])); \
	} while (0)

static void test_good_lines(void **state)
{
	(void)state;
	CHECK("ready\n", "ready||");
	CHECK("ready 127.0.0.1:20001\n", "ready||127.0.0.1:20001");
	CHECK("status epoch 3 of 10\nstatus\n", "status||epoch 3 of 10", "status||");
	CHECK("result accuracy 0.97\n", "result|accuracy|0.97");
	CHECK("result note two words\n", "result|note|two words");
}

static void test_garbage(void **state)
{
	(void)state;
	CHECK("\n", "?");
	CHECK("readyness\n", "?");
	CHECK("READY\n", "?");
	CHECK("result\nresult key\nresult key \nresult  1\nresult k-y 1\n", "?", "?", "?", "?",
		"?");
	CHECK("ready\0hidden\n", "?");
	CHECK("\xff\xfe\n", "?");
	CHECK("ready", "?"); /* ended in the middle of a line */
}

static void test_control_characters_are_not_shown(void **state)
{
	(void)state;
	CHECK("status \033[2Jcleared\t\r\n", "status||?[2Jcleared??");
}

static void test_overlong_lines(void **state)
{
	enum { LONG = 3 * SMD_LINES_BUFFER };
	static const char tail[] = "\nready\n";
	const char *const expected[] = {"?", "?", "?", "?", "ready||"};
	char *bytes = malloc(LONG + sizeof(tail));

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < LONG; i++) {
		bytes[i] = "status "[i % 7];
	}
	memcpy(bytes + LONG, tail, sizeof(tail));
	check(bytes, LONG + sizeof(tail) - 1, expected, 5);
	free(bytes);
}

static void test_the_longest_line(void **state)
{
	char bytes[SMD_RUNNER_NOTICE_LINE_MAX + 2] = "status ";
	char text[SMD_RUNNER_NOTICE_LINE_MAX + 32] = "status||";
	const char *const whole[] = {text};
	const char *const nothing[] = {"?"};

	(void)state;
	memset(bytes + 7, 'x', SMD_RUNNER_NOTICE_LINE_MAX - 8);
	memset(text + 8, 'x', SMD_RUNNER_NOTICE_LINE_MAX - 8);
	bytes[SMD_RUNNER_NOTICE_LINE_MAX - 1] = '\n';
	check(bytes, SMD_RUNNER_NOTICE_LINE_MAX, whole, 1);
	bytes[SMD_RUNNER_NOTICE_LINE_MAX - 1] = 'x';
	bytes[SMD_RUNNER_NOTICE_LINE_MAX] = '\n';
	check(bytes, SMD_RUNNER_NOTICE_LINE_MAX + 1, nothing, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_lines),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_control_characters_are_not_shown),
		cmocka_unit_test(test_overlong_lines),
		cmocka_unit_test(test_the_longest_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
