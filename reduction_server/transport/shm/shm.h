/*
 * What the files of the shared memory transport share: the lane (specs/design/shm.md).
 */
#ifndef SMD_TRANSPORT_SHM_SHM_H
#define SMD_TRANSPORT_SHM_SHM_H

#include "reduction_server/base/forks.h"
#include "reduction_server/transport/shm/meeting.h"
#include "reduction_server/transport/shm/memory.h"
#include "reduction_server/transport/shm/ring.h"
#include "reduction_server/transport/transports.h"
#include "reduction_server/wire/message.h"

struct event;

#define SMD_SHM_PATIENCE_S 5

enum shm_state {
	SHM_OFFERS,  /* its offer is still to be told */
	SHM_OFFERED, /* the other end's is awaited */
	SHM_OPENS,   /* both rings are there, and on_open() is still to be called */
	SHM_OPEN,
};

struct shm_lane {
	struct smd_lane lane;
	enum shm_state state;
	struct event_base *base;
	const struct smd_lane_callbacks *callbacks;
	void *owner;
	struct smd_lane *carrier; /* NULL: not joined */
	struct event *turn;       /* the loop is to look at the lane */
	struct event *patience;   /* with an end that has offered and not joined */
	char peer[128];

	struct shm_meeting meeting;
	struct smd_offer offer;              /* its own */
	uint32_t ring;                       /* bytes of one, at most */
	int listener;                        /* -1: none */
	int fd;                              /* by which the ends wake each other; -1: none */
	struct smd_fork_entry forked;        /* of fd */
	struct event *woken;

	struct shm_memory memory;
	struct shm_ring rx;
	struct shm_ring tx;
	bool armed;       /* the other end wakes this one */
	uint64_t busy_ns; /* when something has last come or gone */
	bool ended;       /* on_closed() has been called */
	bool closed;
	int err; /* a broken ring that was found while sending; the next turn reports it */

	uint8_t rx_header[SMD_FRAME_SIZE];
	uint32_t rx_header_got;
	struct smd_frame rx_frame;
	uint8_t *rx_payload; /* NULL: between frames, or in a header */
	uint32_t rx_payload_got;

	struct smd_send_queue queue;
	bool settling; /* in the done() of what has just left */
};

static inline struct shm_lane *shm_lane_of(struct smd_lane *lane)
{
	return (struct shm_lane *)lane;
}

/* ---- wake.c: who sleeps, and who wakes whom ---- */

/* Looks at the lane in the loop's next turn. */
void smd_shm_turn_soon(struct shm_lane *lane);
/* There is something to read for the other end, or room again; it is woken if it waits for that. */
void smd_shm_tell_bytes(struct shm_lane *lane);
void smd_shm_tell_room(struct shm_lane *lane);
/* Says that this end sleeps. False: something has come meanwhile, and it does not. */
bool smd_shm_sleep(struct shm_lane *lane);
/* This end is awake, and nobody need tell it. */
void smd_shm_awake(struct shm_lane *lane);
/* Takes what woke it from the socket. */
void smd_shm_woken(struct shm_lane *lane);

/* ---- end.c ---- */

/* Tells the owner, once, that the lane is over. From its loop or a poll only. */
void smd_shm_ended(struct shm_lane *lane, int err, const char *reason);

/* ---- send.c, receive.c ---- */

/* Writes what there is room for. */
void smd_shm_flush(struct shm_lane *lane);
/* Takes what has come, of at most so many bytes. The lane may be over or closed afterwards. */
void smd_shm_receive(struct shm_lane *lane, uint32_t most);
#define SMD_SHM_TURN_BYTES (1u << 20) /* then others on the loop have their turn */

/* ---- turn.c ---- */

/* What the loop calls. */
void smd_shm_on_turn(int fd, short what, void *lane);
void smd_shm_on_woken(int fd, short what, void *lane);
void smd_shm_on_patience(int fd, short what, void *lane);
/* Takes what has come and sends what waits, without the loop. */
void smd_shm_poll(struct smd_lane *lane);
/* The carrier's, which has nothing to say. */
extern const struct smd_lane_callbacks smd_shm_carrier_callbacks;

/* ---- close.c ---- */

void smd_shm_close(struct smd_lane *lane);
/* Of a lane that nobody knows of yet. */
void smd_shm_discard(struct shm_lane *lane);

/* ---- offer.c ---- */

const char *smd_shm_carrier(void);
int smd_shm_check(const char *address, struct smd_error *error);
int smd_shm_offer(struct event_base *base, const struct smd_lane *carrier, unsigned shard,
	const struct smd_offer *other, uint16_t kinds, const struct smd_lane_callbacks *callbacks,
	void *owner, struct smd_lane **out, struct smd_offer *own, struct smd_error *error);
int smd_shm_join(struct smd_lane *lane, struct smd_lane *carrier, const struct smd_offer *other,
	struct smd_error *error);

#endif
