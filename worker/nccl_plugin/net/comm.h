/*
 * What the files of the point-to-point network share: one end of a connection
 * (specs/design/nccl-net.md).
 *
 * A comm is a sender or a receiver. It has an event loop of its own, which only the calls on the
 * comm turn; so nothing is shared between comms. What comms of several threads share, NCCL's
 * service thread registers while another one sends: each call holds the comm's lock from beginning
 * to end, which nobody waits for otherwise. Nothing below the calls knows of it.
 */
#ifndef SMD_NCCL_PLUGIN_NET_COMM_H
#define SMD_NCCL_PLUGIN_NET_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/transport.h"
#include "worker/nccl_plugin/net/net.h"
#include "worker/nccl_plugin/net/wire.h"

/* Messages are placed, and cut where there is one lane, in pieces of so many bytes. */
#define SMD_NET_PIECE   (4u << 20)
#define SMD_NET_STRIPES SMD_NET_LANES_MAX
/*
 * Requests of a sender: as many as a receiver's requests have receives. Only some of them wait for
 * their receives, so that there is always one for a send whose receive is posted.
 */
#define SMD_NET_SENDS     (NCCL_NET_REQUESTS * SMD_NET_RECVS_MAX)
#define SMD_NET_UNMATCHED NCCL_NET_REQUESTS

struct smd_net_comm;

/* Remote buffers that a receive of that size is advertised. */
static inline unsigned smd_net_pieces(uint64_t size)
{
	return (unsigned)((size + SMD_NET_PIECE - 1) / SMD_NET_PIECE);
}

struct smd_net_lane {
	struct smd_net_comm *comm;
	struct smd_lane *lane; /* NULL: not there yet, or no more */
	unsigned index;
	size_t queued; /* bytes of DATA that have not left */
	/* A receiver's, of the payload that is coming: */
	struct smd_net_receive *receive;
	uint8_t control[SMD_CONTROL_MAX];
};

/* Of isend() or irecv(), until test() has said that it is done. */
struct smd_net_request {
	struct smd_net_comm *comm;
	bool busy;
	bool done;
	int result; /* of a request that is done: NCCL's */
};

/* ---- a sender's ---- */

/* Some bytes of a message under way on a lane. */
struct smd_net_stripe {
	struct smd_send send;
	struct smd_net_send *owner;
	struct smd_net_lane *lane; /* NULL: free */
};

struct smd_net_send {
	struct smd_net_request request;
	const uint8_t *data;
	size_t size;
	uint32_t tag;
	struct smd_extent extent;
	bool device;               /* from memory of a GPU */
	struct smd_net_slot *slot; /* what it is matched with, NULL: nothing yet */
	unsigned entry;
	size_t begun; /* bytes that are in stripes */
	bool all;     /* that is all of it */
	bool too_long;
	unsigned flying;
	struct smd_net_stripe stripes[SMD_NET_STRIPES];
	TAILQ_ENTRY(smd_net_send) link;
};
TAILQ_HEAD(smd_net_sends, smd_net_send);

/* A group of receives that the other end has posted. */
struct smd_net_slot {
	unsigned number;
	unsigned unmatched; /* of its receives */
	unsigned unsent;
	uint64_t ordinal;
	struct smd_net_post post;
	bool matched[SMD_NET_RECVS_MAX];
	struct smd_remote_buffer *remote_buffers; /* of all its receives, one after another */
	unsigned nremote_buffers;
	unsigned room;
	TAILQ_ENTRY(smd_net_slot) link;
};

/* ---- a receiver's ---- */

struct smd_net_entry {
	uint8_t *data;
	size_t size;
	uint32_t tag;
	bool device;    /* into memory of a GPU */
	bool known;     /* `total` is set: the first frame has come */
	size_t total;   /* the message's length */
	size_t claimed; /* bytes of frames that have begun to arrive */
	size_t got;     /* bytes of frames that have arrived */
	bool complete;
	unsigned first;  /* index of its first buffer in the receive's advertisements */
	unsigned pieces; /* how many buffers it has there */
};

struct smd_net_receive {
	struct smd_net_request request;
	unsigned number;
	unsigned n;
	unsigned missing;
	int refused; /* NCCL's result for a message that does not fit */
	uint64_t ordinal;
	struct smd_net_entry entries[SMD_NET_RECVS_MAX];
	struct smd_advertisement **advertisements; /* of all of these */
	unsigned room;
};

