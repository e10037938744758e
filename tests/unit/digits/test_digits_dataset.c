/* The data set: what a file must hold, and that a wrong line is named by its number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/examples/digits/dataset.h"

#define ROW8  "0123456g"
#define IMAGE ROW8 ROW8 ROW8 ROW8 ROW8 ROW8 ROW8 ROW8

static char path[] = "/tmp/digits-dataset-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static int load(const char *content, struct digits_dataset *dataset, struct smd_error *error)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(content, file);
	assert_int_equal(fclose(file), 0);
	*error = (struct smd_error){""};
	return digits_dataset_load(path, dataset, error);
}

static void good_lines(void **state)
{
	struct digits_dataset dataset;
	struct smd_error error;

	(void)state;
	assert_int_equal(load("# a comment\n" IMAGE " 7\n" IMAGE " 0", &dataset, &error), 0);
	assert_int_equal(dataset.count, 2);
	assert_int_equal(dataset.labels[0], 7);
	assert_int_equal(dataset.labels[1], 0);
	assert_true(dataset.pixels[0][6] == 6.0f / 16.0f);
	assert_true(dataset.pixels[0][7] == 1.0f);
	assert_true(dataset.pixels[1][63] == 1.0f);
	digits_dataset_free(&dataset);
}

static void bad_lines_are_named(void **state)
{
	static const struct {
		const char *content;
		const char *text;
	} cases[] = {
		{IMAGE " 7\n" IMAGE " 77\n", ":2: must be 66 characters long, got 67"},
		{"#\n\n", ":2: must be 66 characters long, got 0"},
		{"h123456g" ROW8 ROW8 ROW8 ROW8 ROW8 ROW8 ROW8 " 1\n",
			":1: column 1: must be a pixel 0 to 9 or a to g, got 0x68"},
		{IMAGE " x\n", ":1: must end with a space and a label 0 to 9, got \" x\""},
		{IMAGE "77\n", ":1: must end with a space and a label 0 to 9, got \"77\""},
		{"# nothing\n", ": must hold images, got none"},
		{"", ": must hold images, got none"},
	};
	struct digits_dataset dataset;
	struct smd_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(load(cases[i].content, &dataset, &error), -EINVAL);
		assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
		assert_string_equal(error.text + strlen(path), cases[i].text);
	}
}

static void a_missing_file(void **state)
{
	struct digits_dataset dataset;
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(digits_dataset_load("/nonexistent", &dataset, &error), -ENOENT);
	assert_string_equal(
		error.text, "/nonexistent: cannot be opened: No such file or directory");
}

static void the_file_that_is_shipped(void **state)
{
	const char *source = getenv("SUMMAND_SOURCE");
	int counts[DIGITS_CLASSES] = {0};
	struct digits_dataset dataset;
	char shipped[4096];

	(void)state;
	if (!source) {
		skip();
	}
	snprintf(shipped, sizeof(shipped), "%s/worker/examples/digits/digits.txt", source);
	assert_int_equal(digits_dataset_load(shipped, &dataset, NULL), 0);
	assert_int_equal(dataset.count, 1797);
	for (size_t i = 0; i < dataset.count; i++) {
		counts[dataset.labels[i]]++;
	}
	assert_int_equal(counts[0], 178);
	assert_int_equal(counts[1], 182);
	assert_int_equal(counts[3], 183);
	digits_dataset_free(&dataset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_lines),
		cmocka_unit_test(bad_lines_are_named),
		cmocka_unit_test(a_missing_file),
		cmocka_unit_test(the_file_that_is_shipped),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
