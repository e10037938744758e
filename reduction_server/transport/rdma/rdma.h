/*
 * A lane over RDMA, as the files of the transport share it: a queue pair on a device (device.h) and
 * the messages that cross it (specs/design/rdma.md).
 *
 * A lane is one state machine in ten files, which call each other in this direction only: rdma.c,
 * listen.c, connect.c, offer.c, pair.c, close.c, receive.c, send.c, advertisement.c, end.c. The
 * device calls back by rdma_pair_ops.
 */
#ifndef SMD_TRANSPORT_RDMA_RDMA_H
#define SMD_TRANSPORT_RDMA_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/address.h"
#include "reduction_server/transport/rdma/device.h"
#include "reduction_server/transport/rdma/maker.h"
#include "reduction_server/transport/rdma/registration.h"
#include "reduction_server/transport/rdma/verbs.h"
#include "reduction_server/transport/rdma/wire.h"
#include "reduction_server/transport/transports.h"

struct event;
struct event_base;

/* ---- lanes ---- */

/*
 * While so many batches are in flight small frames wait for others, to share the next doorbell: what
 * has to wait for one of them to be acknowledged is not late.
 */
#define RDMA_BATCHES 2
/* But so many frames wait no longer, nor do so many bytes: they are worth a doorbell, and two batches
 * of one such frame each would leave the link idle until the other end's card has answered. */
#define RDMA_BATCH_FRAMES 8u
#define RDMA_BATCH_BYTES  (16u << 10)

enum rdma_lane_state {
	RDMA_LANE_REQUESTED,  /* somebody wants to connect; not yet accepted */
	RDMA_LANE_RESOLVING,  /* the address */
	RDMA_LANE_ROUTING,    /* the way to it */
	RDMA_LANE_CONNECTING, /* it has been asked */
	RDMA_LANE_OFFERED,    /* over a carrier: the queue pair is not connected yet */
	RDMA_LANE_TRYING,     /* it is joined, and the other end's trial message has not come */
	RDMA_LANE_OPEN,
};

/* A message that has been posted. */
struct rdma_posted {
	uint32_t number;       /* of the message */
	uint32_t requests_end; /* work requests posted by its end */
	struct smd_send *send; /* whose done() is due with this message; NULL: none, or it was */
	bool copied;           /* into the bounce buffer: done as soon as posted */
	struct smd_rdma_region *region; /* of the payload; NULL: copied */
};

struct rdma_advertisement {
	struct smd_advertisement base;
	void *memory;
	uint32_t length;
	uint32_t key;                   /* that the other end writes by */
	struct smd_rdma_region *region; /* of the memory, or of a slot in its place */
	struct ibv_mw *window;          /* kept for the next one, too; NULL: the lane has none */
	uint32_t place;                 /* in the ring of those to tell, until it is */
	bool bound;          /* the window was, by what has been posted, and may be open */
	uint32_t closed_at;  /* work requests posted by the end of what takes its key back */
	smd_withdrawn *gone; /* it was withdrawn; NULL: or nobody asks */
	void *gone_owner;
	STAILQ_ENTRY(rdma_advertisement) closing_link;
};
STAILQ_HEAD(rdma_advertisements, rdma_advertisement);

/* What the other end is told of an advertisement, or that there is none (length 0). */
struct rdma_remote {
	struct smd_remote_buffer buffer;
	struct rdma_advertisement *advertisement; /* whose window is bound first; NULL: none is */
};

struct rdma_lane;
typedef void rdma_made(struct rdma_lane *lane, int ret, const char *text);

/* What of a lane is with the loop's maker: its queue pair is made, joined to the other end's, or taken back. */
struct rdma_making {
	struct rdma_job job;
	bool under_way;
	_Atomic(bool) unwanted; /* the lane was closed: nothing need be made, or accepted */
	int ret;                /* 0, or -errno with a text */
	struct smd_error error;
	struct ibv_qp *qp; /* that was made */
	uint8_t port;      /* where */
	rdma_made *made;
};

/* The same of what its other end is told by the connection manager, while the lane is in use. */
struct rdma_accepting {
	struct rdma_job job;
	bool under_way;
	bool due;        /* the other end has asked, and was neither accepted nor refused */
	bool in_vain;    /* to ask again would not help */
	uint32_t number; /* of the queue pair, which may be gone meanwhile */
	int ret;
	struct smd_error error;
};

