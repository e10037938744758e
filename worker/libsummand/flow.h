/*
 * The chunks of one communicator on one shard: what has been sent, and what has come back.
 *
 *     0 ......... done ......... next ......... limit
 *     results here | sent, waiting | may be sent   | not granted yet
 *
 * Of those that may be sent, the ones before `fetched` need not be fetched by their path (path.h),
 * are being, or have been, and the ones before `buffered` have a remote buffer at the shard
 * (transport.h). Numbers are ordinals. `done` and `next` only grow; limit - done is at most
 * SMD_FLOW_WINDOW_MAX.
 */
#ifndef SMD_LIBSUMMAND_FLOW_H
#define SMD_LIBSUMMAND_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/libsummand/operation.h"

#define SMD_FLOW_WINDOW_MAX SMD_WINDOW_MAX

struct smd_epoch;
struct smd_item;

struct smd_flow_send {
	struct smd_send send;          /* owner: the epoch, for smd_lane_cancel() */
	bool leaving;                  /* the lane has it */
	struct smd_request *operation; /* NULL: one that has returned */
	const void *fetched;     /* where the path has put the chunk; NULL: it is in the buffer */
	struct smd_stage *stage; /* the staged path's, which `fetched` is the memory of, */
	struct smd_stage *place; /* and which the card may write its result to; NULL: none */
	struct smd_undo *undo;   /* of what its result may be written over; NULL: nothing */
};

struct smd_flow {
	struct smd_turn turn; /* first: on the remote's lane, for the next chunk */
	struct smd_comm *comm;
	struct smd_epoch *epoch;
	struct smd_remote *remote;
	unsigned target; /* whose shard it is, by number */
	unsigned place;  /* in the epoch's deal */
	bool serves;     /* something is dealt to it; else only what ranks agree on is said there */
	bool dead;       /* the lane has been closed for good, */
	bool left;     /* or lives on, and what the shard still says of this is nothing any more */
	unsigned died; /* in the epoch of this index, its chunks from this one on were lost: */
	uint64_t lost_from;
	uint64_t missing; /* of these, what this rank has had the results of, and not found yet */
	uint64_t stable;  /* results before this one are with all ranks */
	uint64_t hold;    /* operations wait until those before this one are: */
	bool hold_alone;  /* other ranks may not ask that */
	uint64_t tell; /* the shard wants to hear when this rank has all results before this one */
	uint64_t asked_held;        /* the shard has been asked so */
	bool held;                  /* its next chunk waits for older ones (lead.h), */
	TAILQ_ENTRY(smd_flow) link; /* so it is in that list */
	uint64_t busy_ns; /* rank 0: since when something has always been sent and not come back, */
	unsigned busy_chunks; /* and what has come back since */
	uint64_t busy_bytes;
	uint64_t busy_skipped; /* of both ways (zeros.h) */
	uint64_t skipped;      /* by its lane, when that was last looked at */
	uint64_t done;
	uint64_t next;
	uint64_t limit;
	uint64_t fetched;
	uint64_t buffered;
	bool asked;      /* JOIN has been said on the lane that is there, */
	bool again;      /* or is for the second time: the lane has rested since */
	bool heard;      /* published: the shard has said something about the communicator, */
	bool joined;     /* published: JOINED, */
	bool over;       /* or ABORT, */
	bool gone;       /* or GONE: of a rank that may be there */
	bool told_there; /* while the group forms: since a shard last said GONE it has said who is
			    there, */
	bool holds_gone; /* and those that are gone elsewhere are */
	bool open;       /* the communicator is over, but the shard may still be writing results */
	struct smd_request
		*rx_operation; /* whose result is coming in; NULL: one that has returned */
	bool rx_repairs;       /* it is the item with this number in the epoch: items move */
	uint64_t rx_number;
	uint64_t rx_chunk;  /* of the operation */
	uint32_t rx_bytes;  /* of the whole result, */
	uint32_t rx_got;    /* and of the pieces that have come */
	uint8_t *rx_beside; /* where it goes until it is whole; NULL: to its place at once */
	struct smd_stage *rx_stage; /* the staged path's, that it goes to; NULL: elsewhere */
	/* Of the epoch's windows, SMD_FLOW_WINDOW_MAX each, of ordinal k at k modulo that: */
	struct smd_flow_send *sends;
	struct smd_remote_buffer *remote_buffers;  /* for its chunk */
	struct smd_advertisement **advertisements; /* NULL or for its result */
	unsigned withdrawing; /* of them, which the shard's card may still write to; */
	void (*withdrawn)(struct smd_flow *flow); /* none is left of these */
};

