/*
 * Gives up what a process may do beyond others of its user, so that whoever takes it over gains
 * little.
 *
 * Rights belong to threads: call smd_privileges_drop() before there is a second one.
 */
#ifndef SMD_SANDBOX_PRIVILEGES_H
#define SMD_SANDBOX_PRIVILEGES_H

#include <sys/types.h>

#include "reduction_server/base/error.h"

struct smd_user {
	const char *name; /* NULL: who the process is already */
	uid_t uid;
	gid_t gid;
};

/* -EINVAL: there is no such user. The name must live as long as the user. */
int smd_user_find(const char *name, struct smd_user *out, struct smd_error *error);

/*
 * Becomes the user, drops all capabilities for good, and lets no program that is executed regain
 * any. First raises the limit of locked memory as far as it may: RDMA needs that, and CAP_IPC_LOCK
 * is gone. -EPERM: only root may become someone else.
 */
int smd_privileges_drop(const struct smd_user *user, struct smd_error *error);

#endif
