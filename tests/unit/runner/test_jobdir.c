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
#include <fcntl.h>

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

static unsigned mode_of(const struct smd_jobdir *dir, const char *name)
{
	struct stat status;

	assert_int_equal(fstatat(dir->fd, name, &status, AT_SYMLINK_NOFOLLOW), 0);
	return status.st_mode & 0777;
}

static void remove_tree(const char *path)
{
	char *command;

	assert_true(asprintf(&command, "rm -r %s", path) > 0);
	assert_int_equal(system(command), 0);
	free(command);
}

static void test_it_is_its_owners_alone(void **state)
{
	char parent[] = "/tmp/summand-jobdir-XXXXXX";
	char name[] = "digits";
	struct smd_job job = {.id = "0123456789", .display_name = name};
	struct smd_error error = {""};
	struct smd_jobdir dir;
	mode_t before = umask(0);
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(parent));
	setenv("SUMMAND_STATE_DIR", parent, 1);
	assert_int_equal(smd_jobdir_open(&dir, &job, NULL, &error), 0);
	assert_int_equal(mode_of(&dir, "."), 0700);
	assert_int_equal(mode_of(&dir, "logs"), 0700);
	assert_int_equal(mode_of(&dir, "env"), 0700);
	assert_int_equal(smd_jobdir_write(&dir, "env/x.env", "1", 1), 0);
	assert_int_equal(mode_of(&dir, "env/x.env"), 0600);
	/* What others could read before is its owner's from now on. */
	assert_int_equal(mkdirat(dir.fd, "output", 0777), 0);
	assert_int_equal(smd_jobdir_make_folder(&dir, "output"), 0);
	assert_int_equal(mode_of(&dir, "output"), 0700);
	close(openat(dir.fd, "logs/x.log", O_WRONLY | O_CREAT, 0666));
	file = smd_jobdir_open_file(&dir, "logs/x.log", 1);
	assert_non_null(file);
	fclose(file);
	assert_int_equal(mode_of(&dir, "logs/x.log"), 0600);
	smd_jobdir_close(&dir);
	umask(before);
	remove_tree(parent);
}

static void test_no_link_is_followed(void **state)
{
	static const char *const folders[] = {"env", "logs", "exits", "errors"};
	char parent[] = "/tmp/summand-jobdir-XXXXXX";
	char elsewhere[] = "/tmp/summand-jobdir-XXXXXX";
	struct smd_job job = {.id = "0123456789"};
	struct smd_error error = {""};
	struct smd_jobdir dir;
	size_t size;

	(void)state;
	assert_non_null(mkdtemp(parent));
	assert_non_null(mkdtemp(elsewhere));
	assert_int_equal(smd_jobdir_open(&dir, &job, parent, &error), 0);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		struct smd_jobdir again;
		char name[32];

		error.text[0] = '\0';
		snprintf(name, sizeof(name), "%s/x", folders[i]);
		assert_int_equal(unlinkat(dir.fd, folders[i], AT_REMOVEDIR), 0);
		assert_int_equal(symlinkat(elsewhere, dir.fd, folders[i]), 0);
		assert_int_equal(smd_jobdir_write(&dir, name, "1", 1), -ELOOP);
		assert_null(smd_jobdir_open_file(&dir, name, 0));
		assert_null(smd_jobdir_read_file(&dir, name, &size));
		smd_jobdir_close(&dir);
		assert_int_equal(smd_jobdir_open(&again, &job, parent, &error), -ELOOP);
		assert_non_null(strstr(error.text, folders[i]));
		assert_non_null(strstr(error.text, "must be a folder, got a symbolic link"));
		dir.fd = open(parent, O_RDONLY | O_DIRECTORY);
		assert_int_equal(unlinkat(dir.fd, folders[i], 0), 0);
		close(dir.fd);
		assert_int_equal(smd_jobdir_open(&dir, &job, parent, &error), 0);
	}
	smd_jobdir_close(&dir);
	assert_int_equal(rmdir(elsewhere), 0); /* nothing was written there */
	remove_tree(parent);
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
		cmocka_unit_test(test_it_is_its_owners_alone),
		cmocka_unit_test(test_no_link_is_followed),
		cmocka_unit_test(test_a_file_is_in_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
