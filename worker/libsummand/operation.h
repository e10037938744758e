/*
 * One collective call of this rank: the caller's buffers, and how much of them is done.
 *
 * This is the public smd_request. The caller's thread makes it and frees it; in between it belongs
 * to the owner (progress.h), until `finished` is published.
 */
#ifndef SMD_LIBSUMMAND_OPERATION_H
#define SMD_LIBSUMMAND_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "worker/libsummand/context.h"

struct smd_request {
	struct smd_comm *comm;
	struct smd_task start;
	const uint8_t *send;
	uint8_t *recv;
	size_t count;
	unsigned collective;
	unsigned root;
	unsigned dtype;
	unsigned op;
	size_t element_bytes;

	uint64_t sequence; /* number of the operation in the communicator */
	uint64_t first_chunk;
	uint64_t nchunks;
	size_t chunk_elements;
	uint64_t chunks_done;   /* results received */
	unsigned sends_pending; /* chunks that a lane still reads from `send` */

	bool cards_only; /* device memory is registered (registration.h), and `device` is NULL */
	struct smd_device *device; /* NULL: both buffers are host memory */
	bool reads_device;         /* `send` is the device's, and used */
	bool writes_device;        /* `recv` is */
	uint64_t send_id;          /* of the allocations that they are in; 0: unknown */
	uint64_t recv_id;
	struct smd_allocation *send_allocation; /* NULL: network cards cannot have it */
	struct smd_allocation *recv_allocation;
	bool unflushed;          /* the device may not see all that cards have written to `recv`, */
	bool unseen;             /* nor ever will: the operation ends with its communicator */
	struct smd_fence *fence; /* NULL: what it has to follow on the device is done */
	unsigned copies_pending;
	TAILQ_ENTRY(smd_request) link;

	/* Published, under the progress's lock: */
	bool finished;
	int err;
};

/* Where the chunk begins in the buffers. */
size_t smd_operation_chunk_offset(const struct smd_request *operation, uint64_t chunk);

/* Bytes of the chunk, which is one of the operation's. */
size_t smd_operation_chunk_bytes(const struct smd_request *operation, uint64_t chunk);

/* Bytes of it that this rank sends, and that it receives: all or none. */
size_t smd_operation_sent_bytes(const struct smd_request *operation, uint64_t chunk);
size_t smd_operation_received_bytes(const struct smd_request *operation, uint64_t chunk);

/* As smd_broadcast_start(), but every rank gets the root's elements in `recv`, the root too. */
int smd_broadcast_out_of_place_start(smd_comm *comm, const void *send, void *recv, size_t count,
	enum smd_dtype dtype, int root, smd_request **out);

/* On the owner: hands the operation back to its caller if nothing of it is under way. */
void smd_operation_check(struct smd_request *operation);

#endif
