/* Changes the user, and drops capabilities. */
#include "reduction_server/sandbox/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int smd_user_find(const char *name, struct smd_user *out, struct smd_error *error)
{
	const struct passwd *entry = getpwnam(name);

	if (!entry) {
		return smd_error_set(error, EINVAL, "must be a user of this system");
	}
	*out = (struct smd_user){name, entry->pw_uid, entry->pw_gid};
	return 0;
}

static void raise_memory_lock(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 && getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_MEMLOCK, &limit);
	}
}

/* No program that is executed later can have them; without CAP_SETPCAP that stays as it is. */
static void empty_bounding_set(void)
{
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0;
		capability++) {
		(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	}
}

static int become(const struct smd_user *user, struct smd_error *error)
{
	if (!user->name || (user->uid == getuid() && user->uid == geteuid())) {
		return 0;
	}
	if (geteuid() != 0) {
		return smd_error_set(error, EPERM, "--user: only root may become %s, got user %u",
			user->name, (unsigned)geteuid());
	}
	if (initgroups(user->name, user->gid) != 0 ||
		setresgid(user->gid, user->gid, user->gid) != 0 ||
		setresuid(user->uid, user->uid, user->uid) != 0) {
		return smd_error_set(error, errno, "--user: cannot become %s: %m", user->name);
	}
	return 0;
}

static int drop_capabilities(struct smd_error *error)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, none) != 0) {
		return smd_error_set(error, errno, "cannot drop capabilities: %m");
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		return smd_error_set(error, errno, "cannot set no_new_privs: %m");
	}
	return 0;
}

int smd_privileges_drop(const struct smd_user *user, struct smd_error *error)
{
	int ret;

	raise_memory_lock();
	empty_bounding_set();
	ret = become(user, error);
	return ret ? ret : drop_capabilities(error);
}
