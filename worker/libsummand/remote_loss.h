/*
 * How the lane to a shard ends, whose doing that is, and what it is called.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_LOSS_H
#define SMD_LIBSUMMAND_REMOTE_LOSS_H

#include "worker/libsummand/remote.h"

/* The lane has ended, or does now. */
void smd_remote_drop_lane(struct smd_remote *remote);

/* The server cannot be had, or was lost, for good: `what` follows its name. Of a server the first
 * lane to end speaks for all. */
void smd_remote_fail(struct smd_remote *remote, int err, const char *what);

/* The same, of a text that names it. */
void smd_remote_fail_with(struct smd_remote *remote, int err, const char *text);

/* An open lane has ended. It is the server's doing, unless this process has stood still or has
 * passed memory that it does not have. */
void smd_remote_lose(struct smd_remote *remote, int err, const char *reason);

#endif