/* ---- a comm ---- */

/* A range that is registered: a handle of it is what NCCL calls mhandle. */
struct smd_net_memory {
	struct smd_extent extent;
	bool device;    /* a GPU's: network cards read and write it, and nobody else */
	unsigned users; /* who have registered it */
	LIST_ENTRY(smd_net_memory) link;
};

/* The range of a handle; zeros without one. */
static inline struct smd_extent smd_net_extent(const struct smd_net_memory *memory)
{
	return memory ? memory->extent : (struct smd_extent){NULL, 0};
}

static inline bool smd_net_is_device(const struct smd_net_memory *memory)
{
	return memory && memory->device;
}

struct smd_net_comm {
	pthread_mutex_t lock; /* of all that follows */
	struct event_base *base;
	void (*pump)(struct smd_net_comm *comm); /* a sender's; NULL: a receiver */
	bool greeted;                            /* a receiver: GREET has come; a sender: ACCEPT */
	bool poll_only;                          /* the lanes */
	int result;                              /* NCCL's: why it is over */
	bool told;                               /* which has been said */
	char text[SMD_ERROR_TEXT_MAX];
	char name[SMD_NET_NAME_MAX];                              /* of the other end's process */
	char peer[2 * SMD_NET_NAME_MAX + SMD_ERROR_TEXT_MAX / 2]; /* and its address */
	unsigned nlanes;
	unsigned lanes_there; /* a receiver's: have said GREET, and not ended */
	struct smd_net_lane lanes[SMD_NET_LANES_MAX];
	unsigned pending; /* requests that are not done */
	unsigned turns;
	uint64_t ordinal; /* of the next group of receives */
	LIST_HEAD(, smd_net_memory) memory;
	/* A sender's: */
	struct smd_net_send *sends;        /* [SMD_NET_SENDS] */
	struct smd_net_slot *slots;        /* [NCCL_NET_REQUESTS] */
	struct smd_net_sends unmatched;    /* in the order of isend(): */
	unsigned nunmatched;               /* at most SMD_NET_UNMATCHED */
	struct smd_net_sends active;       /* matched, and not all in stripes */
	TAILQ_HEAD(, smd_net_slot) posted; /* with receives that are not matched */
	unsigned next_lane;
	/* A receiver's: */
	struct smd_net_receive *receives; /* [NCCL_NET_REQUESTS] */
	/* While the connection is being made: */
	struct smd_net_arrival *arrival;
	struct smd_net_attempt *attempt;
};

/* pump: how a sender sends what it can; NULL: a receiver. NULL: out of memory or descriptors. */
struct smd_net_comm *smd_net_comm_create(void (*pump)(struct smd_net_comm *comm));
/* Not inside a callback of its loop. */
void smd_net_comm_destroy(struct smd_net_comm *comm);
/* The lanes alone. */
void smd_net_comm_close_lanes(struct smd_net_comm *comm);

/* All lanes are there, and the other end has said its name. */
void smd_net_comm_ready(struct smd_net_comm *comm);

/* The connection is over, for that reason; it is said at once if anything waits for it. */
void smd_net_comm_fail(struct smd_net_comm *comm, int result, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for a lane that has ended. */
void smd_net_comm_lost(struct smd_net_comm *comm, int err, const char *reason);
/*
 * A receiver's lane has ended. A sender that has sent all closes its lanes one after another, and
 * this end may hear of that while another lane's last bytes are on their way: so the connection is
 * over with its last lane, or at once when a payload was cut off or the network failed. A lane that
 * has ended is closed here too, which tells a sender that is not through to close the others.
 */
void smd_net_comm_receiver_lane_ended(struct smd_net_lane *lane, int err, const char *reason);
/* Says why, unless it has; the comm's result. */
int smd_net_comm_tell(struct smd_net_comm *comm);

/* Takes what has come, and sends what can be sent, without waiting. */
void smd_net_comm_progress(struct smd_net_comm *comm);

/* "node-1:4711": this process, for the other end's messages. */
void smd_net_own_name(char name[SMD_NET_NAME_MAX]);
int smd_net_random(struct smd_net_key *key);

void smd_net_request_begin(struct smd_net_request *request, struct smd_net_comm *comm);
void smd_net_request_end(struct smd_net_request *request, int result);

#endif
