/*
 * The seam between what is said (engine, libsummand) and how it travels (tcp, rdma).
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
#ifndef SMD_TRANSPORT_TRANSPORT_H
#define SMD_TRANSPORT_TRANSPORT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/error.h"
#include "reduction_server/wire/frame.h"

struct event_base;
struct smd_origin;
struct smd_lane;
struct smd_offer; /* wire/message.h */
struct smd_transport_ops;

/* What every transport's listener begins with. */
struct smd_listener {
	const struct smd_transport_ops *ops;
};

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
	bool beside;                        /* nothing is written to the buffer before claim() */
	LIST_ENTRY(smd_advertisement) link; /* of the lane's */
};

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
};

typedef void smd_accept(void *owner, struct smd_lane *lane, int shard);

struct smd_transport_ops {
	const char *name; /* "tcp"; also what comes before the colon in "loopback:NAME" addresses */
	/* "auto" takes the transports that have one, the highest first; 0: only by name. */
	unsigned preference;
	const char *device; /* "RDMA": the kind of device that a host needs for it; NULL: none */
	bool is_stream;     /* a frame may leave in parts, with any pause between them */
	bool within_host;   /* its two ends are processes of one host */
	bool names;         /* addresses are names, where others' are host:port */
	bool times_out; /* connecting ends with -ETIMEDOUT in seconds, also where nobody listens yet
			 */
	uint32_t room; /* bytes of frames that a lane is given at once, to keep it busy (turns.h) */
	uint16_t hello_flag; /* by which a worker asks for a lane made over a carrier
				(wire/message.h) */
	/* Of which kinds the devices here are, as flags beside that one, so that the other end can
	 * offer what is of one of them; 0: that is not known. NULL operation: there are no kinds.
	 */
	uint16_t (*kinds)(void);
	unsigned port_slot;  /* which of a handle's SMD_TRANSPORT_PORTS ports is this transport's */

	/*
	 * Listens at "host:port" (port 0: any free one; `bound` says which). Each new lane is
	 * handed to on_accept() on the listener's loop, not yet attached, with the shard that the
	 * other end has asked for, where the transport learns that before the first frame: it
	 * should then be attached to that shard's loop and no other. 0 or -errno with a text.
	 */
	int (*listen)(struct event_base *base, const char *address, smd_accept *on_accept,
		void *owner, struct smd_listener **out, char bound[128], struct smd_error *error);
	void (*listener_close)(struct smd_listener *listener);

	/*
	 * Begins to connect to `address`, for that shard, from the origin's own address (NULL: the
	 * system chooses the way), and returns at once; then on_open() or on_closed(). The lane is
	 * attached. -errno with a text when the address makes no sense, or
	 * -ENODEV when the transport is not to be had here.
	 */
	int (*connect)(struct event_base *base, const char *address,
		const struct smd_origin *origin, unsigned shard,
		const struct smd_lane_callbacks *callbacks, void *owner, struct smd_lane **out,
		struct smd_error *error);

