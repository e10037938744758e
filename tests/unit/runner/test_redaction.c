/* No secret comes through, in whatever pieces the stream is cut; all else does, as it is. */
#include "orchestrator/runner/redaction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "orchestrator/job/secret.h"

#define ROUNDS 3000

static char name[] = "name";
static char shorter[] = "abab", longer[] = "ababc", same[] = "cccc";
static char lines[] = "first line\nsecond line\n12\n";
static struct smd_secret_value values[] = {
	{name, shorter}, {name, longer}, {name, same}, {name, lines}};
static const struct smd_secrets secrets = {.list = values, .count = 4};

static void take(void *arg, const char *bytes, size_t count)
{
	fwrite(bytes, 1, count, arg);
}

/* What comes through of a text that is fed in pieces of 1 to `most` bytes. */
static char *redact(const struct smd_redaction *redaction, const char *text, size_t most)
{
	struct smd_redacted_stream stream = {.length = 0};
	size_t left = strlen(text);
	char *result = NULL;
	size_t length;
	FILE *out = open_memstream(&result, &length);

	while (left > 0) {
		size_t count = 1 + (size_t)random() % most;

		count = count < left ? count : left;
		smd_redaction_feed(redaction, &stream, text, count, take, out);
		text += count;
		left -= count;
	}
	smd_redaction_finish(redaction, &stream, take, out);
	assert_null(stream.held);
	fclose(out);
	return result;
}

static void assert_redacted(const char *text, const char *wanted)
{
	struct smd_redaction redaction;

	assert_int_equal(smd_redaction_open(&redaction, &secrets), 0);
	for (size_t most = 1; most < 40; most++) {
		char *got = redact(&redaction, text, most);

		assert_string_equal(got, wanted);
		free(got);
	}
	char *applied = smd_redaction_apply(&redaction, strdup(text));

	assert_string_equal(applied, wanted);
	free(applied);
	smd_redaction_close(&redaction);
}

static void secrets_are_replaced(void **state)
{
	(void)state;
	assert_redacted("", "");
	assert_redacted("nothing here", "nothing here");
	assert_redacted("it is abab.\n", "it is " SMD_SECRET_MASK ".\n");
	assert_redacted("abab", SMD_SECRET_MASK);
	assert_redacted("aba", "aba"); /* a beginning that nothing follows */
}

static void the_longest_one_counts(void **state)
{
	(void)state;
	assert_redacted("ababc", SMD_SECRET_MASK);
	assert_redacted("ababd", SMD_SECRET_MASK "d");
	assert_redacted("aababc", "a" SMD_SECRET_MASK);
	assert_redacted("ccccc", SMD_SECRET_MASK "c");
}

static void lines_of_a_value_count_by_themselves(void **state)
{
	(void)state;
	assert_redacted("first line\nsecond line\n12\n", SMD_SECRET_MASK);
	assert_redacted("> first line\n> second line\n> 12\n",
		"> " SMD_SECRET_MASK "\n> " SMD_SECRET_MASK "\n> 12\n");
}

static int has_secret(const char *text)
{
	return strstr(text, "abab") || strstr(text, "cccc");
}

/* Any text of the letters that the short ones have, in any pieces: the same comes through as in one
 * piece, without a secret, and without one all of it. */
static void it_holds_of_any_text(void **state)
{
	struct smd_redaction redaction;
	unsigned found = 0;

	(void)state;
	srandom(20);
	assert_int_equal(smd_redaction_open(&redaction, &secrets), 0);
	for (int round = 0; round < ROUNDS; round++) {
		char text[32] = "";
		char *whole;
		char *pieces;

		for (size_t i = 0; i < (size_t)random() % sizeof(text); i++) {
			text[i] = "abcx"[random() % 4];
		}
		whole = redact(&redaction, text, sizeof(text));
		pieces = redact(&redaction, text, 3);
		assert_string_equal(whole, pieces);
		assert_false(has_secret(whole));
		if (!has_secret(text)) {
			assert_string_equal(whole, text);
		}
		found += has_secret(text) != 0;
		free(whole);
		free(pieces);
	}
	assert_true(found > ROUNDS / 50);
	smd_redaction_close(&redaction);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_replaced),
		cmocka_unit_test(the_longest_one_counts),
		cmocka_unit_test(lines_of_a_value_count_by_themselves),
		cmocka_unit_test(it_holds_of_any_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
