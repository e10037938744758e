/* Token files: which are taken, what they mean, and that what could mean two things is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reduction_server/base/token.h"

static int read_bytes(
	const void *bytes, size_t length, struct smd_tokens *tokens, struct smd_error *error)
{
	int fd = memfd_create("token", 0);
	char path[64];
	int ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*error = (struct smd_error){""};
	ret = smd_tokens_read("--token-file", path, tokens, error);
	close(fd);
	return ret;
}

static void one_token_is_every_jobs(void **state)
{
	static const char *const texts[] = {"secret", "secret\n", "secret\r\n", "\n\n secret \n",
		"# whose\nsecret\n#end", "\tsecret"};
	struct smd_tokens tokens;
	struct smd_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(read_bytes(texts[i], strlen(texts[i]), &tokens, &error), 0);
		assert_string_equal(smd_tokens_find(&tokens, "a job"), "secret");
		assert_string_equal(smd_tokens_find(&tokens, ""), "secret");
		smd_tokens_free(&tokens);
		assert_null(smd_tokens_find(&tokens, ""));
	}
}

static void a_line_for_each_job(void **state)
{
	static const char text[] =
		"one first\n# no job\n  two words   second#\n\nthree\tthird \r\n";
	struct smd_tokens tokens;
	struct smd_error error;

	(void)state;
	assert_int_equal(read_bytes(text, strlen(text), &tokens, &error), 0);
	assert_string_equal(smd_tokens_find(&tokens, "one"), "first");
	assert_string_equal(smd_tokens_find(&tokens, "two words"), "second#");
	assert_string_equal(smd_tokens_find(&tokens, "three"), "third");
	assert_null(smd_tokens_find(&tokens, "two"));
	assert_null(smd_tokens_find(&tokens, "# no"));
	assert_null(smd_tokens_find(&tokens, ""));
	smd_tokens_free(&tokens);
}

static void an_attempt_has_its_jobs_token(void **state)
{
	static const char text[] = "one first\ntwo#3 third\ntwo second\n#4 fourth\nfive#a fifth\n";
	static const char *const unknown[] = {
		"one#", "one#1#1", "one#1a", "#1", "#", "five#1", "five", "one#-1", "one# 1"};
	struct smd_tokens tokens;
	struct smd_error error;

	(void)state;
	assert_int_equal(read_bytes(text, strlen(text), &tokens, &error), 0);
	assert_string_equal(smd_tokens_find(&tokens, "one#1"), "first");
	assert_string_equal(smd_tokens_find(&tokens, "one#1000"), "first");
	assert_string_equal(smd_tokens_find(&tokens, "two#2"), "second");
	assert_string_equal(smd_tokens_find(&tokens, "two#3"), "third");
	assert_string_equal(smd_tokens_find(&tokens, "two#3#1"), "third");
	assert_string_equal(smd_tokens_find(&tokens, "five#a#1"), "fifth");
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		assert_null(smd_tokens_find(&tokens, unknown[i]));
	}
	smd_tokens_free(&tokens);
	assert_int_equal(read_bytes("secret", 6, &tokens, &error), 0);
	assert_string_equal(smd_tokens_find(&tokens, "any#1"), "secret");
	smd_tokens_free(&tokens);
}

static void refuse(const void *bytes, size_t length, const char *text)
{
	struct smd_tokens tokens;
	struct smd_error error;

	assert_int_equal(read_bytes(bytes, length, &tokens, &error), -EINVAL);
	if (!strstr(error.text, text)) {
		fail_msg("expected \"%s\", got \"%s\"", text, error.text);
	}
	assert_null(tokens.every);
	assert_null(tokens.jobs);
}

static void what_is_refused(void **state)
{
	char longest[600];

	(void)state;
	refuse("", 0, "must hold 1 to 255 characters");
	refuse("#\n \n", 4, "must hold 1 to 255 characters");
	refuse("a\nb\n", 4, "got both or more: see line 2");
	refuse("a\n\nb c\n", 7, "got both or more: see line 3");
	refuse("b c\na\n", 6, "got both or more: see line 2");
	refuse("b c\nd e\nb f\n", 12,
		"line 3 must name a job that no line before it names, got \"b\"");
	refuse("a\0b", 3, "line 1 must have no control characters");
	refuse("\0", 1, "line 1 must have no control characters");
	refuse("a\rb", 3, "line 1 must have no control characters");
	refuse("a\tb c", 5, "line 1 must be a job's name");
	memset(longest, 'x', sizeof(longest));
	refuse(longest, 256, "must hold 1 to 255 characters");
	longest[256] = ' ';
	refuse(longest, 260, "line 1 must be a job's name of at most 255 characters");
	longest[256] = 'x';
	longest[255] = ' ';
	refuse(longest, 255 + 257, "must hold 1 to 255 characters");
}

static void the_longest_are_taken(void **state)
{
	struct smd_tokens tokens;
	struct smd_error error;
	char text[511];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(read_bytes(text, 255, &tokens, &error), 0);
	assert_int_equal(strlen(smd_tokens_find(&tokens, "")), 255);
	smd_tokens_free(&tokens);
	text[255] = ' ';
	assert_int_equal(read_bytes(text, sizeof(text), &tokens, &error), 0);
	assert_int_equal(tokens.njobs, 1);
	assert_int_equal(strlen(smd_tokens_find(&tokens, tokens.jobs[0].job)), 255);
	smd_tokens_free(&tokens);
}

/* Each is found, and its neighbours that are not there are not; the first double is told. */
static void there_may_be_very_many(void **state)
{
	enum { JOBS = 10000 };
	char *text = malloc(1u << 20);
	struct smd_tokens tokens;
	struct smd_error error;
	size_t length = 0;
	char token[32];
	char job[32];

	(void)state;
	for (unsigned i = 0; i < JOBS; i++) { /* each number once, and not in order */
		length += (size_t)sprintf(
			text + length, "job-%u token-%u\n", i * 7919 % JOBS, i * 7919 % JOBS);
	}
	assert_int_equal(read_bytes(text, length, &tokens, &error), 0);
	assert_int_equal(tokens.njobs, JOBS);
	for (unsigned i = 0; i < JOBS; i++) {
		snprintf(job, sizeof(job), "job-%u", i);
		snprintf(token, sizeof(token), "token-%u", i);
		assert_string_equal(smd_tokens_find(&tokens, job), token);
		strcat(job, "-");
		assert_null(smd_tokens_find(&tokens, job));
	}
	assert_null(smd_tokens_find(&tokens, ""));
	assert_null(smd_tokens_find(&tokens, "zzz"));
	smd_tokens_free(&tokens);
	length += (size_t)sprintf(text + length, "job-9 again\njob-3 again\njob-9 again\n");
	refuse(text, length,
		"line 10001 must name a job that no line before it names, got \"job-9\"");
	free(text);
}