	/*
	 * A transport may make its lanes over those of another, the *carrier*, whose ends have
	 * shown each other who they are before. One end offers half a lane, the other answers by
	 * its own offer, and each joins its half to what the other has offered.
	 *
	 * The name of the carrier; NULL: lanes are made by listen() and connect() only, as is now
	 * wanted. NULL operation: always.
	 */
	const char *(*carrier)(void);
	/* So many seconds an end that has answered an offer waits at most for the lane to open, as
	 * on a fabric that drops all that crosses. NULL operation: there is no such silence. */
	unsigned (*making_s)(void);
	/* Whether such lanes can be made here, by who listens at or connects to that address: 0, or
	 * -errno with a text; -ENODEV: by nobody; -EXDEV: they are for other addresses. */
	int (*check)(const char *address, struct smd_error *error);
	/* What the devices carry by which lanes reach who listens at these addresses with so many
	 * shards (0: that is not known), in Mbit/s; 0: not known. `source` is a phrase for the log.
	 * NULL operation: as their network interfaces (bandwidth.h). */
	uint32_t (*rate)(const char *addresses, unsigned shards, char *source, size_t size);
	/* The NUMA node that those devices are on; -1: they are on several, or it is not known.
	 * False: there are none. NULL operation: as their network interfaces' (locality.h). */
	bool (*node)(const char *addresses, int *node);
	/*
	 * The loop will have lanes, or ones made over those, that come to these addresses, as that
	 * shard, and
	 * payloads of at most `largest` bytes in that memory: opens and registers now what they
	 * will share, until the loop ends, so that no chunk has to wait for it. What cannot be had
	 * now is tried again when it is needed. NULL operation: there is no such thing.
	 */
	void (*prepare)(struct event_base *base, const char *addresses, unsigned shard,
		struct smd_extent memory, size_t largest);
	/*
	 * Makes half of a lane, attached, for that shard (SMD_SHARD_UNKNOWN: of none, it stays on
	 * the card that has its carrier's address). `other` is what the other end has offered;
	 * NULL: this one is the first, and the other's devices are of these kinds (0: that is not
	 * known). What answers, without on_offered(), is ready for the other end when it is said. 0
	 * or -errno with a text.
	 *
	 * Making may take milliseconds, which a loop with other lanes at work has not got. If there
	 * is an on_offered(), it is done elsewhere and only begun here: on_offered() is called
	 * later, from the loop, or on_closed() where it cannot be made. Nothing but closing may be
	 * done with the lane before. Without, `own` is there when this returns.
	 */
	int (*offer)(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
		const struct smd_offer *other, uint16_t kinds,
		const struct smd_lane_callbacks *callbacks, void *owner, struct smd_lane **out,
		struct smd_offer *own, struct smd_error *error);
	/*
	 * Begins to connect it to the half that is offered, in the same way; then on_open() at both
	 * ends, or on_closed(). The carrier belongs to the lane from now on, if 0 is returned:
	 * nothing more may be said on it. -errno with a text.
	 */
	int (*join)(struct smd_lane *lane, struct smd_lane *carrier, const struct smd_offer *other,
		struct smd_error *error);

	/*
	 * Encrypts all that crosses a lane, before the loop turns after connect(): it opens only
	 * when the other end has proved that it knows the secret too. 0 or -errno with a text.
	 * NULL operation: what crosses is clear.
	 */
	int (*encrypt)(
		struct smd_lane *lane, const struct smd_lane_key *key, struct smd_error *error);
	/* The same of all lanes that come from now on. The keys stay until the last has opened or
	 * closed. */
	int (*listener_encrypt)(struct smd_listener *listener, const struct smd_lane_keys *keys,
		struct smd_error *error);

	/* Gives an accepted or detached lane to a loop; call it on that loop's thread. 0 or -errno.
	 * One that was accepted may still have to be made (lane->opening): what is sent waits for
	 * that, and on_closed() says that it cannot be, or is not in time.
	 */
	int (*attach)(struct smd_lane *lane, struct event_base *base,
		const struct smd_lane_callbacks *callbacks, void *owner);
	/*
	 * Takes the lane from its loop so that it can be attached to another. Only inside
	 * on_frame(), when the peer sends nothing before it gets an answer, and with nothing
	 * queued.
	 */
	void (*detach)(struct smd_lane *lane);

	/* From now on the lane, which stays on its loop, is another's. NULL operation: it can be no
	 * carrier. */
	void (*set_owner)(
		struct smd_lane *lane, const struct smd_lane_callbacks *callbacks, void *owner);
	/* The address of this end: IPv6, or IPv4 as a part of it. False: not known. NULL
	 * operation: it has none. */
	bool (*local_address)(const struct smd_lane *lane, uint8_t address[16]);

