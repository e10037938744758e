/*
 * Whether a shard is alive and works, as its lane tells.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_PULSE_H
#define SMD_LIBSUMMAND_REMOTE_PULSE_H

#include "worker/libsummand/remote.h"

/* The shard has said WELCOME: looks from now on, until the lane ends. -ENOMEM. */
int smd_remote_watch(struct smd_remote *remote);

#endif
