/*
 * How chunks get from device memory to lanes and back: through pinned memory, a bounded pool of
 * *stages* that hold one chunk each (specs/design/cuda.md).
 *
 *     device --read--> stage --lane--> shard --lane--> stage --write--> device
 *
 * Chunks that a lane's network card reads and writes itself (allocation_cache.h) take no stage, and
 * keep to the same rules of order.
 *
 * An operation on device memory begins when what was in the user's stream is done (its fence). Then
 * chunks that a shard allows are read ahead of those that are being sent. A stage is held for a
 * copy and for the lane's use of it, never while other ranks are waited for, so that no number of
 * communicators can take all of them for ever. Results that find no stage free are written
 * synchronously from where they came in.
 *
 * A copy that fails makes its communicator fail a little later, from the loop, because many callers
 * are in the middle of something.
 */
#ifndef SMD_LIBSUMMAND_STAGING_H
#define SMD_LIBSUMMAND_STAGING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/wire/frame.h"
#include "worker/libsummand/allocation_cache.h"
#include "worker/libsummand/device.h"

struct smd_comm;
TAILQ_HEAD(smd_comm_queue, smd_comm);
struct smd_context;
struct smd_flow;
struct smd_flow_send;
struct smd_request;

struct smd_stage {
	struct smd_notice notice; /* first: of the copy */
	uint8_t *memory;
	struct smd_request *operation;
	struct smd_flow_send *send; /* the chunk that is read; NULL: a result */
	bool reading;               /* from the device, now */
	SLIST_ENTRY(smd_stage) link;
};

struct smd_staging {
	const struct smd_device_ops *ops; /* NULL: all memory is the host's */
	struct smd_context *context;

	pthread_mutex_t lock; /* callers: of devices, their fences, and of making the pool */
	SLIST_HEAD(, smd_device) devices;
	struct smd_device *pinned_by;
	uint8_t *memory;
	struct smd_stage *stages; /* NULL: no operation has been on device memory yet */

	/* The owner's (progress.h): */
	struct smd_allocations allocations;
	SLIST_HEAD(, smd_stage) free;
	unsigned sending;     /* stages that hold chunks to send */
	unsigned sending_max; /* so that some are left for results */
	struct smd_comm_queue waiting;
	struct smd_task resume; /* communicators that wait for a stage may look again */
	bool resuming;
};

void smd_staging_create(struct smd_staging *staging, struct smd_context *context);
/* When no operation is in flight, and before the progress is destroyed. */
void smd_staging_destroy(struct smd_staging *staging);

/* On the caller's thread, before the operation starts: finds out whose memory its buffers are, and
 * sets the fence. 0 or -errno with a text; what is not -EINVAL fails the communicator too. */
int smd_staging_prepare(struct smd_request *operation, struct smd_error *error);

/* ---- on the owner of the progress engine ---- */

/* The operation on device memory begins. */
void smd_staging_begin(struct smd_request *operation);

/* Whether the lane's network card reads and writes such a chunk of the allocation (or NULL), or of
 * registered memory. */
bool smd_staging_reaches(const struct smd_request *operation,
	const struct smd_allocation *allocation, const struct smd_lane *lane, const void *memory,
	size_t bytes);

/* Begins to read the flow's next chunk that is not yet read and may be; whether it did. */
bool smd_staging_read(struct smd_flow *flow);

/* The flow's next chunk, which is that one, is where the lane can take it from. */
bool smd_staging_may_send(
	const struct smd_flow *flow, const struct smd_request *operation, uint64_t chunk);

/* Of an operation whose device memory is registered: the flow's next chunk can go, and its result
 * come, as it must. Else the communicator will fail, unless a place may still be given. */
bool smd_staging_may_go(const struct smd_flow *flow, struct smd_request *operation, uint64_t chunk);
/* Its result has come in another way: the communicator will fail. */
void smd_staging_refuse(struct smd_request *operation, const char *what);

/* The lane does not need the chunk's stage any more. */
void smd_staging_sent(struct smd_flow_send *send);

/* Where the flow's next result shall go. */
void *smd_staging_receive(struct smd_flow *flow);

/* The result is there: `offset` is its first byte in the operation. */
void smd_staging_write(
	struct smd_flow *flow, struct smd_request *operation, size_t offset, size_t bytes);

/* All results are there. False: the device does not see them, and the communicator will fail. */
bool smd_staging_flush(struct smd_request *operation);

/* The operation ends, whether its fence has opened or not. */
void smd_staging_end(struct smd_request *operation);

/* The communicator has failed or left: what it holds for later is given back. */
void smd_staging_abandon(struct smd_comm *comm);

#endif