	/* Queues send->header and its payload. */
	void (*send)(struct smd_lane *lane, struct smd_send *send);
	/*
	 * Takes every send of `owner` whose first byte has not left off the queue and calls its
	 * done() with -ECANCELED; those that have begun end as usual. Not inside a done().
	 */
	void (*cancel)(struct smd_lane *lane, const void *owner);
	/*
	 * Takes what has come for this lane, without asking the loop whether anything has. All
	 * callbacks may come, on_closed() too. NULL where that is not to be had.
	 */
	void (*poll)(struct smd_lane *lane);
	/*
	 * Advertises memory, part of `extent`, for a payload of the other end. It goes with the
	 * next frame that is sent. NULL: that remote buffer has length 0. NULL operation: the
	 * transport cannot.
	 */
	struct smd_advertisement *(*advertise)(
		struct smd_lane *lane, void *memory, uint32_t length, struct smd_extent extent);
	/* Revokes it: its payload has arrived or never will. Closing a lane revokes all.
	 */
	void (*revoke)(struct smd_lane *lane, struct smd_advertisement *advertise);
	/*
	 * The payload has been written to it (lane->direct): its `length` bytes are in the memory
	 * that was advertised when this returns, and it is revoked. Until then the card may have
	 * them elsewhere. NULL operation: they are there, and revoke() is enough.
	 */
	void (*claim)(struct smd_lane *lane, struct smd_advertisement *advertise, uint32_t length);
	/*
	 * Registers memory that stays mapped until it is deregistered, or as long as the lane's
	 * loop has lanes, and payloads of at most `largest` bytes in it: it need not be registered
	 * again and again. `now`: all of it at once, because it is in memory for good; else part by
	 * part, when it is used. NULL operation: no need.
	 */
	void (*register_memory)(
		struct smd_lane *lane, struct smd_extent memory, size_t largest, bool now);
	/*
	 * Memory of a device, which the processor cannot touch. `fd`, a dma-buf, stands for it from
	 * `offset` on, and may be closed afterwards. Where it overlaps other such memory, this is
	 * what is there now. The very same must not be there. 0, or -errno where the card does not
	 * take it. NULL operation: no card does.
	 */
	int (*register_device)(
		struct smd_lane *lane, struct smd_extent memory, int fd, uint64_t offset);
	/*
	 * Deregisters memory of either kind. Lanes that share a network card share registrations:
	 * to register again changes nothing, to deregister once is enough, and a registration lives
	 * no longer than they do.
	 */
	void (*deregister)(struct smd_lane *lane, struct smd_extent memory);
	/*
	 * Whether the card itself reads a payload of that length from there into a remote buffer
	 * that has room for it, and writes one to there where that is advertised. Only then may a
	 * send or an advertised buffer be memory of a device.
	 */
	bool (*can_dma)(const struct smd_lane *lane, const void *memory, uint32_t length);
	/*
	 * Callers have given buffers: drops cached registrations of memory that was unmapped
	 * before. `generation` grows from call to call; of several lanes with the same one only the
	 * first need do anything. NULL operation: nothing is registered.
	 */
	void (*invalidate)(struct smd_lane *lane, uint64_t generation);
	/*
	 * Keepalive only: the other end may read nothing for as long as it likes, and the lane ends
	 * only when its machine has not answered for so long (some seconds at least: TCP's own
	 * tries take that). Otherwise an end that has read nothing for long
	 * counts as gone. NULL operation: it never does here.
	 */
	void (*keepalive_only)(struct smd_lane *lane, unsigned patience_ms);
	/*
	 * From now on the owner polls the lane all the time, and its loop no longer watches it:
	 * that spares the kernel to tell the loop of everything that comes. NULL operation: there
	 * is no such thing, and the loop must go on to turn.
	 */
	void (*poll_only)(struct smd_lane *lane);
	/*
	 * Of what has left, as far as its owner is concerned, the lane keeps about so many bytes
	 * at most that are not on the wire yet: a frame that comes later waits behind them. NULL
	 * operation: it keeps none.
	 */
	void (*limit_unsent)(struct smd_lane *lane, uint32_t bytes);
	/*
	 * From now on blocks of zeros of elements, in payloads of at most `largest` bytes, do not
	 * cross (wire/zeros.h): the other end has said that it fills them in, as this one does.
	 * `careful`: payloads that this end sends are callers', and may be in memory that has
	 * holes. 0 or -ENOMEM. NULL operation: all of a payload crosses.
	 */
	int (*skip_zeros)(struct smd_lane *lane, uint32_t largest, bool careful);
	/* The rest of the payload that is being received goes to `payload` instead. */
	void (*redirect)(struct smd_lane *lane, void *payload);
	void (*close)(struct smd_lane *lane);
	/*
	 * The same for who has other lanes at work, and need not have the memory at once that the
	 * card or the other end may still use: released() is called when neither does, after the
	 * last done(), at once or later. NULL operation: closing waits for nothing.
	 */
	void (*close_later)(struct smd_lane *lane, void (*released)(void *owner), void *owner);
	/*
	 * The loop, on which there are no lanes or listeners but closed ones, is about to be freed:
	 * ends what those still do. NULL operation: nothing.
	 */
	void (*loop_end)(struct event_base *base);
	/* "127.0.0.1:41873": the other end, for messages. */
	const char *(*peer_name)(const struct smd_lane *lane);
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
	bool opening; /* it was accepted and attached, and is still being made: nothing comes yet */
	unsigned controls; /* control frames that have not left */
	bool parts; /* the last ones say why it will be closed, or what has left must arrive: the
		       other end has about a second to read that, where that needs care */
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

/* One of the table of transports (transports.c); NULL for another name. */
const struct smd_transport_ops *smd_transport_find(const char *name);

#define SMD_TRANSPORTS_MAX      8
#define SMD_TRANSPORT_PORTS     4
#define SMD_TRANSPORT_AUTO      "auto"
#define SMD_TRANSPORT_NAMES_MAX 128

/*
 * The transports that `name` stands for, most preferred first: the one of that name, or with "auto"
 * all that have a preference. How many; 0: there is none of that name.
 */
unsigned smd_transport_select(
	const char *name, const struct smd_transport_ops *out[SMD_TRANSPORTS_MAX]);

/* Whether what kept a lane from being made may be over the next time: a message lost on its way, or
 * a card that has much to do where hundreds of workers start at once. */
static inline bool smd_transport_error_passes(int err)
{
	return err == -ETIMEDOUT || err == -EAGAIN || err == -EBUSY || err == -EIO;
}

/* Before a loop is freed; smd_loop_free() calls it. What closed lanes have still to say has up to
 * 0.1 s from their close. Not inside a callback of the loop's. */
void smd_transport_end_loop(struct event_base *base);

/* "auto, shm, rdma or tcp": what a user may ask for. */
const char *smd_transport_names(char out[SMD_TRANSPORT_NAMES_MAX]);

/* Payloads are written into advertised buffers, so that one lane uses all of the link. */
static inline bool smd_transport_can_advertise(const struct smd_transport_ops *ops)
{
	return ops->advertise != NULL;
}

/* Its devices may read and write memory of other devices. */
static inline bool smd_transport_takes_device_memory(const struct smd_transport_ops *ops)
{
	return ops->register_device != NULL;
}

static inline unsigned smd_transport_making_s(const struct smd_transport_ops *ops)
{
	return ops->making_s ? ops->making_s() : 0;
}

/* The transport over whose lanes this one's are made now; NULL: they connect by themselves. */
const struct smd_transport_ops *smd_transport_carrier(const struct smd_transport_ops *ops);
/* The operations of a transport whose lanes are made over a carrier only: -EOPNOTSUPP. */
int smd_carried_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error);
int smd_carried_connect(struct event_base *base, const char *address,
	const struct smd_origin *origin, unsigned shard, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_error *error);

