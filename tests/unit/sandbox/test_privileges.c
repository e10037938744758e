/* Privileges are given up for good, and only root becomes someone else. */
#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduction_server/sandbox/privileges.h"

static bool has_capability(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, sets) != 0) {
		return true;
	}
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		if (sets[i].effective || sets[i].permitted || sets[i].inheritable) {
			return true;
		}
	}
	return false;
}

/* The exit code of a child that runs this. */
static int in_child(int (*act)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		_exit(act());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int drop_as_it_is(void)
{
	const struct smd_user same = {.name = NULL};
	struct smd_error error = {""};

	if (smd_privileges_drop(&same, &error)) {
		return 1;
	}
	return has_capability() || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

static int become_nobody(void)
{
	struct smd_error error = {""};
	struct smd_user nobody;

	if (smd_user_find("nobody", &nobody, &error) || smd_privileges_drop(&nobody, &error)) {
		return 1;
	}
	if (getuid() != nobody.uid || geteuid() != nobody.uid || getegid() != nobody.gid ||
		getgroups(0, NULL) > 1) {
		return 2;
	}
	return setuid(0) == 0 || has_capability();
}

static int become_root_again(void)
{
	const struct smd_user root = {"root", 0, 0};
	struct smd_error error = {""};

	return become_nobody() || smd_privileges_drop(&root, &error) != -EPERM ||
	       !strstr(error.text, "only root may become root");
}

static void capabilities_are_dropped(void **state)
{
	(void)state;
	assert_int_equal(in_child(drop_as_it_is), 0);
}

static void root_becomes_someone_else(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(in_child(become_nobody), 0);
	assert_int_equal(in_child(become_root_again), 0);
}

static void unknown_user_is_refused(void **state)
{
	struct smd_error error = {""};
	struct smd_user user;

	(void)state;
	assert_int_equal(smd_user_find("no such user", &user, &error), -EINVAL);
	assert_string_equal(error.text, "must be a user of this system");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capabilities_are_dropped),
		cmocka_unit_test(root_becomes_someone_else),
		cmocka_unit_test(unknown_user_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
