/*
 * A lane over the script whose other end is played by the test, write by write; and what tests of
 * two real ends need besides tests/unit/transport/link.h.
 */
#ifndef SMD_TESTS_RDMA_PEER_H
#define SMD_TESTS_RDMA_PEER_H

#include "reduction_server/transport/rdma/rdma.h"
#include "tests/unit/rdma/script.h"
#include "tests/unit/transport/link.h"

struct peer {
	struct end end; /* of the lane that is tested */
	struct rdma_lane *lane;
	struct rdma_cm_id *id;
	uint8_t *receive_buffers;        /* the other end's, in which the lane writes */
	struct smd_rdma_greeting own;    /* what the other end says */
	struct smd_rdma_greeting theirs; /* and the lane */
	uint32_t written;                /* messages, to the lane */
	uint32_t taken;                  /* of those that the lane has sent, as it is told next */
	bool advertised;                 /* payloads may come in an advertised buffer */
	void (*then)(struct peer *peer); /* in on_header(), when not NULL */
};

/* A link over the script. Afterwards nothing of the device may be left. */
int stage_set_up(void **state);
int stage_tear_down(void **state);

/* Everything that is due: events, completions, what is to be posted; not more than that. */
void stage_turn(struct link *link);

/* As a shard does when it starts; and until all of its memory is registered. */
void stage_prepare(struct link *link, const char *addresses, unsigned shard, struct smd_extent pool,
	size_t largest);

/* How many objects there are before a lane, when one has been there: its card stays open. */
unsigned stage_idle(struct link *link);

/* Begins to connect. */
void peer_begin(struct peer *peer, struct link *link);
/* The same until the address, the route is known; until the lane has asked. */
void peer_resolve(struct peer *peer, struct link *link);
void peer_ask(struct peer *peer, struct link *link);
/* The other end accepts with what it has to say; its trial comes, and the lane is open. Counts
 * begin at 0 after the trials, and script_sends() leaves the lane's own out. */
void peer_accept(struct peer *peer, struct link *link);
void peer_try(struct peer *peer, struct link *link);
/* All of it, to an end with so many receive buffers. */
void peer_open_with(struct peer *peer, struct link *link, uint16_t receive_buffers);
void peer_open(struct peer *peer, struct link *link);
void peer_close(struct peer *peer, struct link *link);

/* As if so many messages and work requests had gone both ways before. */
void lane_count_from(struct rdma_lane *lane, uint32_t start);
void peer_count_from(struct peer *peer, uint32_t start);

/* Takes whatever is there for the lane. */
void peer_poll(struct peer *peer);

/* Writes these bytes into the lane's next receive buffer; tells that `told` bytes were. */
void peer_write(struct peer *peer, const uint8_t *bytes, size_t length, uint32_t told);
/* The trial, as the next message. */
void peer_write_trial(struct peer *peer);
/* The message that the lane has written as that one; *at: what follows its first bytes. */
struct smd_rdma_prefix peer_read(const struct peer *peer, uint32_t number, const uint8_t **at);
/* How many messages it has written, not counting writes of another kind. */
unsigned peer_messages(const struct peer *peer);

/* A message of a frame's beginning, with `piece` bytes of what parcel_byte() says. */
struct smd_rdma_prefix peer_prefix(const struct peer *peer, uint32_t rest);
void peer_begin_frame(struct peer *peer, uint64_t ordinal, uint32_t length, uint32_t piece);
/* And more of it, from that byte on. */
void peer_go_on(struct peer *peer, uint64_t ordinal, uint32_t from, uint32_t piece);
/* A whole frame in one message. */
void peer_frame(struct peer *peer, uint64_t ordinal, uint32_t length);
/* Tells in a write of its own how many were taken. */
void peer_tell_taken(struct peer *peer, uint32_t taken);

/* Where counts begin: at 0, before they reach 2^31, and before they begin anew. */
#define PEER_STARTS 3
extern const uint32_t peer_starts[PEER_STARTS];

/* Sends the frames of these numbers, of that length, and takes what follows from it. */
void peer_send_frames(
	struct peer *peer, struct parcel *parcels, unsigned from, unsigned to, uint32_t length);
/* Sends so many frames, and takes what follows. */
void peer_queue(struct peer *peer, struct parcel *parcels, unsigned n);
/* That frame of the lane's was the last that came into its receive buffer. */
void peer_assert_arrived(const struct peer *peer, unsigned ordinal);

/* The lane has ended, once, with that, and has said why. */
void end_assert_closed(const struct end *end, int err, const char *reason);

/* All of them are done, in order, the first `left` because they left, the others because they were
 * given back. */
void parcels_assert_done(const struct parcel *parcels, unsigned n, unsigned left);

/* So many control frames, from that number on. */
void peer_send_controls(struct peer *peer, unsigned from, unsigned n);
/* Closes the lane, which must not poll until something comes; then its owner is no more, and to use
 * it would crash. What is left of it is for peer_is_over(). */
struct end peer_close_and_poison(struct peer *peer);
/* All objects of the lane and its device are gone, but for the listener's: `idle`. */
void peer_is_over(struct peer *peer, struct link *link, struct end rest, unsigned idle);
void stage_assert_drains(struct link *link, unsigned idle);

/* parcel_send() with a remote buffer. */
void parcel_send_to(struct parcel *parcel, struct end *from, uint64_t ordinal, uint32_t length,
	struct smd_remote_buffer remote_buffer);

#endif
