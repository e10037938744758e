/* Measures for how long a shard that answers has done nothing. */
#include "worker/libsummand/stall.h"

#define POLLS 4 /* in the limit: a longer time between two of them is our own pause */

/* The answer to the next PING is awaited. */
static enum smd_stall_state stall_ask(struct smd_stall *stall, enum smd_stall_state state)
{
	stall->state = state;
	stall->awaited = stall->asked + 1;
	return state;
}

enum smd_stall_state smd_stall_poll(
	struct smd_stall *stall, bool owed, uint64_t now_ns, uint64_t limit_ns)
{
	uint64_t passed = now_ns - stall->looked_ns;
	bool answered = stall->answered >= stall->awaited;

	stall->looked_ns = now_ns;
	if (!owed || stall->busy || stall->frames != stall->seen) {
		stall->seen = stall->frames;
		stall->state = SMD_STALL_NONE;
		return SMD_STALL_NONE;
	}
	switch (stall->state) {
	case SMD_STALL_NONE:
		return stall_ask(stall, SMD_STALL_ASKED);
	case SMD_STALL_ASKED:
		if (answered) {
			stall->state = SMD_STALL_COUNTING;
			stall->passed_ns = 0;
		}
		break;
	case SMD_STALL_COUNTING:
		stall->passed_ns += passed < limit_ns / POLLS ? passed : limit_ns / POLLS;
		if (stall->passed_ns >= limit_ns) {
			return stall_ask(stall, SMD_STALL_LAST);
		}
		break;
	case SMD_STALL_LAST:
		if (answered) {
			stall->state = SMD_STALL_OVER;
		}
		break;
	case SMD_STALL_OVER:
		break;
	}
	return stall->state == SMD_STALL_OVER ? SMD_STALL_OVER : SMD_STALL_NONE;
}
