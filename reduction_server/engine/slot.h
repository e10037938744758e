/*
 * One chunk on its way through a shard: gathered from every rank, reduced, sent to every rank.
 *
 * A communicator has 2W slots, and the chunk of ordinal k uses slot k mod 2W. Parts arrive in any
 * order of ranks and each into its own buffer; when the last is in, the shard reduces them in rank
 * order into the first one, gives the others back, and sends the same bytes to everyone who gets
 * any. In a broadcast the root's part is the result as it is. A part without elements has no
 * buffer.
 *
 * smd_slot_advance() is the only place that moves a slot on; smd_slot_set_state() the only writer
 * of the state.
 */
#ifndef SMD_ENGINE_SLOT_H
#define SMD_ENGINE_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/transport/transport.h"
#include "reduction_server/transport/turns.h"
#include "reduction_server/wire/frame.h"

struct smd_member;
struct smd_server_comm;
struct smd_resources;

#define SMD_SLOT_BIT(state) (1u << (state))

/* X(state, legal predecessors, meaning) */
#define SMD_SLOT_STATES(X)                                                                         \
	X(SMD_SLOT_FREE, SMD_SLOT_BIT(SMD_SLOT_SENDING) | SMD_SLOT_BIT(SMD_SLOT_DRAINING),         \
		"no chunk uses it")                                                                \
	X(SMD_SLOT_GATHERING, SMD_SLOT_BIT(SMD_SLOT_FREE), "waiting for the parts of some ranks")  \
	X(SMD_SLOT_REDUCING, SMD_SLOT_BIT(SMD_SLOT_GATHERING), "all parts are in")                 \
	X(SMD_SLOT_SENDING, SMD_SLOT_BIT(SMD_SLOT_REDUCING),                                       \
		"the result is on its way to some ranks")                                          \
	X(SMD_SLOT_DRAINING,                                                                       \
		SMD_SLOT_BIT(SMD_SLOT_GATHERING) | SMD_SLOT_BIT(SMD_SLOT_REDUCING) |               \
			SMD_SLOT_BIT(SMD_SLOT_SENDING),                                            \
		"the communicator is over; lanes still use its buffers")

enum smd_slot_state {
#define X(state, predecessors, meaning) state,
	SMD_SLOT_STATES(X)
#undef X
		SMD_SLOT_STATE_COUNT
};

struct smd_slot {
	struct smd_server_comm *comm;
	struct smd_resources *resources; /* the shard's */
	enum smd_slot_state state;
	uint64_t opened_ns;     /* when the first part began to arrive */
	struct smd_frame shape; /* the first part's header: what all others must say, too */
	uint32_t length;        /* bytes of the result; of a broadcast, when the root has sent */
	unsigned begun;         /* parts that have been announced */
	unsigned arrived;       /* parts that are whole */
	uint32_t ready;         /* bytes of the result that are reduced already (piece.h) */
	unsigned slowest;       /* whose part is the shortest; the number of ranks: not known */
	unsigned receiving;     /* parts that lanes are writing to */
	unsigned sending;       /* results that lanes are reading from, or will be given */
	unsigned window;        /* granted with the result */
	uint8_t lag;            /* before this ordinal, results that some rank lacks */
	uint8_t open;           /* and operations, as a frame says them */
	bool repaired;          /* some rank has the result already: */
	unsigned source;        /* this one */
	void **parts;           /* [nranks]; NULL: not begun, empty, or given back */
	struct smd_remote_buffer
		*remote_buffers; /* [nranks]: where this rank's result may be written to */
	struct smd_send *sends;  /* [nranks] */
	uint8_t *whole;          /* [nranks]: this rank's part has arrived */
	uint32_t *got;           /* [nranks]: bytes of it that are there */
};

/* Opens a FREE slot for the chunk that `frame` is a part of. */
void smd_slot_open(struct smd_slot *slot, const struct smd_frame *frame);

/*
 * Where the part that `frame` announces shall go; NULL when it is empty. `advertised`: a buffer
 * that was taken for it before, or NULL.
 */
void *smd_slot_receive(struct smd_slot *slot, const struct smd_frame *frame, void *advertised);
/* The part of `rank` is there, or (whole = 0) its lane ended before. */
void smd_slot_received(struct smd_slot *slot, unsigned rank, int whole);

/* Reduces up to that byte of the result. */
void smd_slot_reduce(struct smd_slot *slot, uint32_t end);
/* What is reduced, from its first byte on. */
const void *smd_slot_result(const struct smd_slot *slot);
/* Bytes of the result for the rank. */
uint32_t smd_slot_length_for(const struct smd_slot *slot, unsigned rank);
/* All members wait for their turns, for what is ready. */
void smd_slot_offer(struct smd_slot *slot);
/* The member waits for its turn, if there is anything for it. */
void smd_slot_wait(struct smd_member *member);

/* A member's turn: the next of its results is given to its lane. */
void smd_slot_take_turn(struct smd_turn *turn);
/* The results that wait for their turn on the member's lane are given to it at once: something is
 * to be said to the member that must come behind them. */
void smd_slot_send_waiting(struct smd_member *member);
/* They are given to nobody: the member has been detached from the communicator. */
void smd_slot_drop_waiting(struct smd_server_comm *comm, struct smd_member *member);

/* Moves the slot as far as it goes now. */
void smd_slot_advance(struct smd_slot *slot);

const char *smd_slot_state_name(enum smd_slot_state state);

#endif
