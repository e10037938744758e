/*
 * The seam between what is said (engine, libsummand) and how it travels (tcp, rdma): what every
 * transport does, as a table of operations. They are called by transport.h.
 */
#ifndef SMD_TRANSPORT_OPERATIONS_H
#define SMD_TRANSPORT_OPERATIONS_H

#include "reduction_server/transport/lane.h"

struct event_base;
struct smd_origin;

/* What every transport's listener begins with. */
struct smd_listener {
	const struct smd_transport_ops *ops;
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
	unsigned port_slot; /* which of a handle's SMD_TRANSPORT_PORTS ports is this transport's */

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
	bool (*node)(const char *addresses, unsigned shards, int *node);
	/*
	 * The loop will have lanes, or ones made over those, that come to these addresses, as that
	 * shard, and payloads of at most `largest` bytes in that memory: opens now what they will
	 * share, and begins to register the memory, beside what else the loop does, so that no
	 * chunk has to wait for it; until the loop ends. What cannot be had now is tried again when
	 * it is needed. NULL operation: there is no such thing.
	 */
	void (*prepare)(struct event_base *base, const char *addresses, unsigned shard,
		struct smd_extent memory, size_t largest);
	/*
	 * Makes half of a lane, attached, for that shard (SMD_SHARD_UNKNOWN: of none, it stays on
	 * the card that has its carrier's address). `other` is what the other end has offered;
	 * NULL: this one is the first, and the other's devices are of these kinds (0: that is not
	 * known). What answers, without on_offered(), is ready for the other end when it is said. 0
	 * or -errno with a text; -ETIMEDOUT: there is no path between the halves, as where nothing
	 * comes over the lane later.
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
	/* Revokes it: its payload has arrived. Closing a lane revokes all. */
	void (*revoke)(struct smd_lane *lane, struct smd_advertisement *advertise);
	/*
	 * Revokes it though its payload has not come and never will. The card may write to the
	 * memory until gone() is called: now, later from the loop or smd_lane_poll(), or when the
	 * lane is closed and released. NULL operation: the other end says that it is finished, and
	 * that is all there is.
	 */
	void (*withdraw)(struct smd_lane *lane, struct smd_advertisement *advertise,
		smd_withdrawn *gone, void *owner);
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

#endif
