/* Log lines: what is shown is printable, and an unknown level is told. */
#include "reduction_server/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What a process with that SUMMAND_LOG logs. */
static void log_with(const char *level, char *out, size_t size)
{
	int pair[2];
	ssize_t length;
	size_t used = 0;
	pid_t pid;

	assert_int_equal(pipe(pair), 0);
	pid = fork();
	if (pid == 0) {
		dup2(pair[1], STDERR_FILENO);
		setenv("SUMMAND_LOG", level, 1);
		smd_log(SMD_LOG_DEBUG, "test", "debug");
		smd_log(SMD_LOG_INFO, "test", "got %s", "\xe2\x80\xae\xc2\x9b\n");
		_exit(0);
	}
	close(pair[1]);
	while ((length = read(pair[0], out + used, size - 1 - used)) > 0) {
		used += (size_t)length;
	}
	out[used] = '\0';
	close(pair[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_levels(void **state)
{
	char text[1024];

	(void)state;
	log_with("debug", text, sizeof(text));
	assert_string_equal(text, "debug test: debug\ninfo  test: got ??????\n");
	log_with("warn", text, sizeof(text));
	assert_string_equal(text, "");
	log_with("", text, sizeof(text));
	assert_string_equal(text, "info  test: got ??????\n");
}

static void test_an_unknown_level_is_told_once(void **state)
{
	char text[1024];

	(void)state;
	log_with("lo\xc2\x9bud", text, sizeof(text));
	assert_string_equal(text,
		"warn  log: SUMMAND_LOG: must be error, warn, info or debug, got \"lo??ud\"; "
		"using info\ninfo  test: got ??????\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_an_unknown_level_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
