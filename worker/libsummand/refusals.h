/*
 * When a table that a shard had no memory for is asked for again: a second and three seconds after
 * it was refused, while windows of other streams give way to it (5 s, engine/window.c), and then
 * after a pause that doubles, up to a minute.
 *
 *     refused +1 s refused +2 s refused +4 s refused +1 s refused +2 s refused +8 s ...
 *
 * Pauses alone would be longer than windows give way: each time they had grown again.
 */
#ifndef SMD_LIBSUMMAND_REFUSALS_H
#define SMD_LIBSUMMAND_REFUSALS_H

#include <stdint.h>

#include "reduction_server/base/clock.h"

#define SMD_REFUSALS_PAUSE_S      4u
#define SMD_REFUSALS_PAUSE_MOST_S 60u

struct smd_refusals {
	unsigned in_turn; /* at most 2 since the last pause */
	unsigned pause_s; /* that was the last one */
	uint64_t next_ns; /* nothing is asked for before */
};

static inline void smd_refusals_end(struct smd_refusals *refusals)
{
	*refusals = (struct smd_refusals){.next_ns = refusals->next_ns};
}

static inline void smd_refusals_add(struct smd_refusals *refusals, uint64_t now_ns)
{
	unsigned wait_s = ++refusals->in_turn;

	if (refusals->in_turn > 2) {
		wait_s = refusals->pause_s ? 2 * refusals->pause_s : SMD_REFUSALS_PAUSE_S;
		wait_s = wait_s < SMD_REFUSALS_PAUSE_MOST_S ? wait_s : SMD_REFUSALS_PAUSE_MOST_S;
		refusals->pause_s = wait_s;
		refusals->in_turn = 0;
	}
	refusals->next_ns = now_ns + wait_s * SMD_SECOND_NS;
}

#endif
