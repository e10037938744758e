/* Whose processes the kernel has killed for lack of memory. */
#include "worker/agent/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PATH_SIZE 256

static char folder[] = "/tmp/summand-oom-XXXXXX";

static const char *path_of(const char *name)
{
	static char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static long count(void)
{
	char groups[PATH_SIZE];

	snprintf(groups, sizeof(groups), "%s", path_of("groups"));
	return smd_oom_kills_in(groups, folder);
}

static void make_folder(const char *name)
{
	assert_int_equal(mkdir(path_of(name), 0700), 0);
}

static void test_the_group_of_version_2_counts(void **state)
{
	(void)state;
	write_file("groups", "0::/job/step\n");
	assert_int_equal(count(), -1);
	make_folder("job");
	make_folder("job/step");
	write_file("job/memory.events", "low 0\noom_kill 5\n");
	assert_int_equal(count(), 5); /* the step has none of its own */
	write_file("job/memory.events.local", "low 0\noom 9\noom_kill 2\n");
	assert_int_equal(count(), 2);
	write_file("job/step/memory.events.local", "oom_kill 0\noom_group_kill 7\n");
	assert_int_equal(count(), 0);
	write_file("groups", "0::/other\n");
	assert_int_equal(count(), -1);
	write_file("memory.events.local", "oom_kill 3\n"); /* of a container's own root */
	assert_int_equal(count(), 3);
}

static void test_the_memory_group_of_version_1_counts(void **state)
{
	(void)state;
	write_file("groups", "9:name=systemd:/\n4:memory:/job\n3:cpuset:/other\n0::/\n");
	make_folder("memory");
	make_folder("memory/job");
	write_file(
		"memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
	assert_int_equal(count(), 4);
}

static void test_no_group(void **state)
{
	(void)state;
	write_file("groups", "nonsense\n5:cpu:/job\n7\n");
	assert_int_equal(count(), -1);
	assert_int_equal(smd_oom_kills_in(path_of("absent"), folder), -1);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	static const char *const names[] = {"memory/job/memory.oom_control", "memory/job", "memory",
		"job/step/memory.events.local", "job/step", "job/memory.events.local",
		"job/memory.events", "job", "memory.events.local", "groups", ""};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (remove(path_of(names[i]))) {
			return -1;
		}
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_group_of_version_2_counts),
		cmocka_unit_test(test_the_memory_group_of_version_1_counts),
		cmocka_unit_test(test_no_group),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