/* What crosses its lanes can be encrypted. */
static inline bool smd_transport_can_encrypt(const struct smd_transport_ops *ops)
{
	return ops->encrypt != NULL;
}

static inline int smd_listener_encrypt(
	struct smd_listener *listener, const struct smd_lane_keys *keys, struct smd_error *error)
{
	return listener->ops->listener_encrypt(listener, keys, error);
}

static inline void smd_listener_close(struct smd_listener *listener)
{
	listener->ops->listener_close(listener);
}

/* Encodes `frame` with the payload's length and queues it. */
void smd_lane_send(struct smd_lane *lane, struct smd_frame *frame, struct smd_send *send);

/* A control frame: copies the payload (at most SMD_CONTROL_MAX bytes). -ENOMEM, -ENOBUFS. */
int smd_lane_send_control(
	struct smd_lane *lane, struct smd_frame *frame, const void *payload, size_t length);

static inline int smd_lane_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner)
{
	return lane->ops->attach(lane, base, callbacks, owner);
}

static inline int smd_lane_encrypt(
	struct smd_lane *lane, const struct smd_lane_key *key, struct smd_error *error)
{
	return lane->ops->encrypt(lane, key, error);
}

static inline void smd_lane_set_owner(
	struct smd_lane *lane, const struct smd_lane_callbacks *callbacks, void *owner)
{
	lane->ops->set_owner(lane, callbacks, owner);
}

