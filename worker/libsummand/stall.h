/*
 * Whether a shard that answers still does its work.
 *
 * A shard that owes something has something to say: JOINED, a result, or at least every
 * SMD_LATE_MOST_S who is late. Answers to PING alone show a process that runs and a part of it that
 * does not. So when nothing else has come for long the lane is given up.
 *
 * That neither a slow link nor a full one is taken for it: the time counts from the answer to a
 * PING that was sent behind all that the shard needs for it, and ends with the answer to another
 * one. A lane keeps its order, so what the shard had said before would have come by then.
 */
#ifndef SMD_LIBSUMMAND_STALL_H
#define SMD_LIBSUMMAND_STALL_H

#include <stdbool.h>
#include <stdint.h>

enum smd_stall_state {
	SMD_STALL_NONE,     /* nothing is owed, or it does its work */
	SMD_STALL_ASKED,    /* does it have all that it needs? */
	SMD_STALL_COUNTING, /* it has */
	SMD_STALL_LAST,     /* has it said anything that is still on its way? */
	SMD_STALL_OVER      /* it has not */
};

struct smd_stall {
	enum smd_stall_state state;
	bool busy;         /* a frame is coming in */
	uint64_t frames;   /* whole ones that have come, but PING and PONG */
	uint64_t asked;    /* PINGs sent, */
	uint64_t answered; /* and PONGs received */
	uint64_t seen;     /* of `frames`, at the last poll */
	uint64_t awaited;  /* of `answered`, to go on */
	uint64_t looked_ns;
	uint64_t passed_ns; /* since it counts, as far as we were looking */
};

/*
 * From time to time: `owed`: the shard owes something for which all has left. SMD_STALL_ASKED and
 * SMD_STALL_LAST come back once each: say PING then, and count it in `asked`. SMD_STALL_OVER: it
 * has done nothing for as long as the limit.
 */
enum smd_stall_state smd_stall_poll(
	struct smd_stall *stall, bool owed, uint64_t now_ns, uint64_t limit_ns);

#endif
