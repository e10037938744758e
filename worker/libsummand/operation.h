/*
 * One collective call of this rank: the caller's buffers, and how much of them is done.
 *
 * This is the public smd_request, of which callers have a number (handle.h). The caller's thread
 * makes it and frees it; in between it belongs to the owner (progress.h), until `finished` is
 * published.
 */
#ifndef SMD_LIBSUMMAND_OPERATION_H
#define SMD_LIBSUMMAND_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "worker/libsummand/comm.h"
#include "worker/libsummand/path.h"

/* What has become of a narrow operation's result (path_narrow.h) since it is there. */
enum smd_widening { SMD_NARROW, SMD_WIDENING, SMD_WIDE };

struct smd_exchange_piece;

struct smd_request {
	struct smd_comm *comm;
	bool numbered; /* its caller waits for it by its number */
	bool large;    /* it wants the engine all the time (progress.h) */
	struct smd_task start;
	const uint8_t *send;
	uint8_t *recv;
	size_t count;
	unsigned collective;
	unsigned root;
	unsigned dtype;
	unsigned op;
	size_t element_bytes;
	size_t bytes; /* of the caller's elements */

	struct smd_request *whole;    /* it is a segment of that (segment.h), else NULL */
	struct smd_request *segments; /* that it is done in, else NULL; */
	size_t nsegments;
	size_t begun; /* so many have, */
	size_t ended; /* and so many are over, */
	int failed;   /* the first that failed so */

	uint64_t sequence;      /* number of the operation in the communicator */
	uint64_t timed;         /* bytes that its time is of, at rank 0 (tuning.h) */
	bool served;            /* it can be no exchange */
	struct smd_epoch *home; /* that its chunks have their first numbers in */
	bool laid;              /* they have; else it is kept back */
	unsigned pieces;      /* that ranks do among themselves (exchange.h); 0: servers do all, */
	unsigned pieces_done; /* and that are here */
	struct smd_exchange_piece *first_piece;
	bool repaired;          /* some have been dealt again */
	bool leaves_copies;     /* when it returns (history.h) */
	bool holds;             /* all results are here; others may lack some */
	uint64_t first_chunk;
	uint64_t nchunks;
	size_t chunk_elements;
	unsigned window;        /* chunks under way on a shard, before the next one goes, */
	unsigned lead;          /* and ahead of the oldest one under way on any */
	uint64_t chunks_done;   /* results received */
	unsigned sends_pending; /* chunks that a lane still reads from `send` */

	const struct smd_path *path;
	unsigned copies_pending; /* between the device and pinned memory, */
	unsigned writing;        /* and of these, to the device */

	/* Of the narrow path (path_narrow.h), in whose terms `send`, `dtype` and `element_bytes`
	 * are: */
	const uint8_t *wide;        /* the caller's `send`; NULL: it is on another path */
	size_t narrowed;            /* elements, from the front */
	enum smd_widening widening; /* under the progress's lock: several threads may test it */

	/* Of device memory (path_staged.h, path_direct.h): */
	struct smd_device *device; /* that the staged path copies from and to */
	bool reads_device;         /* `send` is a device's, and used */
	bool writes_device;        /* `recv` is */
	uint64_t send_id;          /* of the allocations that they are in; 0: unknown */
	uint64_t recv_id;
	struct smd_allocation *send_allocation; /* NULL: network cards cannot have it */
	struct smd_allocation *recv_allocation;
	uint8_t *copy; /* of what this rank contributes when others lack results (settle.h);
			  NULL: there is none, */
	bool copied;   /* but it was asked for */
	bool unflushed;          /* the device may not see all that cards have written to `recv`, */
	bool unseen;             /* nor ever will: the operation ends with its communicator */
	struct smd_fence *fence; /* NULL: what it has to follow on the device is done; a whole's */
	TAILQ_ENTRY(smd_request) link;

	/* Published, under the progress's lock; the first may be looked at without it. */
	_Atomic bool finished;
	int err;
};

/* NULL: it may begin, or its segment may. */
static inline struct smd_fence *smd_operation_fence(const struct smd_request *operation)
{
	return operation->whole ? operation->whole->fence : operation->fence;
}

/* Where the chunk begins in the buffers. */
size_t smd_operation_chunk_offset(const struct smd_request *operation, uint64_t chunk);

/* Bytes of the chunk, which is one of the operation's. */
size_t smd_operation_chunk_bytes(const struct smd_request *operation, uint64_t chunk);

/* Bytes of it that this rank sends, and that it receives: all or none. */
size_t smd_operation_sent_bytes(const struct smd_request *operation, uint64_t chunk);
size_t smd_operation_received_bytes(const struct smd_request *operation, uint64_t chunk);

/* What this rank contributes where others lack results of it that it has itself: these, or else its
 * inputs. */
bool smd_operation_contributes_results(const struct smd_request *operation);

/* One of its buffers, as lanes register it. */
struct smd_extent smd_operation_extent(const struct smd_request *operation, const void *buffer);

/* Its results go where the host's memory has the inputs that they are of. */
bool smd_operation_overwrites(const struct smd_request *operation);

/* On the owner: hands the operation back to its caller if nothing of it is under way. */
void smd_operation_check(struct smd_request *operation);

/* On the owner: hands it back, before anything of it was sent, with its communicator's error. */
void smd_operation_refuse(struct smd_request *operation);

/* On the owner: a shard has said ABORT, and no operation in flight can be done without it. */
bool smd_operations_are_lost(const struct smd_comm *comm);

/* What an INPUT of that operation says in `open` (frame.h). */
uint8_t smd_operations_open(const struct smd_comm *comm, uint64_t sequence);
/* A RESULT tells of how many operations all ranks have all results. */
void smd_operations_heard_open(struct smd_comm *comm, const struct smd_frame *result);

/* On the owner: it is in its communicator's list now. */
void smd_operation_begin(struct smd_request *operation);

/* What a part of the chunk says, but for its place in a stream. */
void smd_operation_shape(
	const struct smd_request *operation, uint64_t chunk, struct smd_frame *out);

/* On the owner: hands back those that only wait for what other ranks have, as far as they have. */
void smd_operations_check_held(struct smd_comm *comm);

#endif