static inline bool smd_lane_local_address(const struct smd_lane *lane, uint8_t address[16])
{
	return lane->ops->local_address && lane->ops->local_address(lane, address);
}

static inline void smd_lane_detach(struct smd_lane *lane)
{
	lane->ops->detach(lane);
}

static inline void smd_lane_cancel(struct smd_lane *lane, const void *owner)
{
	lane->ops->cancel(lane, owner);
}

/* Whether the lane could be looked at. */
static inline bool smd_lane_poll(struct smd_lane *lane)
{
	if (lane->ops->poll) {
		lane->ops->poll(lane);
	}
	return lane->ops->poll != NULL;
}

/* Whether buffers can be advertised on the lane. */
static inline bool smd_lane_can_advertise(const struct smd_lane *lane)
{
	return smd_transport_can_advertise(lane->ops);
}

static inline struct smd_advertisement *smd_lane_advertise(
	struct smd_lane *lane, void *memory, uint32_t length, struct smd_extent extent)
{
	return lane->ops->advertise(lane, memory, length, extent);
}

static inline void smd_lane_revoke(struct smd_lane *lane, struct smd_advertisement *advertise)
{
	if (advertise) {
		lane->ops->revoke(lane, advertise);
	}
}

static inline void smd_lane_claim(
	struct smd_lane *lane, struct smd_advertisement *advertise, uint32_t length)
{
	if (lane->ops->claim) {
		lane->ops->claim(lane, advertise, length);
	} else {
		lane->ops->revoke(lane, advertise);
	}
}

static inline void smd_lane_register(
	struct smd_lane *lane, struct smd_extent memory, size_t largest, bool now)
{
	if (lane->ops->register_memory) {
		lane->ops->register_memory(lane, memory, largest, now);
	}
}

/* Whether the lane's card may take memory of devices. */
static inline bool smd_lane_has_card(const struct smd_lane *lane)
{
	return smd_transport_takes_device_memory(lane->ops);
}

static inline int smd_lane_register_device(
	struct smd_lane *lane, struct smd_extent memory, int fd, uint64_t offset)
{
	return lane->ops->register_device(lane, memory, fd, offset);
}

static inline void smd_lane_deregister(struct smd_lane *lane, struct smd_extent memory)
{
	if (lane->ops->deregister) {
		lane->ops->deregister(lane, memory);
	}
}

static inline bool smd_lane_can_dma(
	const struct smd_lane *lane, const void *memory, uint32_t length)
{
	return lane->ops->can_dma && lane->ops->can_dma(lane, memory, length);
}

static inline void smd_lane_invalidate(struct smd_lane *lane, uint64_t generation)
{
	if (lane->ops->invalidate) {
		lane->ops->invalidate(lane, generation);
	}
}

static inline void smd_lane_keepalive_only(struct smd_lane *lane, unsigned patience_ms)
{
	if (lane->ops->keepalive_only) {
		lane->ops->keepalive_only(lane, patience_ms);
	}
}

/* Whether the loop need not turn for the lane any more. */
static inline bool smd_lane_poll_only(struct smd_lane *lane)
{
	if (lane->ops->poll_only) {
		lane->ops->poll_only(lane);
	}
	return lane->ops->poll_only != NULL;
}

static inline void smd_lane_limit_unsent(struct smd_lane *lane, uint32_t bytes)
{
	if (lane->ops->limit_unsent) {
		lane->ops->limit_unsent(lane, bytes);
	}
}

static inline int smd_lane_skip_zeros(struct smd_lane *lane, uint32_t largest, bool careful)
{
	return lane->ops->skip_zeros ? lane->ops->skip_zeros(lane, largest, careful) : 0;
}

static inline void smd_lane_redirect(struct smd_lane *lane, void *payload)
{
	lane->ops->redirect(lane, payload);
}

static inline void smd_lane_close(struct smd_lane *lane)
{
	lane->ops->close(lane);
}

static inline void smd_lane_close_later(
	struct smd_lane *lane, void (*released)(void *owner), void *owner)
{
	if (lane->ops->close_later) {
		lane->ops->close_later(lane, released, owner);
	} else {
		smd_lane_close(lane);
		released(owner);
	}
}

static inline const char *smd_lane_peer_name(const struct smd_lane *lane)
{
	return lane->ops->peer_name(lane);
}

#endif