struct rdma_lane {
	struct smd_lane lane;
	struct rdma_endpoint endpoint;
	struct rdma_pair pair;
	struct rdma_loop *loop;     /* NULL: not attached yet */
	struct rdma_device *device; /* NULL: no device yet */
	struct rdma_cm_id *id;    /* NULL: made over a carrier, */
	struct smd_lane *carrier; /* which says when the other end closes; NULL: not ours yet */
	struct smd_verbs_path path; /* how it is connected; the id knows the rest */
	bool answers; /* the other end tries first: it has offered first, or asked this one */
	bool later;                 /* what takes long is left to the loop's maker */
	struct rdma_making making;
	struct rdma_accepting accepting;
	enum rdma_lane_state state;
	bool placed; /* the device has a place for its queue pair, */
	bool paired; /* which is there */
	bool ended;  /* on_closed() has been called */
	bool closed;
	unsigned shard;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	struct event *patience; /* with connecting, or with draining; NULL: none */
	char peer[SMD_ADDRESS_TEXT_MAX];
	int err;           /* the lane is to be ended for this, */
	bool err_is_flush; /* which is a consequence, and gives way to a cause */
	char reason[SMD_ERROR_TEXT_MAX]; /* for that, or for not accepting it */

	/* Messages: ours go into the other end's receive buffers, its into ours. */
	uint32_t receive_buffers; /* here */
	uint8_t *memory;          /* that many receive buffers, then as many bounce buffers */
	struct ibv_mr *region;    /* of them */
	uint32_t key; /* by which the other end writes what comes: the region's, or of */
	struct ibv_mw *window_of_buffers; /* a memory window; NULL: there is none */
	struct smd_rdma_greeting other;
	uint32_t window; /* so many messages at once, either way: both ends have room for them */
	uint32_t inline_bytes;
	uint32_t depth; /* work requests of sends */

	struct smd_send_queue tx;
	uint32_t tx_frames; /* in it, */
	uint64_t tx_bytes;  /* of payloads of these */
	bool tx_hurries;    /* one of them asks whether the other end is there, or answers that */
	uint32_t tx_next;   /* number of the next message */
	uint32_t tx_taken;  /* the other end has emptied the receive buffers of those before */
	uint32_t requests;  /* work requests posted */
	uint32_t completed; /* and completed */
	uint32_t batches[RDMA_BATCHES]; /* doorbells whose requests are not all completed: their
					   ends */
	unsigned nbatches;
	struct rdma_posted *posted; /* [depth], a ring of messages: */
	uint32_t posted_end;        /* the newest is before this, */
	uint32_t posted_settled;    /* whose sends before this are done, */
	uint32_t posted_begin;      /* and whose completion is awaited from here on */

	uint32_t rx_next; /* number of the next message that comes */
	uint32_t rx_told; /* the other end knows that those before are taken */
	uint32_t rx_owed; /* receives to post */
	bool rx_taking;   /* the message of rx_next is being taken */
	struct smd_frame rx_frame;
	uint8_t *rx_payload; /* NULL: between frames */
	uint32_t rx_payload_got;
	struct smd_remote_buffer rx_remotes[SMD_REMOTE_BUFFERS_MAX];

	struct rdma_remote *remotes; /* [remotes_room], a ring of those to tell: */
	uint32_t remotes_room;
	uint32_t remotes_begin;
	uint32_t remotes_end;
	uint32_t remotes_sent; /* those before this belong to queued frames */
	LIST_HEAD(, smd_advertisement) advertisements;
	LIST_HEAD(, smd_advertisement) idle_advertisements;
	struct rdma_advertisements closing; /* withdrawn: their windows' keys are to be taken */
	struct rdma_advertisements closed_windows; /* back, and will be with what has been posted */

	struct rdma_drain drain; /* of a closed lane */
	void (*released)(void *owner); /* of its memory, which the card may still use; NULL: or has
					  called this */
	void *released_owner;
	uint64_t linger_until_ns;
};

/* So much longer waits for a trial who does not try the lane again: who does gives up first, and
 * knows why. Else all that it heard would be that the other has closed the lane. */
#define RDMA_LATER_S 2u

#define RDMA_BUFFERS 32u
/* Of a lane: for what comes, and as many for what goes. */
#define SMD_RDMA_BUFFERS_BYTES (2 * RDMA_BUFFERS * SMD_RDMA_BUFFER_SIZE)
#define RDMA_DEPTH   (4 * RDMA_BUFFERS)
/* Two more than receive buffers, for writes that only say how many were taken. */
#define RDMA_RECEIVES (RDMA_BUFFERS + 2)