/* Its lane is there. Between the end of that and the word that the server is lost it is not, and
 * the flow is not dead. */
static inline bool smd_flow_has_lane(const struct smd_flow *flow)
{
	return flow->remote && flow->remote->lane && !flow->dead;
}

/* A part has left, and its result has not come. */
static inline bool smd_flow_is_owed(const struct smd_flow *flow)
{
	return !flow->dead && flow->done < flow->next &&
	       !flow->sends[flow->done % SMD_FLOW_WINDOW_MAX].leaving;
}

/* All ranks have the result. */
static inline bool smd_flow_is_stable(const struct smd_flow *flow, uint64_t ordinal)
{
	return ordinal < flow->stable || (flow->died && ordinal < flow->lost_from);
}

/* Asks the shard whether all ranks have what operations wait for. */
void smd_flow_ask_held(struct smd_flow *flow);
/* Tells the shard what this rank has, for other ranks that wait for that. */
void smd_flow_tell_held(struct smd_flow *flow);
/* The shard asks, for another rank, whether this one has all results before that ordinal. */
void smd_flow_asked_held(struct smd_flow *flow, uint64_t ordinal);
/* All have the results before that ordinal. */
void smd_flow_held(struct smd_flow *flow, uint64_t ordinal);

/* The lane has been closed, and what was on it is lost. */
void smd_flow_die(struct smd_flow *flow);

/* For the chunk, which is not done. */
static inline struct smd_remote_buffer smd_flow_remote_buffer(
	const struct smd_flow *flow, uint64_t ordinal)
{
	return ordinal < flow->buffered ? flow->remote_buffers[ordinal % SMD_FLOW_WINDOW_MAX]
					: (struct smd_remote_buffer){.length = 0};
}

/*
 * Whether the lane's card takes that chunk from memory of a device: it can, and the shard has
 * advertised a buffer for it. What is so once stays so.
 */
bool smd_flow_sends_directly(const struct smd_flow *flow, const struct smd_request *operation,
	uint64_t chunk, uint64_t ordinal);

/* Nothing has been sent, nor granted. */
void smd_flow_begin(struct smd_flow *flow, struct smd_remote *remote);

/* The shard allows so many chunks after those that are done. */
void smd_flow_grant(struct smd_flow *flow, unsigned window);

/* Gives back what is granted and not used but the next chunk, and tells the shard so. */
void smd_flow_shrink(struct smd_flow *flow);

/* Waits for its turn if the next chunk is there and may go, begins to fetch one, and lets the lane
 * have a chunk, of whoever is next, if it has room; whether any of these was done but the first. */
bool smd_flow_send(struct smd_flow *flow);

/* What has not been given to the lane stays here: the communicator is over. */
void smd_flow_stop(struct smd_flow *flow);

/*
 * A result is announced: *payload is where it goes. -errno with a text when the shard breaks the
 * protocol.
 */
int smd_flow_receive(struct smd_flow *flow, const struct smd_frame *frame, void **payload,
	struct smd_error *error);

/* Takes the remote buffers that have come with the frame that is handed out. -EPROTO with a text.
 */
int smd_flow_take_remote_buffers(struct smd_flow *flow, struct smd_error *error);

/* The number of the first operation that is not begun, or needs one more chunk of the shard's. */
uint64_t smd_flow_next_operation(const struct smd_flow *flow);

/* The announced result is there. -EPROTO with a text when what came with it makes no sense. */
int smd_flow_received(
	struct smd_flow *flow, const struct smd_frame *frame, struct smd_error *error);

#endif
