/*
 * Which collectives there are, and which ranks' parts and results carry elements
 * (specs/design/wire.md).
 *
 * In each of them every rank sends a part of every chunk and gets a result for it, because a result
 * is also a credit. Where there is nothing to say the payload is empty.
 */
#ifndef SMD_WIRE_COLLECTIVE_H
#define SMD_WIRE_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

/* X(constant, number, name) */
#define SMD_COLLECTIVES(X)                                                                         \
	X(SMD_COLLECTIVE_ALLREDUCE, 0, "all-reduce")                                               \
	X(SMD_COLLECTIVE_REDUCE, 1, "reduce")                                                      \
	X(SMD_COLLECTIVE_BROADCAST, 2, "broadcast")                                                \
	X(SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE, 3,                                                \
		"out-of-place broadcast") /* a broadcast that its root gets too */

enum smd_collective {
#define X(constant, number, name) constant = (number),
	SMD_COLLECTIVES(X)
#undef X
		SMD_COLLECTIVE_END
};

/* Something is computed; else the root's elements are passed on. */
static inline bool smd_collective_reduces(unsigned collective)
{
	return collective != SMD_COLLECTIVE_BROADCAST &&
	       collective != SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE;
}

/* The part of `rank` carries elements. */
static inline bool smd_collective_sends(unsigned collective, unsigned root, unsigned rank)
{
	return smd_collective_reduces(collective) || rank == root;
}

/* The result for `rank` carries elements. */
static inline bool smd_collective_receives(unsigned collective, unsigned root, unsigned rank)
{
	switch ((enum smd_collective)collective) { /* frames are checked: it is one of them */
	case SMD_COLLECTIVE_REDUCE:
		return rank == root;
	case SMD_COLLECTIVE_BROADCAST:
		return rank != root;
	case SMD_COLLECTIVE_ALLREDUCE:
	case SMD_COLLECTIVE_BROADCAST_OUT_OF_PLACE:
	case SMD_COLLECTIVE_END:
		break;
	}
	return true;
}

/* "all-reduce", or "collective 99". The text may be static or belong to the calling thread. */
const char *smd_collective_name(unsigned collective);

#endif