/* So many receive buffers are empty that the other end should know: half of what it can fill. */
static inline bool smd_rdma_owes_taken(const struct rdma_lane *lane)
{
	return lane->rx_next - lane->rx_told >= lane->window / 2;
}

/* What is queued does not wait for more: nor do a question and its answer, because what they would wait
 * for may have been lost, and they are what shows the other end's card that it is missing. */
static inline bool smd_rdma_fills_batch(const struct rdma_lane *lane)
{
	return lane->tx_frames >= RDMA_BATCH_FRAMES || lane->tx_bytes >= RDMA_BATCH_BYTES ||
	       lane->tx_hurries;
}

static inline void smd_rdma_leave_queue(struct rdma_lane *lane, struct smd_send *send)
{
	TAILQ_REMOVE(&lane->tx, send, link);
	lane->tx_frames--;
	lane->tx_bytes -= send->length;
}

static inline struct rdma_lane *rdma_lane_of_pair(struct rdma_pair *pair)
{
	return (struct rdma_lane *)((char *)pair - offsetof(struct rdma_lane, pair));
}

/* By the connection manager, where its owner awaits no on_open(). */
static inline bool smd_rdma_was_asked(const struct rdma_lane *lane)
{
	return lane->id && lane->answers;
}

static inline struct rdma_lane *rdma_lane_of(struct smd_lane *lane)
{
	return (struct rdma_lane *)lane;
}

/* pair.c */
struct rdma_lane *smd_rdma_lane_create(void);
/* The queue pair on that device's port, and what belongs to it; receives are posted. */
int smd_rdma_lane_make_pair(struct rdma_lane *lane, struct ibv_context *context, uint8_t port,
	struct smd_error *error);
/* The same with the driver's calls on the maker's thread; then made(), unless the lane was closed
 * meanwhile: `ret` is 0, or -errno with a text. */
int smd_rdma_lane_make_pair_later(struct rdma_lane *lane, struct ibv_context *context, uint8_t port,
	rdma_made *made, struct smd_error *error);
/* The queue pair is joined to the other end's, as the lane's path says. Later, but before others are
 * made: the other end's patience has begun with its offer. */
int smd_rdma_lane_join_pair(struct rdma_lane *lane, struct smd_error *error);
void smd_rdma_lane_join_pair_later(struct rdma_lane *lane, rdma_made *made);
/* Sets its timer: so long from now on. 0 or -1. */
int smd_rdma_lane_be_patient(struct rdma_lane *lane, uint64_t ns);
/* The timer of a lane that the maker has: 0 where it is set anew, as others were before it; or
 * -ETIMEDOUT with a text. */
int smd_rdma_lane_check_making(struct rdma_lane *lane, struct smd_error *error);
/* It is joined: both ends' trials must come before anything else. */
void smd_rdma_lane_try(struct rdma_lane *lane);
/* The other end's has not come within so long: -ETIMEDOUT with a text. */
int smd_rdma_lane_untried(
	const struct rdma_lane *lane, unsigned patience_s, struct smd_error *error);
/* What the other end must know of it. */
struct smd_rdma_greeting smd_rdma_lane_greeting(const struct rdma_lane *lane);
/* offer.c */
const char *smd_rdma_carrier(void);
int smd_rdma_check(const char *address, struct smd_error *error);
unsigned smd_rdma_making_s(void);
uint16_t smd_rdma_kinds(void);
int smd_rdma_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error);
int smd_rdma_join(struct smd_lane *lane, struct smd_lane *carrier, const struct smd_offer *other,
	struct smd_error *error);

/* prepare.c */
void smd_rdma_prepare(struct event_base *base, const char *addresses, unsigned shard,
	struct smd_extent memory, size_t largest);

/* connect.c */
int smd_rdma_connect(struct event_base *base, const char *address, const struct smd_origin *origin,
	unsigned shard, const struct smd_lane_callbacks *callbacks, void *owner,
	struct smd_lane **out, struct smd_error *error);
int smd_rdma_attach(struct smd_lane *lane, struct event_base *base,
	const struct smd_lane_callbacks *callbacks, void *owner);

/* listen.c */
int smd_rdma_listen(struct event_base *base, const char *address, smd_accept *on_accept,
	void *owner, struct smd_listener **out, char bound[128], struct smd_error *error);
void smd_rdma_listener_close(struct smd_listener *listener);

