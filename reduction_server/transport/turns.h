/*
 * Who sends next on a lane.
 *
 * A lane is a queue: what it has been given leaves in that order. So it is given little at a time,
 * and those who have more for it *wait for a turn*: one for each communicator of a process. When
 * the lane has room, the next of them is asked for one frame. Small frames go before large ones, so
 * that 4 KiB of one communicator do not wait for the 64 MiB of another; but of those that wait for
 * a large frame, the first has its turn once as many bytes of small ones have gone before it as its
 * own frame has. Among small ones, and among large ones, turns go round.
 *
 * Control frames do not wait for turns: they are given to the lane at once, behind the little that
 * it has. Somebody's own frames stay in order; what must not overtake them (ABORT, LEAVE) is said
 * when none of his waits any more.
 *
 * While somebody waits, the lane has something that has not left: its done() asks the next one.
 */
#ifndef SMD_TRANSPORT_TURNS_H
#define SMD_TRANSPORT_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "reduction_server/transport/transport.h"

#define SMD_TURN_SMALL (16u << 10) /* bytes of payload, at most */

/* One who has frames for the lane. */
struct smd_turn {
	/* Gives one frame to smd_turns_send(), if there is still one, and waits again if there are
	 * more. */
	void (*take)(struct smd_turn *turn);
	uint32_t bytes; /* of the frame's payload */
	bool waits;
	TAILQ_ENTRY(smd_turn) link;
};
TAILQ_HEAD(smd_turn_queue, smd_turn);

struct smd_turns {
	struct smd_lane *lane; /* NULL: there is none now */
	struct smd_turn_queue small;
	struct smd_turn_queue large;
	uint64_t overtaken;    /* bytes of small frames that have left since a large one waits */
	uint64_t held;         /* bytes that the lane has been given, and that have not left */
	bool giving;           /* somebody has his turn, */
	bool again;            /* and meanwhile somebody else was to have one */
	const void *in_pieces; /* whose long frame goes in pieces now; NULL: nobody's */
};

void smd_turns_begin(struct smd_turns *turns, struct smd_lane *lane);
/* The lane's share of its link is so much: what the kernel holds of it is limited to what keeps it
 * busy until this thread is there again. */
void smd_turns_pace(struct smd_turns *turns, uint32_t mbps);
/* Before the lane is closed: nobody waits any more. */
void smd_turns_end(struct smd_turns *turns);

/* Waits, if it does not yet, for a frame with that payload; the lane may have room for it. */
void smd_turns_wait(struct smd_turns *turns, struct smd_turn *turn, uint32_t bytes);
/* Waits no longer. */
void smd_turns_forget(struct smd_turns *turns, struct smd_turn *turn);

/* Gives one of those who wait his turn, if the lane has room; whether it did. Others get theirs too where
 * what was sent by it has left at once. */
bool smd_turns_step(struct smd_turns *turns);
/* As many as there is room for. */
void smd_turns_run(struct smd_turns *turns);

/* smd_lane_send(), of one who has his turn, or who cannot wait for it. The send's done() says
 * smd_turns_sent(). */
void smd_turns_send(struct smd_turns *turns, struct smd_frame *frame, struct smd_send *send);

/* The send has left, or (err) will not: then somebody runs the others later, if the lane stays. */
void smd_turns_sent(struct smd_turns *turns, const struct smd_send *send, int err);

#endif
