/*
 * A worker's side of the handshake on the lane to a shard.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_GREETING_H
#define SMD_LIBSUMMAND_REMOTE_GREETING_H

#include "worker/libsummand/remote.h"

/* Says HELLO on a lane that is open. 0 or -errno. */
int smd_remote_say_hello(struct smd_remote *remote);

/* The shard has said CHALLENGE: says PROOF. 0, or -errno with a text; -EACCES: it cannot be had. */
int smd_remote_on_challenge(
	struct smd_remote *remote, const struct smd_frame *frame, struct smd_error *error);

/* Whether whoever said WELCOME is to be believed: 0, or -errno with a text; -EACCES: who has said
 * it has not the job's token. */
int smd_remote_check_welcome(const struct smd_remote *remote, const struct smd_welcome *welcome,
	struct smd_error *error);

/* Says of a shard that must prove that it has the job's token what it has done instead: a proof
 * that is wrong, or none. -EACCES. */
int smd_remote_disbelieve(bool proved, struct smd_error *error);

#endif
