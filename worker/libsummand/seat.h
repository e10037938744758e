/*
 * A rank's *seat*: the processor on which its callers wait for small operations, where ranks are at
 * least as many as the processors of their machine (specs/design/exchange.md).
 *
 * The kernel leaves threads that poll where they are: three on one processor and one on the other,
 * or the two that sum at a time side by side, for seconds. So ranks of a machine sit in turns, and
 * who finds itself elsewhere moves to its seat. It is not bound: its processors are narrowed for
 * that moment only, and nothing is done with a thread that somebody has bound, or that is in a
 * container with fewer processors than the machine. If others move it away again and again, or it
 * has to wait for that processor, the seat is left for a while.
 *
 * A communicator has one. Threads that want it at once do not wait for each other: one of them may
 * move. To choose and to clear it is the owner's (progress.h).
 */
#ifndef SMD_LIBSUMMAND_SEAT_H
#define SMD_LIBSUMMAND_SEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct smd_seat {
	_Atomic uint64_t look_ns; /* where a thread runs is not asked before; 0: there is no seat */
	atomic_flag taken;        /* some thread is about to move, and what follows is its */
	unsigned ranks;           /* on this machine */
	unsigned index;           /* of the processor, among all of the machine */
	int processor;            /* its number; -1: to be looked up */
	uint64_t moved_ns;        /* the last time, since it was left; 0: not yet */
	unsigned in_vain;         /* so many moves before did not last */
	uint64_t left_ns; /* it was left for so long the last time; 0: the last move has lasted */
};

/* Once: the `index`-th of so many ranks on this machine, if it has no more processors. `first`:
 * where the first rank of the job sits; jobs differ. */
void smd_seat_choose(struct smd_seat *seat, unsigned index, unsigned ranks, uint64_t first);

/* There is none any more. */
static inline void smd_seat_clear(struct smd_seat *seat)
{
	atomic_store(&seat->look_ns, 0);
}

/* Whether a thread that begins to wait at that time should take it. */
static inline bool smd_seat_is_due(const struct smd_seat *seat, uint64_t now)
{
	uint64_t look_ns = atomic_load_explicit(&seat->look_ns, memory_order_relaxed);

	return look_ns && now >= look_ns;
}

/* It does: whether it was moved. */
bool smd_seat_take(struct smd_seat *seat, uint64_t now);

#endif
