/*
 * A result that begins to leave while its chunk is still coming in.
 *
 * Large chunks cost few messages, but a result that waits for the last byte of all parts leaves a
 * link idle for as long as a chunk takes. So as soon as all ranks have begun a part, what has come
 * of all of them is reduced and sent, in *pieces*: each a RESULT of the same ordinal that goes on
 * where the one before ended. Where parts arrive faster than the shard looks they are whole by
 * then, and a result is one frame. Sums have the same bits, because elements are summed one by one.
 *
 * Only the first chunk that is not reduced has pieces, and of all communicators of a lane one at a
 * time: the other end keeps a result that is not whole beside the buffer that it is for. To lanes
 * with remote buffers a result goes whole.
 */
#ifndef SMD_ENGINE_PIECE_H
#define SMD_ENGINE_PIECE_H

#include <stdint.h>

#include "reduction_server/transport/transport.h"

struct smd_member;
struct smd_slot;

#define SMD_PIECE_BYTES 16384u /* a shorter one costs more in calls than it saves */

/* On its way to a rank. */
struct smd_piece {
	struct smd_send send;
	struct smd_slot *slot; /* NULL: none is */
};

/* Of the rank's part so many bytes are there. */
void smd_piece_grow(struct smd_slot *slot, unsigned rank, uint32_t bytes);

/* How many bytes could go to the member now; 0: its next frame is a whole result, if any. */
uint32_t smd_piece_waiting(const struct smd_member *member);

/* Gives them to its lane. It has the turn. */
void smd_piece_send(struct smd_member *member);

/* The rest of the result is given to the lane, or nothing more of it will be: the lane is there for
 * other communicators' pieces. */
void smd_piece_end(struct smd_member *member);

#endif