static void a_file_has_an_end(void **state)
{
	size_t length = (1u << 20) + 1;
	char *text = malloc(length);

	(void)state;
	memset(text, '#', length);
	refuse(text, length, "must have at most 1048576 bytes");
	refuse(text, length - 1, "must hold 1 to 255 characters");
	free(text);
}

static void a_worker_has_one(void **state)
{
	char token[SMD_TOKEN_MAX + 1] = "none";
	struct smd_error error = {""};
	int fd = memfd_create("token", 0);
	char path[64];

	(void)state;
	assert_int_equal(write(fd, "job token\n", 10), 10);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(smd_token_read("SUMMAND_TOKEN_FILE", path, token, &error), -EINVAL);
	assert_non_null(strstr(error.text, "must hold one token without spaces"));
	assert_null(strstr(error.text, "job token"));
	assert_string_equal(token, "none");
	assert_int_equal(pwrite(fd, "job_token\n", 10, 0), 10);
	assert_int_equal(smd_token_read("SUMMAND_TOKEN_FILE", path, token, &error), 0);
	assert_string_equal(token, "job_token");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_token_is_every_jobs),
		cmocka_unit_test(a_line_for_each_job),
		cmocka_unit_test(an_attempt_has_its_jobs_token),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(the_longest_are_taken),
		cmocka_unit_test(there_may_be_very_many),
		cmocka_unit_test(a_file_has_an_end),
		cmocka_unit_test(a_worker_has_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
