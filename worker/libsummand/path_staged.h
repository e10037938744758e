/*
 * The staged path: device memory, through pinned memory of the host (specs/design/cuda.md).
 *
 *     device --fetch--> stage --lane--> shard --lane--> stage --write--> device
 *
 * Where the lane's network card can read and write the buffer's allocation itself
 * (allocation_cache.h), a chunk takes no stage, and keeps to the same rules of order.
 *
 * An operation begins when what was in the user's stream is done (its fence). Chunks that a shard
 * allows are then fetched ahead of those that are being sent. A stage is held for a copy and for
 * the lane's use of it, never while other ranks are waited for, so that no number of communicators
 * can hold all of them for ever. But for places (staging.h), to which cards write results: whoever
 * finds none has its result in messages. One that comes so and finds no stage free is written
 * synchronously from the remote's sink.
 *
 * Chunks that a server has taken with it are fetched again: of what has come back, the result.
 * Whole results are copied to the device, so every chunk there is an input or a result.
 *
 * A copy that fails makes its communicator fail a little later, from the loop, because many callers
 * are in the middle of something.
 */
#ifndef SMD_LIBSUMMAND_PATH_STAGED_H
#define SMD_LIBSUMMAND_PATH_STAGED_H

#include "worker/libsummand/operation.h"

/*
 * On the caller's thread, before the operation starts. First whose memory its buffers are is found
 * out, and if a device's, this is made its path. Then it gets the device's stages, and its fence. 0
 * or -errno with a text; what is not -EINVAL fails the communicator too.
 */
int smd_path_staged_choose(struct smd_request *operation, struct smd_device_location *location,
	struct smd_error *error);
int smd_path_staged_prepare(struct smd_request *operation,
	const struct smd_device_location *location, struct smd_error *error);

/* On the owner: the flow's lane is closed, and what it holds of stages is given back. */
void smd_path_staged_abandon_flow(struct smd_flow *flow);

/* On the owner: the communicator has failed or left; what it holds for later is given back. */
void smd_path_staged_abandon(struct smd_comm *comm);

#endif
