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
static void expect(const char *content, const char *expected)
{
	char path[] = "/tmp/test-hostfile.XXXXXX";
	int fd = mkstemp(path);
	struct smd_hostfile_line *lines;
	struct smd_error error = {""};
	char text[256] = "";
	size_t count;
	int ret;

	assert_true(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
	close(fd);
	ret = smd_hostfile_read(path, &lines, &count, &error);
	unlink(path);
	for (size_t i = 0; i < count; i++) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s:%d", i ? " " : "",
			lines[i].host, lines[i].slots);
	}
	assert_string_equal(ret ? error.text + strlen("--hostfile=") + strlen(path) + 2 : text,
		expected);
	smd_hostfile_free(lines, count);
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

static void test_what_is_none(void **state)
{
	static const char *const bad[] = {"a slots=0\n", "a slots=x\n", "a slots=\n", "a slots=1x\n",
		"a 8\n", "a slots=99999999999\n", "-oProxyCommand=x\n", "a;b\n", "$(b)\n",
		"a cpus=4\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "ok\n%s", bad[i]);
		expect(text, "line 2: must be HOST [slots=N]");
	}
	expect("# nothing\n", "must name a host");
}

static void test_there_is_no_file(void **state)
{
	struct smd_hostfile_line *lines;
	struct smd_error error = {""};
	size_t count;

	(void)state;
	assert_int_equal(smd_hostfile_read("/no/such/file", &lines, &count, &error), -ENOENT);
	assert_string_equal(error.text, "--hostfile=/no/such/file: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts_and_slots),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_there_is_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
