/*
 * What a lane is to its owner.
 *
 * A *lane* is a connection that carries frames in both directions, in order. It belongs to one
 * event loop and is used on that loop's thread only, so nothing here takes a lock on the data path.
 *
 * Receiving. The transport decodes each frame's header and hands it to on_header(), which says
 * where the payload goes. The transport puts the bytes there and nowhere else (TCP reads from the
 * socket right into that memory), and calls on_frame() when all of them have arrived.
 *
 * Sending. The caller owns a `struct smd_send` and the payload that it points to until done() is
 * called: once, in order, with 0 when the bytes are no longer needed, or with -errno when the lane
 * ended first. Nothing is copied or allocated. done() may be called before smd_lane_send() returns.
 * It is called before on_header() of any frame that the other end sent in answer.
 *
 * Advertised buffers. Some transports (rdma) write a payload into the receiver's memory without a
 * copy, before the receiver knows of it. A receiver advertises buffers for payloads that it
 * expects. They travel with the next frame, in order, and come out of the lane at the sender with
 * that frame as *remote buffers*. Both ends agree which buffer is for which payload; a payload
 * without a remote buffer arrives all the same. The peer may write to an advertised buffer until
 * its payload arrives, the buffer is revoked because the peer is known to be finished with it, or
 * the lane closes. Payloads of up to SMD_DIRECT_ABOVE bytes are copied, which is faster, except
 * where a processor may not copy: from memory of a device, and to a remote buffer that is itself no
 * larger than that. So a receiver advertises small buffers only for memory of a device.
 *
 * The end. on_closed() is called at most once, always from the event loop or smd_lane_poll(), never
 * from inside another call into the transport, and only if the owner has not closed the lane first.
 * The owner then calls smd_lane_close(), which gives back every queued send with -ECANCELED. It
 * does not wait, and when it returns no memory of the owner is read or written on the lane's
 * behalf: what the transport has copied, control frames too, may still be on its way. The lane's
 * memory is freed at the end of the loop's turn or later, so closing inside any callback is safe.
 * No callback follows it.
 */
#ifndef SMD_TRANSPORT_LANE_H
#define SMD_TRANSPORT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/error.h"
#include "reduction_server/wire/frame.h"

struct smd_offer; /* wire/message.h */
struct smd_transport_ops;

/* Memory at the other end that one payload may be written to. Length 0: none. */
struct smd_remote_buffer {
	uint64_t address;
	uint32_t key;
	uint32_t length;
};
#define SMD_REMOTE_BUFFERS_MAX 32 /* that come with one frame */
#define SMD_DIRECT_ABOVE       4096u

/* A buffer that some memory is part of, all of which may be registered at once; or zeros. */
struct smd_extent {
	void *base;
	size_t length;
};

/* What every transport's note of an advertised buffer begins with. */
struct smd_advertisement {
	bool beside; /* nothing is written to the buffer before claim() */
	bool held;   /* the other end has the key of a memory window to it, and gives that back with
			the frame that the buffer is for: one that comes without is a breach */
	LIST_ENTRY(smd_advertisement) link; /* of the lane's */
};

/* The memory of an advertisement that was withdrawn is its owner's again. */
typedef void smd_withdrawn(void *owner, void *memory);

struct smd_send {
	uint8_t header[SMD_FRAME_SIZE]; /* encoded by smd_lane_send() */
	const void *payload;
	uint32_t length;
	void (*done)(struct smd_send *send, int err);
	void *owner;                            /* the sender's own business */
	struct smd_remote_buffer remote_buffer; /* for the payload; see above */
	struct smd_extent extent;               /* of the payload */
	struct smd_turns *turns;                /* the owner's, that it was given by (turns.h) */
	bool elements;       /* its payload: blocks of zeros need not cross (skip_zeros) */
	bool self_contained; /* this and the payload stay until done(), even after the lane is
				closed, and done() needs no more than the lane itself */
	/* The transport's while the send is queued: */
	uint32_t sent;             /* header and payload bytes that have left */
	bool looked;               /* for zeros */
	unsigned nadvertised;      /* buffers that are advertised with it, */
	uint32_t first_advertised; /* from this one on */
	TAILQ_ENTRY(smd_send) link;
};
TAILQ_HEAD(smd_send_queue, smd_send);

/* What a lane is encrypted with: a secret that both ends know, and the name by which the end that
 * is connected to finds it among others. The name crosses in clear. */