/* close.c */
void smd_rdma_close(struct smd_lane *lane);
void smd_rdma_close_later(struct smd_lane *lane, void (*released)(void *owner), void *owner);
/* A lane that was closed while the maker had it is its loop's again. */
void smd_rdma_close_made(struct rdma_lane *lane);
/* Whoever has asked for a lane hears why there is none, and whether to ask again may help. */
void smd_rdma_reject(struct rdma_cm_id *id, const char *text, bool again);

/* end.c: the lane has no further use, for that reason. From the loop, on_closed() is called. */
void smd_rdma_lane_end(struct rdma_lane *lane, int err, const char *reason);
/* The same from anywhere: on_closed() is called before the turn ends. */
void smd_rdma_lane_fail(struct rdma_lane *lane, int err, const char *reason);
/* The other end has closed it, for that reason. Messages that came before are taken first. */
void smd_rdma_lane_disconnected(struct rdma_lane *lane, int err, const char *reason);
/* A completion says that the queue pair is in the error state. */
void smd_rdma_lane_fail_status(struct rdma_lane *lane, const struct ibv_wc *completion);

/* advertisement.c */
struct smd_advertisement *smd_rdma_advertise(
	struct smd_lane *lane, void *memory, uint32_t length, struct smd_extent extent);
void smd_rdma_revoke(struct smd_lane *lane, struct smd_advertisement *advertisement);
void smd_rdma_withdraw(struct smd_lane *lane, struct smd_advertisement *advertisement,
	smd_withdrawn *gone, void *owner);
void smd_rdma_claim(
	struct smd_lane *lane, struct smd_advertisement *advertisement, uint32_t length);
/* That of its receive buffers, and the first of those for places: driver's calls, on the maker's
 * thread. 0 or -errno. */
int smd_rdma_lane_make_windows(struct rdma_lane *lane);
/* Its receive buffers are open from when this has been posted, where they are by a window. On the
 * thread that joins the queue pair. 0 or -errno. */
int smd_rdma_bind_buffers(struct rdma_lane *lane);
/* All of them, bound or not, of a lane that posts nothing any more. */
void smd_rdma_lane_destroy_windows(struct rdma_lane *lane);
/* The work requests that bind its window, and take its key back. */
void smd_rdma_window_bind(struct rdma_advertisement *advertisement, struct ibv_send_wr *request);
void smd_rdma_window_close(struct rdma_advertisement *advertisement, struct ibv_send_wr *request);
/* The other end has given that key back. 0, or -EPROTO with a text. */
int smd_rdma_window_returned(struct rdma_lane *lane, uint32_t key, struct smd_error *error);
/* What is closed by now is its owner's again. False: the lane was closed by that. */
bool smd_rdma_settle_closed(struct rdma_lane *lane);
/* Nobody can write to any of it any more. */
void smd_rdma_lane_forget_advertisements(struct rdma_lane *lane);
void smd_rdma_lane_free_advertisements(struct rdma_lane *lane);

/* send.c: the other end's trial has come: from now on there is something to post. */
void smd_rdma_lane_open(struct rdma_lane *lane);
/* Posts what may be posted. False: the lane was closed by a done(). */
bool smd_rdma_post(struct rdma_lane *lane);
/* Sends of messages that have arrived are done. False: the lane was closed by that. */
bool smd_rdma_settle(struct rdma_lane *lane);
/* Only counts: the work request that was posted as that one is complete. */
void smd_rdma_count_sent(struct rdma_lane *lane, uint32_t request);
/* The work request that was posted as that one is complete, and so are those before it. */
void smd_rdma_sent(struct rdma_lane *lane, uint32_t request);
/*
 * Posts a *trial*: a message of no frame that fills a receive buffer, so that one packet at least
 * is as large as the path's MTU allows. A fabric that passes small packets only is found out by it.
 */
void smd_rdma_post_trial(struct rdma_lane *lane);
/* Writes nothing, to learn whether there is still somebody to acknowledge it. */
void smd_rdma_probe(struct rdma_lane *lane);

/* receive.c: what the device's poller calls for a lane's queue pair. */
extern const struct rdma_pair_ops smd_rdma_lane_pair;
/* Of a lane that is closed: only what the completion says of our messages matters. */
void smd_rdma_count_completion(struct rdma_pair *pair, const struct ibv_wc *completion);

/* send.c */
/* Posts receives, for as many messages as the other end may send. 0 or -errno. */
int smd_rdma_post_receives(struct rdma_lane *lane);

#define RDMA_WR_RECEIVE 0x80000000u

#endif
