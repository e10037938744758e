/* A job's directory: its name is one file name, its files are whole. */
#include "orchestrator/runner/jobdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

static void check_name(const char *display_name, const char *expected)
{
	char name[SMD_JOBDIR_NAME_SIZE];

	smd_jobdir_sanitise(name, display_name);
	assert_string_equal(name, expected);
}

static void test_names(void **state)
{
	char text[200];
	char name[SMD_JOBDIR_NAME_SIZE];

	(void)state;
	check_name("digits", "digits");
	check_name("Train v1.2_final", "Train-v1.2_final");
	check_name("../../etc/passwd", "etc-passwd");
	check_name("..", "custom-job");
	check_name("/", "custom-job");
	check_name("", "custom-job");
	check_name("-rf", "rf");
	check_name(".hidden", "hidden");
	check_name("a/../b", "a-..-b");
	check_name("a\nb\x01", "a-b-");
	check_name("\xc3\xbc"
		   "ber",
		"ber");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	smd_jobdir_sanitise(name, text);
	assert_int_equal(strlen(name), SMD_JOBDIR_NAME_SIZE - 1);
}

static void test_new_directories_differ(void **state)
{
	char parent[] = "/tmp/summand-jobdir-XXXXXX";
	char name[] = "../escape";
	struct smd_job job = {.id = "0123456789", .display_name = name};
	struct smd_jobdir first, second;
	struct smd_error error = {""};
	char *command;

	(void)state;
	assert_non_null(mkdtemp(parent));
	setenv("SUMMAND_STATE_DIR", parent, 1);
	assert_int_equal(smd_jobdir_open(&first, &job, NULL, &error), 0);
	assert_int_equal(smd_jobdir_open(&second, &job, NULL, &error), 0);
	assert_string_not_equal(first.path, second.path);
	assert_memory_equal(first.path, parent, strlen(parent));
	assert_non_null(strstr(first.path, "/jobs/escape-0123456789-"));
	smd_jobdir_close(&first);
	smd_jobdir_close(&second);
	assert_true(asprintf(&command, "rm -r %s", parent) > 0);
	assert_int_equal(system(command), 0);
	free(command);
}

static void test_files_are_whole(void **state)
{
	char parent[] = "/tmp/summand-jobdir-XXXXXX";
	char name[] = "digits";
	struct smd_job job = {.id = "0123456789", .display_name = name};
	struct smd_jobdir dir;
	struct smd_error error = {""};
	struct stat status;
	char *path;

	(void)state;
	assert_non_null(mkdtemp(parent));
	assert_int_equal(smd_jobdir_open(&dir, &job, parent, &error), 0);
	assert_int_equal(smd_jobdir_write(&dir, "env/x.env", "12345", 5), 0);
	assert_int_equal(smd_jobdir_write(&dir, "env/x.env", "123", 3), 0);
	path = smd_jobdir_path(&dir, "env/x.env");
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 3);
	free(path);
	assert_true(smd_jobdir_write(&dir, "no/such/folder", "1", 1) < 0);
	assert_true(asprintf(&path, "rm -r %s", parent) > 0);
	assert_int_equal(system(path), 0);
	free(path);
	smd_jobdir_close(&dir);
}

static void test_a_directory_is_of_one_job_at_a_time(void **state)
{
	char path[] = "/tmp/summand-test-XXXXXX";
	struct smd_job job = {.id = "0123456789"};
	struct smd_jobdir first;
	struct smd_jobdir second;
	struct smd_error error = {""};
	char *command;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_int_equal(smd_jobdir_open(&first, &job, path, &error), 0);
	assert_int_equal(smd_jobdir_open(&second, &job, path, &error), -EBUSY);
	assert_non_null(strstr(error.text, "must be of one job at a time"));
	smd_jobdir_close(&first);
	assert_int_equal(smd_jobdir_open(&second, &job, path, &error), 0);
	smd_jobdir_close(&second);
	assert_true(asprintf(&command, "rm -r %s", path) > 0);
	assert_int_equal(system(command), 0);
	free(command);
}

static void test_a_file_is_in_the_way(void **state)
{
	struct smd_job job = {.id = "0123456789"};
	struct smd_jobdir dir;
	struct smd_error error = {""};

	(void)state;
	assert_true(smd_jobdir_open(&dir, &job, "/dev/null/job", &error) < 0);
	assert_non_null(strstr(error.text, "/dev/null/job: must be a directory"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_new_directories_differ),
		cmocka_unit_test(test_files_are_whole),
		cmocka_unit_test(test_a_directory_is_of_one_job_at_a_time),
		cmocka_unit_test(test_a_file_is_in_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