#define SMD_LANE_SECRET_SIZE  32
#define SMD_LANE_IDENTITY_MAX 288
struct smd_lane_key {
	char identity[SMD_LANE_IDENTITY_MAX + 1];
	uint8_t secret[SMD_LANE_SECRET_SIZE];
};
struct smd_lane_keys {
	/* Whether there is one of that name. It may be called on any loop's thread. */
	bool (*find)(const void *owner, const char *identity, uint8_t secret[SMD_LANE_SECRET_SIZE]);
	const void *owner;
};

#define SMD_LANE_DETACHED 1
#define SMD_SHARD_UNKNOWN (-1)

struct smd_lane_callbacks {
	/* The lane is connected (only after connect). */
	void (*on_open)(void *owner);
	/* Half of a lane is made, and that is its offer (only after offer). */
	void (*on_offered)(void *owner, const struct smd_offer *own);
	/*
	 * Where shall the payload go? *payload must have room for frame->length bytes until
	 * on_frame(), smd_lane_redirect() or the lane's end. -errno ends the lane for the reason in
	 * `error`. A frame without payload is asked about too; *payload is then not used. Nor is it
	 * when lane->direct says that the payload was written to the buffer advertised for it:
	 * then -EPROTO is the answer if none was.
	 */
	int (*on_header)(void *owner, const struct smd_frame *frame, void **payload,
		struct smd_error *error);
	/* So many bytes of the frame's payload have come, and not all. Not every transport says so.
	 * NULL: nobody wants to know. The lane is not closed in here. */
	void (*on_part)(void *owner, const struct smd_frame *frame, uint32_t bytes);
	/*
	 * The frame is whole. -errno ends the lane for the reason in `error`; SMD_LANE_DETACHED
	 * when the callback has detached the lane, which may then be at work on another thread
	 * already.
	 */
	int (*on_frame)(
		void *owner, const struct smd_frame *frame, void *payload, struct smd_error *error);
	/* The lane has ended: err is -errno, reason a phrase such as "connection reset by peer". */
	void (*on_closed)(void *owner, int err, const char *reason);
	/* *payload may be memory that cannot be written: of one of more than a page the lane then
	 * ends with -EFAULT, and no processor writes there. Not by every transport. */
	bool callers_memory;
	/* The other end is of the same job, and trusted with what is advertised to it until that is
	 * revoked: no memory windows. */
	bool trusting;
};

struct smd_lane_counts {
	uint64_t bytes_sent; /* headers and payloads */
	uint64_t bytes_received;
	uint64_t bytes_skipped; /* zeros, in either direction, that are in neither */
	uint64_t requests;      /* work requests to a device, of sends */
	uint64_t doorbells;     /* calls that posted them */
};

static inline void smd_lane_counts_add(
	struct smd_lane_counts *sum, const struct smd_lane_counts *counts)
{
	sum->bytes_sent += counts->bytes_sent;
	sum->bytes_received += counts->bytes_received;
	sum->bytes_skipped += counts->bytes_skipped;
	sum->requests += counts->requests;
	sum->doorbells += counts->doorbells;
}

/* Nothing taken, or heard of its machine, for so long: the other end is gone. */
#define SMD_LANE_SILENT_MS 20000u

/* What every transport's lane begins with. */
struct smd_lane {
	const struct smd_transport_ops *ops;
	struct smd_lane_counts counts;
	uint64_t heard_ns; /* when something of these was received last; 0: nothing was yet */
	/* It was accepted and attached, and is still being made: nothing comes yet, and its
	 * transport limits how long that may take. */
	bool opening;
	bool made;         /* this end has done its part of that, and waits for the other */
	unsigned controls; /* control frames that have not left */
	bool parts; /* the last ones say why it will be closed, or what has left must arrive: the
		       other end has about a second to read that, where that needs care */
	bool windows; /* what is advertised on it is opened by memory windows, where it can be at
			 all */
	/* Of the frame that is being handed out: */
	bool direct; /* its payload is in the buffer advertised for it */
	const struct smd_remote_buffer *remote_buffers; /* that came with it */
	unsigned nremote_buffers;
};
/* So many bytes more have come. */
static inline void smd_lane_received(struct smd_lane *lane, size_t bytes)
{
	lane->counts.bytes_received += bytes;
	lane->heard_ns = bytes ? smd_clock_ns() : lane->heard_ns;
}

/* A peer that asks and asks but does not read its answers gets no more than so many queued. */
#define SMD_LANE_CONTROLS_MAX (4 * SMD_COMMS_MAX)

#endif
