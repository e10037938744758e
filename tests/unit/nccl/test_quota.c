/* What control groups let a rank use, in thousandths of a processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "worker/nccl_plugin/collnet/quota.h"

#define RANKS     4
#define PATH_SIZE 256

static char folder[] = "/tmp/summand-quota-XXXXXX";

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

/* Of a rank with these lines in /proc/self/cgroup, and a launcher with those. */
static uint64_t find(const char *own, const char *launchers)
{
	char files[2][PATH_SIZE];

	write_file("own", own);
	write_file("launchers", launchers);
	snprintf(files[0], PATH_SIZE, "%s", path_of("own"));
	snprintf(files[1], PATH_SIZE, "%s", path_of("launchers"));
	return smd_quota_find_in(files[0], files[1], folder, RANKS);
}

static void without_groups_there_is_none(void **state)
{
	(void)state;
	assert_true(find("", "") == SMD_QUOTA_NONE);
	assert_true(find("0::/job/rank\n", "0::/job\n") == SMD_QUOTA_NONE);
	assert_true(find("nonsense\n7\n2:cpuset:/job\n", "") == SMD_QUOTA_NONE);
	assert_true(smd_quota_find_in("", "", folder, RANKS) == SMD_QUOTA_NONE);
}

static void what_all_are_in_is_divided(void **state)
{
	(void)state;
	write_file("cpu.max", "1600000 100000\n"); /* of a container with a view of its own */
	assert_int_equal(find("0::/\n", "0::/\n"), 4000);
	assert_int_equal(find("0::/job/rank\n", "0::/\n"), 4000);
	assert_int_equal(find("0::/not/seen\n", "0::/not/seen\n"), 4000);
	write_file("job/cpu.max", "max 100000\n");
	assert_int_equal(find("0::/job/rank\n", "0::/job\n"), 4000);
	write_file("job/cpu.max", "150000 50000\n");
	assert_int_equal(find("0::/job/rank\n", "0::/job\n"), 750);
	assert_int_equal(find("0::/job\n", "0::/job/launcher\n"), 750);
}

static void a_group_without_the_launcher_is_the_ranks_own(void **state)
{
	(void)state;
	assert_int_equal(find("0::/job/rank\n", "0::/job2\n"), 3000);
	assert_int_equal(find("0::/job\n", "0::/\n"), 3000);
	assert_int_equal(find("0::/job\n", "0::/../launchers\n"), 3000);
	assert_int_equal(find("0::/job\n", ""), 3000); /* it is not in sight */
	assert_int_equal(find("0::/other\n", "0::/../launchers\n"), 16000);
	write_file("job/rank/cpu.max", "50000 100000\n");
	assert_int_equal(find("0::/job/rank\n", "0::/job\n"), 500);
	write_file("job/rank/cpu.max", "200000 100000\n");
	assert_int_equal(find("0::/job/rank\n", "0::/job\n"), 750); /* what is around it is less */
}

static void version_1_has_two_files(void **state)
{
	(void)state;
	write_file("cpu/job/cpu.cfs_period_us", "100000\n");
	write_file("cpu/job/cpu.cfs_quota_us", "-1\n");
	assert_int_equal(
		find("3:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n", "2:cpu,cpuacct:/job\n"), 16000);
	write_file("cpu/job/cpu.cfs_quota_us", "200000\n");
	assert_int_equal(
		find("3:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n", "2:cpu,cpuacct:/job\n"), 500);
	assert_int_equal(find("2:cpuacct,cpu:/job\n", "2:cpuacct,cpu:/\n"), 2000);
	assert_int_equal(find("2:cpuacct:/job\n1:cpuset:/job\n", "2:cpuacct:/\n"), 16000);
}

static void nonsense_is_no_quota(void **state)
{
	static const char *const texts[] = {"", "max", "100000", "0 100000", "100000 0",
		"-5 100000", "9223372036854775807 100000", "many few"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_file("cpu.max", texts[i]);
		assert_true(find("0::/\n", "0::/\n") == SMD_QUOTA_NONE);
	}
}

/* Of this process: it is there, or it is not. */
static void the_real_files_can_be_read(void **state)
{
	const struct smd_local_ranks one = {.count = 1};

	(void)state;
	assert_true(smd_quota_find(&one) > 0);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(folder) && mkdir(path_of("job"), 0700) == 0 &&
			       mkdir(path_of("job/rank"), 0700) == 0 &&
			       mkdir(path_of("cpu"), 0700) == 0 &&
			       mkdir(path_of("cpu/job"), 0700) == 0
		       ? 0
		       : -1;
}

static int end(void **state)
{
	static const char *const names[] = {"cpu/job/cpu.cfs_quota_us", "cpu/job/cpu.cfs_period_us",
		"cpu/job", "cpu", "job/rank/cpu.max", "job/rank", "job/cpu.max", "job", "cpu.max",
		"own", "launchers", ""};

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
		cmocka_unit_test(without_groups_there_is_none),
		cmocka_unit_test(what_all_are_in_is_divided),
		cmocka_unit_test(a_group_without_the_launcher_is_the_ranks_own),
		cmocka_unit_test(version_1_has_two_files),
		cmocka_unit_test(nonsense_is_no_quota),
		cmocka_unit_test(the_real_files_can_be_read),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
