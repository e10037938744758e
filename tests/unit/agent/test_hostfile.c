/* Files of hosts, as people write them. */
#include "orchestrator/engine/ssh/hostfile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* "a:8 b:1", or what is wrong behind the file's name. */
static void expect_bytes(const char *content, size_t length, const char *expected)
{
	char path[] = "/tmp/test-hostfile.XXXXXX";
	int fd = mkstemp(path);
	struct smd_hostfile *hosts = NULL;
	struct smd_error error = {""};
	char text[256] = "";
	int ret;

	assert_true(fd >= 0 && write(fd, content, length) == (ssize_t)length);
	close(fd);
	ret = smd_hostfile_open(&hosts, path, &error);
	unlink(path);
	for (size_t i = 0; i < (ret ? 0 : hosts->count); i++) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s:%d", i ? " " : "",
			hosts->lines[i].host, hosts->lines[i].slots);
	}
	assert_string_equal(
		ret ? error.text + strlen("--hostfile=") + strlen(path) + 2 : text, expected);
	smd_hostfile_close(hosts);
}

static void expect(const char *content, const char *expected)
{
	expect_bytes(content, strlen(content), expected);
}

static void test_hosts_and_slots(void **state)
{
	(void)state;
	expect("a slots=8\nb\n", "a:8 b:1");
	expect("# DeepSpeed\n\n  worker-1 slots=4 # four GPUs\n\tuser@10.0.0.2\tslots=2\r\n",
		"worker-1:4 user@10.0.0.2:2");
	expect("a slots=2 max_slots=4\nb max-slots=3", "a:2 b:1");
	expect("fd00::1 slots=1", "fd00::1:1");
}

/* One agent is enough there; two would each deal out all of the host's GPUs. */
static void test_a_host_that_is_named_twice(void **state)
{
	(void)state;
	expect("b\na slots=2\nb slots=3\na slots=4 # again\nc\nb\n", "b:5 a:6 c:1");
	expect("a slots=999999\na slots=999999\n", "a:1000000");
}

static void test_what_windows_puts_before_a_text(void **state)
{
	(void)state;
	expect("\xEF\xBB\xBF"
	       "a slots=2\r\nb\r\n",
		"a:2 b:1");
}

static void test_what_is_none(void **state)
{
	static const char *const bad[][2] = {{"a slots=0\n", "slots=0"}, {"a slots=x\n", "slots=x"},
		{"a slots=\n", "slots="}, {"a slots=1x # two\n", "slots=1x"}, {"a 8\n", "8"},
		{"a slots=99999999999\n", "slots=99999999999"},
		{"-oProxyCommand=x\n", "-oProxyCommand=x"}, {"a;b\n", "a;b"}, {"$(b)\n", "$(b)"},
		{"a cpus=4\n", "cpus=4"}, {"a \033[2J\n", "?[2J"}};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char content[64], text[128];

		snprintf(content, sizeof(content), "ok\n%s", bad[i][0]);
		snprintf(text, sizeof(text),
			"line 2: must be HOST [slots=N] with N from 1 to 1000000, got %s",
			bad[i][1]);
		expect(content, text);
	}
	expect("# nothing\n", "must name a host, got none");
}

static void test_a_byte_that_is_no_text(void **state)
{
	static const char hidden[] = "a\nb\0 slots=2\nc\n";
	static const char last[] = "a\nb\n\0";

	(void)state;
	expect_bytes(hidden, sizeof(hidden) - 1, "line 2: must be text, got a NUL byte");
	expect_bytes(last, sizeof(last) - 1, "line 3: must be text, got a NUL byte");
}

static void expect_refused(const char *path, int code, const char *text)
{
	struct smd_hostfile *hosts = NULL;
	struct smd_error error = {""};

	assert_int_equal(smd_hostfile_open(&hosts, path, &error), -code);
	assert_string_equal(error.text, text);
}

static void test_there_is_no_file(void **state)
{
	(void)state;
	expect_refused(
		"/no/such/file", ENOENT, "--hostfile=/no/such/file: No such file or directory");
	expect_refused("/tmp", EISDIR, "--hostfile=/tmp: Is a directory");
	expect_refused("/dev/zero", EFBIG,
		"--hostfile=/dev/zero: must be at most 16777216 bytes, got more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts_and_slots),
		cmocka_unit_test(test_a_host_that_is_named_twice),
		cmocka_unit_test(test_what_windows_puts_before_a_text),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_a_byte_that_is_no_text),
		cmocka_unit_test(test_there_is_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
