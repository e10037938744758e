/*
 * What a shard says on its lane: the greeting, its pulse, and frames about a communicator, which go
 * to the remote's receiver.
 */
#ifndef SMD_LIBSUMMAND_REMOTE_FRAME_H
#define SMD_LIBSUMMAND_REMOTE_FRAME_H

#include "worker/libsummand/remote.h"

/* Of the lane's callbacks (transport.h); the owner is the remote. */
int smd_remote_on_header(
	void *owner, const struct smd_frame *frame, void **payload, struct smd_error *error);
int smd_remote_on_frame(
	void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error);

#endif
